// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// wishKind is what a writer requests of a reconciler for a key.
type wishKind uint8

const (
	kept    wishKind = iota // nothing new: the status stays, with its ID
	wanted                  // Pending with a fresh ID
	vouched                 // Done: the writer states that the target has it
	unset                   // no status: the reconciler does not touch the row
	deleted
)

func (k wishKind) String() string {
	return [...]string{"kept", "wanted", "vouched", "unset", "deleted"}[k]
}

// wish is what a writer last requested for a key and a reconciler. A rewrite of the row with the
// same status ID is no new wish. Numbers grow with the revisions, over all keys.
type wish struct {
	number   int
	kind     wishKind
	revision statedb.Revision
	at       time.Time
}

// operation is one operation on the target.
type operation struct {
	wish           int
	deletes        bool
	revision       statedb.Revision
	by             *instance
	started, ended time.Time
	over, applied  bool
	cancelled      bool
	// kind is the kind of status that the operation leads to. result is the text of its error.
	kind   reconciler.StatusKind
	result string
}

// ledger holds everything that happened to one key at one target, in order.
type ledger struct {
	wishes     []wish
	operations []*operation
	// pruned is the number of the latest deletion that a prune carried out.
	pruned int
	// shown is the last status beside the table that was seen, of the row at a revision.
	shown   reconciler.StatusKind
	shownAt statedb.Revision
}

// last returns the latest wish up to a revision; the zero wish if there is none.
func (l *ledger) last(upTo statedb.Revision) (w wish) {
	for _, next := range l.wishes {
		if next.revision <= upTo {
			w = next
		}
	}
	return w
}

func (l *ledger) latest() wish { return l.last(^statedb.Revision(0)) }

// lived reports whether an operation was started for the row that a deletion removed. Without one
// the target cannot have the object.
func (l *ledger) lived(deletion int) bool {
	before := 0
	for _, w := range l.wishes {
		if w.kind == deleted && w.number < deletion {
			before = w.number
		}
	}
	return slices.ContainsFunc(l.operations, func(o *operation) bool {
		return !o.deletes && o.wish > before && o.wish < deletion
	})
}

// has reports whether an operation for the wish of d, or for a later one, has ended; if m is
// Applied, whether it has succeeded.
func (l *ledger) has(d todo, m reconciler.Milestone) bool {
	return d.deleted && l.pruned >= d.wish || slices.ContainsFunc(l.operations, func(o *operation) bool {
		since := o.ended
		if d.refresh {
			since = o.started
		}
		return o.over && o.wish >= d.wish && !since.Before(d.since) && (m == reconciler.Attempted || o.applied)
	})
}

// record is the history's account of the wishes of the writers and the operations of the targets,
// by reconciler and key.
type record struct {
	mu      sync.Mutex
	numbers int
	ledgers [2]map[uint64]*ledger
	pauses  [2][]pausedSpan
	// reapplied has the calls of Reapply, for each key that they name.
	reapplied  [2]map[uint64][]time.Time
	violations []string
	// events lists what else happened; it is printed when the history fails.
	events []string
	// muted: there are enough violations, and no more are recorded.
	muted bool
}

// pausedSpan is the time for which one object was paused or, if key is 0, all objects of a parity.
type pausedSpan struct {
	key, odd uint64
	from, to time.Time
}

func newRecord() *record {
	return &record{
		ledgers:   [2]map[uint64]*ledger{{}, {}},
		reapplied: [2]map[uint64][]time.Time{{}, {}},
	}
}

// reapplies records that Reapply is called.
func (r *record) reapplies(slot int, objs []*historyRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, obj := range objs {
		r.reapplied[slot][obj.ID] = append(r.reapplied[slot][obj.ID], time.Now())
	}
}

// voided reports whether the success of an operation does not count, because Reapply may have been called while its key
// was in flight: after the end of the operation before it. In a batch that is long before the turn of the key. late is how
// long after the end of an operation the loop may still count its key as in flight.
func (r *record) voided(slot int, key uint64, l *ledger, o *operation, late time.Duration) bool {
	return o.applied && slices.ContainsFunc(r.reapplied[slot][key], func(at time.Time) bool {
		return !at.After(o.ended.Add(late)) && !slices.ContainsFunc(l.operations, func(before *operation) bool {
			return before != o && !before.ended.Before(at) && !before.ended.After(o.started)
		})
	})
}

// foreign reports whether an operation ran for a wish with the status of another process, and the row was written again
// since: a later version with this status may ask for something else.
func (o *operation) foreign(revision statedb.Revision) bool {
	return o.wish%10 == 0 && revision != o.revision
}

// ledger is called with the lock held.
func (r *record) ledger(slot int, key uint64) *ledger {
	l := r.ledgers[slot][key]
	if l == nil {
		l = &ledger{}
		r.ledgers[slot][key] = l
	}
	return l
}

// wish is called by a writer before it commits, with the revision of its write.
func (r *record) wish(slot int, key uint64, number int, kind wishKind, revision statedb.Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.ledger(slot, key)
	l.wishes = append(l.wishes, wish{number, kind, revision, time.Now()})
}

func (r *record) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.numbers++
	return r.numbers
}

// event records something for the report of a failed history.
func (r *record) event(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, clock(time.Now())+" "+fmt.Sprintf(format, args...))
}

func (r *record) violate(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violateLocked(format, args...)
}

func (r *record) violateLocked(format string, args ...any) {
	if !r.muted {
		r.violations = append(r.violations, fmt.Sprintf(format, args...))
		r.muted = len(r.violations) >= 8
	}
}

// start records that an operation begins. It checks (b), and the part of (d) that concerns one key.
func (r *record) start(slot int, by *instance, key uint64, number int, deletes bool, revision statedb.Revision) *operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.ledger(slot, key)
	bad := func(format string, args ...any) {
		what := fmt.Sprintf(format, args...)
		r.violateLocked("%s: %s at revision %d for wish %d, at %s\n%s", what, operationName(slot, key, deletes), revision, number, clock(time.Now()), l)
	}
	if w := l.last(revision); deletes {
		number = w.number
		if number > 0 && w.kind != deleted {
			bad("(d) the row is not deleted")
		}
	} else if w.number != number {
		bad("(d) that revision is of wish %d", w.number)
	} else if w.kind == unset {
		bad("(d) the row is unset")
	}
	o := &operation{wish: number, deletes: deletes, revision: revision, by: by, started: time.Now()}
	for _, before := range l.operations {
		if !before.over {
			bad("(d) another operation of the key runs")
		}
		// A resync may find an object whose deletion is already on its way.
		twice := before.deletes && deletes && before.wish == number
		if before.wish > number || before.revision > revision && !twice {
			bad("(b) one for wish %d at revision %d has started", before.wish, before.revision)
			break
		}
	}
	l.operations = append(l.operations, o)
	return o
}

func operationName(slot int, key uint64, deletes bool) string {
	if deletes {
		return fmt.Sprintf("delete(%d) by %d", key, slot)
	}
	return fmt.Sprintf("update(%d) by %d", key, slot)
}

// end records the result of an operation.
func (r *record) end(o *operation, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.over, o.ended = true, time.Now()
	o.kind = kindOf(err)
	o.applied = o.kind == reconciler.StatusKindDone
	o.cancelled = errors.Is(err, context.Canceled)
	if err != nil {
		o.result = err.Error()
	}
}

// kindOf returns the kind of status that an update leads to.
func kindOf(err error) reconciler.StatusKind {
	switch {
	case err == nil || !failed(err):
		return reconciler.StatusKindDone
	case reconciler.IsBlocked(err):
		return reconciler.StatusKindBlocked
	}
	return reconciler.StatusKindError
}

// todo is work of a reconciler for a key that is not done when a wait begins.
type todo struct {
	key     uint64
	wish    int
	deleted bool
	refresh bool
	// revision is that of the row; 0 for a deletion.
	revision statedb.Revision
	// since: operations that ended earlier do not count; for a refresh, operations that began earlier.
	since time.Time
}

func (d todo) String() string {
	text := fmt.Sprintf("wish %d", d.wish)
	if d.deleted {
		text = "the deletion, " + text
	}
	if d.refresh {
		text = "a refresh of " + text
	}
	if !d.since.IsZero() {
		text += " since " + clock(d.since)
	}
	return text
}

// todos returns the unreconciled keys of a snapshot up to a revision: rows whose status shows it,
// and deletions that are not carried out and that the loop can know of.
func (s *slot) todos(txn statedb.ReadTxn, until statedb.Revision, m reconciler.Milestone, by *instance) (todos []todo) {
	for row, revision := range s.h.table.All(txn) {
		st := s.status(txn, row)
		d := todo{key: row.ID, wish: row.Wishes[s.index], revision: revision}
		switch st.Kind {
		case reconciler.StatusKindPending:
		case reconciler.StatusKindRefreshing:
			d.refresh, d.since = true, st.UpdatedAt
		case reconciler.StatusKindError, reconciler.StatusKindBlocked:
			if m == reconciler.Attempted {
				continue
			}
			d.since = st.UpdatedAt
		default:
			continue
		}
		if revision <= until {
			todos = append(todos, d)
		}
	}
	r, at := s.h.record, s.h.table.Revision(txn)
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, l := range r.ledgers[s.index] {
		w := l.last(at)
		d := todo{key: key, wish: w.number, deleted: true}
		if w.kind == deleted && w.revision <= until && w.revision > by.from && l.lived(w.number) && !l.has(d, reconciler.Applied) {
			todos = append(todos, d)
		}
	}
	return todos
}

// checkRevisionWait checks (a) for waits for a revision: each todo has been attempted or applied,
// or its key has a newer wish, or Attempted counts it although it was not attempted.
func (s *slot) checkRevisionWait(what string, todos []todo, m reconciler.Milestone, began time.Time) {
	r := s.h.record
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range todos {
		l := r.ledger(s.index, d.key)
		if l.has(d, m) || l.latest().number > d.wish || s.written(d) || m == reconciler.Attempted && (s.held(l, d) || r.paused(s.index, d.key, began)) {
			continue
		}
		r.violateLocked("(a) %s of %d, begun at %s, ended at %s, but this is not done for key %d: %s\n%s",
			what, s.index, clock(began), clock(time.Now()), d.key, d, l)
		return
	}
}

// written reports whether the row of a todo was written again. Beside the table that counts as a later
// change, which a wait for a revision does not cover.
func (s *slot) written(d todo) bool {
	if !s.beside || d.revision == 0 {
		return false
	}
	_, revision, found := s.h.table.Get(s.h.db.ReadTxn(), historyIndex.Query(d.key))
	return !found || revision != d.revision
}

// checkUnapplied checks (a) for the result of a wait: it lists each todo that is neither applied
// nor replaced by a newer wish. It checks nothing if a third party has rewritten
// rows, if there are two reconcilers, or if the list is incomplete.
func (s *slot) checkUnapplied(what string, todos []todo, unapplied inspect.Unapplied, began time.Time) {
	r := s.h.record
	if unapplied.More > 0 || s.h.rewrites.Load() || len(s.h.slots) > 1 {
		return
	}
	listed := map[string]bool{}
	for _, u := range unapplied.Keys {
		listed[string(u.Key)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range todos {
		l := r.ledger(s.index, d.key)
		if !listed[string(historyIndex.FromKey(d.key))] && !l.has(d, reconciler.Applied) && l.latest().number == d.wish {
			r.violateLocked("(a) %s of %d, begun at %s, does not list key %d, of which this is not done: %s\n%s",
				what, s.index, clock(began), d.key, d, l)
			return
		}
	}
}

// checkObjectWait checks (a) for waits for objects. These also wait for later wishes.
func (s *slot) checkObjectWait(todos []todo, m reconciler.Milestone, began time.Time) {
	r := s.h.record
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range todos {
		l := r.ledger(s.index, d.key)
		done := l.has(d, m) || m == reconciler.Attempted && r.paused(s.index, d.key, began)
		for _, w := range l.wishes {
			over := w.kind == vouched || w.kind == unset || w.kind == deleted && (!l.lived(w.number) || l.pruned >= w.number)
			done = done || w.number > d.wish && over
		}
		if !done {
			r.violateLocked("(a) WaitFor(%s) of %d, begun at %s, ended at %s, but this is not done for key %d: %s\n%s",
				m, s.index, clock(began), clock(time.Now()), d.key, d, l)
			return
		}
	}
}

// held reports whether a todo may have waited for its minimum backoff.
func (s *slot) held(l *ledger, d todo) bool {
	written := d.since
	for _, w := range l.wishes {
		if w.number == d.wish && w.at.After(written) {
			written = w.at
		}
	}
	return slices.ContainsFunc(l.operations, func(o *operation) bool {
		return o.over && !o.applied && o.ended.Add(s.minBackoff+s.lateness()).After(written)
	})
}

// lateness bounds how late a loop that runs its operations in line may observe a change.
const lateness = 100 * time.Millisecond

// lateness returns how late the loop may process the results of its operations. With a limit on
// rounds, or beside operations that take very long, this is the time until the next round.
func (s *slot) lateness() time.Duration {
	if s.target.sticks || s.roundsLimited.Load() {
		return time.Hour
	}
	return lateness
}

// paused reports whether the key, or the keys of its parity, were paused after a time.
func (r *record) paused(slot int, key uint64, after time.Time) bool {
	return slices.ContainsFunc(r.pauses[slot], func(p pausedSpan) bool {
		return (p.key == key || p.key == 0 && key%2 == p.odd) && (p.to.IsZero() || p.to.Add(lateness).After(after))
	})
}

// checkStopped checks (d) after a stop: the outcome of each operation is written, unless the stop has
// cancelled it, Reapply has voided it, or the row cannot be told from another wish.
func (s *slot) checkStopped(by *instance) {
	r := s.h.record
	txn := s.h.db.ReadTxn()
	r.mu.Lock()
	defer r.mu.Unlock()
	for row, revision := range s.h.table.All(txn) {
		l := r.ledger(s.index, row.ID)
		for _, o := range l.operations {
			counts := o.by == by && !o.deletes && o.wish == row.Wishes[s.index] && o.over && !o.cancelled &&
				!r.voided(s.index, row.ID, l, o, s.lateness()) && !o.foreign(revision)
			if counts && !s.beside && s.get(row).Kind == reconciler.StatusKindPending {
				r.violateLocked("(d) stopped at %s, but reconciler %d did not write the outcome of key %d\n%s", clock(time.Now()), s.index, row.ID, l)
				return
			}
		}
		for _, o := range l.operations {
			if !o.over {
				r.violateLocked("(d) stopped, but an operation of key %d still runs\n%s", row.ID, l)
				return
			}
		}
	}
}

// checkConverged checks (d) at the end, when the target works and the writers have stopped. pruned:
// a prune has deleted what earlier loops may have left.
func (s *slot) checkConverged(pruned bool) {
	h, r := s.h, s.h.record
	txn := h.db.ReadTxn()
	holds := s.target.holds()
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := map[uint64]bool{}
	for row := range h.table.All(txn) {
		rows[row.ID] = true
		l := r.ledger(s.index, row.ID)
		w, st := l.latest(), s.status(txn, row)
		switch {
		case w.number != row.Wishes[s.index] || w.kind == deleted:
			r.violateLocked("(d) the row of key %d has wish %d\n%s", row.ID, row.Wishes[s.index], l)
		case w.kind == unset && st.Kind != reconciler.StatusKindUnset, w.kind != unset && st.Kind != reconciler.StatusKindDone:
			r.violateLocked("(d) the row of key %d has status %s of reconciler %d\n%s", row.ID, st, s.index, l)
		case w.kind == wanted && holds[row.ID] != w.number:
			r.violateLocked("(d) target %d has wish %d of key %d\n%s", s.index, holds[row.ID], row.ID, l)
		}
	}
	for key, l := range r.ledgers[s.index] {
		if l.latest().number > 0 && (l.latest().kind != deleted) != rows[key] {
			r.violateLocked("(d) key %d: in the table: %t\n%s", key, rows[key], l)
		}
	}
	for key, number := range holds {
		l := r.ledger(s.index, key)
		known := slices.ContainsFunc(l.operations, func(o *operation) bool { return o.by == s.running })
		if !rows[key] && (known || pruned) {
			r.violateLocked("(d) target %d keeps wish %d of key %d, which is deleted; pruned: %t\n%s", s.index, number, key, pruned, l)
		}
	}
}

// String lists the latest events of the key, in order.
func (l *ledger) String() string {
	type line struct {
		at   time.Time
		rank int
		text string
	}
	var lines []line
	for _, w := range l.wishes {
		lines = append(lines, line{w.at, 0, fmt.Sprintf("wish %d at revision %d: %s", w.number, w.revision, w.kind)})
	}
	for _, o := range l.operations {
		op := "update"
		if o.deletes {
			op = "delete"
		}
		lines = append(lines, line{o.started, 1, fmt.Sprintf("%s for wish %d at revision %d starts", op, o.wish, o.revision)})
		if o.over {
			lines = append(lines, line{o.ended, 2, fmt.Sprintf("%s for wish %d ends: %q", op, o.wish, o.result)})
		}
	}
	if l.pruned > 0 {
		lines = append(lines, line{time.Now(), 3, fmt.Sprintf("a prune carried out wish %d", l.pruned)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	lines = lines[max(0, len(lines)-24):]
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "    %s %s\n", clock(line.at), line.text)
	}
	return b.String()
}

// clock returns the time of day in a bubble, which begins at midnight.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

// isEnd reports whether a wait ended because its context or its loop ended.
func isEnd(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, inspect.ErrStopped)
}
