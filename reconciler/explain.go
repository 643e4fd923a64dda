// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/status"
)

const (
	// maxAhead bounds how many are counted that come before an object, and explained how
	// many of its operations an explanation has.
	maxAhead  = 1000
	explained = 10
)

// ID says which reconciler this is. It implements [Inspector].
func (l *Loop[Obj]) ID() ID {
	return ID{Module: l.cfg.ModuleID.String(), Name: l.opts.name, Table: l.cfg.Table.Name()}
}

// Explain says why an object is, or is not, reconciled: in which state it is and since
// when, how often it failed and with what, when it is tried again or what it waits for,
// what is ahead of it, and what its last operations came back with.
//
// The key is what the table's primary index makes of the text, as with the commands of
// statedb, or else the text as it is, in quotes or, after "0x", in hexadecimal; a program
// that has an object passes string(key). What has been deleted, too, is told of as long as
// the reconciler has it to do.
//
// The cost does not grow with the table. The reconciler is asked between two rounds; one
// that is stuck in an operation is given 100 ms, and then named with what it does, while
// the rest is told from the row. Safe from any goroutine.
func (l *Loop[Obj]) Explain(ctx context.Context, key string) Explanation {
	told, why := askBriefly(ctx, l, func(*books[Obj]) sight[Obj] { return l.look(key) })
	if why != "" {
		told = l.glance(key)
	}
	x := Explanation{
		Reconciler: l.ID().String(), Key: l.nameOfKey(&told), At: time.Now(),
		Found: told.found, Revision: told.revision,
	}
	if told.found {
		s := l.cfg.GetStatus(told.row)
		x.Status, x.Revision = s.Kind.String(), told.revision
		x.Since = s.UpdatedAt
		if told.standing != nil {
			x.Wanted = l.writtenAt(told.row, told.standing.Wanted)
		}
	}
	switch {
	case told.standing != nil:
		l.explainStanding(&x, &told)
	case why != "":
		l.explainUnasked(&x, &told)
	default:
		l.explainRow(&x, &told)
	}
	x.Notes = l.notes(&told, why)
	x.Events = l.eventsOf([]index.Key{told.key}, EventQuery{Limit: explained})
	if n := len(x.Events); n > 0 && x.LastAttempt.IsZero() {
		x.LastAttempt = x.Events[n-1].At
	}
	return x
}

// sight is what was seen of an object: its row in a snapshot, and what the loop knew then.
type sight[Obj any] struct {
	txn      statedb.ReadTxn
	key      index.Key
	row      Obj
	revision statedb.Revision
	found    bool
	// standing is nil if the loop has no entry for the key. seen: it has looked at the
	// row's revision.
	standing *core.Standing[Obj]
	seen     bool
	whole    bool
	breakers []core.OpenBreaker
}

// look is called by the goroutine of the loop.
func (l *Loop[Obj]) look(text string) sight[Obj] {
	s := l.sight(text, func(key index.Key) bool {
		_, ok := l.core.StandingOf(string(key), 0)
		return ok
	})
	if standing, ok := l.core.StandingOf(string(s.key), maxAhead); ok {
		s.standing = &standing
	}
	s.seen = l.observer.saw(s.revision)
	s.whole, s.breakers = l.pause.whole, l.core.OpenBreakers()
	return s
}

// glance is look for when the loop cannot be asked.
func (l *Loop[Obj]) glance(text string) sight[Obj] {
	s := l.sight(text, func(index.Key) bool { return false })
	l.book.mu.Lock()
	defer l.book.mu.Unlock()
	s.whole, s.breakers = l.book.standing.paused, l.book.standing.breakers
	return s
}

// sight finds the object that a text means: one of which the table or the loop knows, if
// there is any.
func (l *Loop[Obj]) sight(text string, known func(index.Key) bool) sight[Obj] {
	txn := l.cfg.DB.ReadTxn()
	s := sight[Obj]{txn: txn}
	keys := l.rawKeys(text)
	for _, key := range keys {
		s.key = key
		if s.row, s.revision, s.found = l.byKey(txn, key); s.found || known(key) {
			return s
		}
	}
	s.key = keys[0]
	return s
}

func (l *Loop[Obj]) nameOfKey(s *sight[Obj]) string {
	switch {
	case s.found:
		return l.nameOf(s.row)
	case s.standing != nil:
		return l.nameOf(s.standing.Obj)
	}
	return rawName(s.key)
}

// explainStanding explains an object of which the loop knows.
func (l *Loop[Obj]) explainStanding(x *Explanation, s *sight[Obj]) {
	st := s.standing
	x.Deleted = st.Deleted
	x.Attempts, x.Error = st.Failures, st.Failure
	if st.Attempted {
		x.LastAttempt = l.timeOf(st.LastAttempt)
	}
	if st.Deleted {
		x.Wanted, x.Since, x.Revision = l.timeOf(st.Wanted), l.timeOf(st.Wanted), st.Revision
	}
	if st.Timed {
		x.Next = l.timeOf(st.Due)
	}
	if st.Attempted && st.State != core.Ready {
		x.Since = x.LastAttempt
	}
	l.explainState(x, s)
	if s.whole && x.State != StateInFlight && x.State != StateStuck {
		x.Why = "the reconciler is paused; without that: " + x.Why
		x.State, x.Next = StatePaused, time.Time{}
	}
}

// what names what is to be done with an object.
func what(deleted bool) string {
	if deleted {
		return "its deletion"
	}
	return "its change"
}

func (l *Loop[Obj]) explainState(x *Explanation, s *sight[Obj]) {
	st := s.standing
	x.Ahead = st.Ahead
	switch st.State {
	case core.Ready, core.Planned:
		x.State, x.Lane = StateReady, st.Lane.String()
		x.Since = l.timeOf(st.Observed)
		x.Why = fmt.Sprintf("%s has been seen and waits for its turn, with %s before it in its lane (%s)",
			what(st.Deleted), count(st.Ahead, "object"), x.Lane)
		if b := everything(s.breakers); b != nil {
			x.State = StateTripped
			x.Why = fmt.Sprintf("%s waits for the breaker to close: %s", what(st.Deleted), b.Failure)
		}
	case core.InFlight:
		l.explainFlight(x, s)
	case core.Queued:
		x.State, x.Group, x.Holder = StateQueued, st.Group, l.nameOf(st.Holder)
		x.Why = fmt.Sprintf("another object of its group %q is being worked on: %s", x.Group, x.Holder)
	case core.Paused:
		x.State = StatePaused
		x.Why = what(st.Deleted) + " is paused"
	case core.Tripped:
		x.State = StateTripped
		x.Why = fmt.Sprintf("it failed, and the breaker for errors of its class, %q, is open", st.Class)
	case core.Awaited:
		x.State = StateUnseen
		x.Why = "it changed while it was worked on; the change is about to be looked at"
	case core.Held:
		x.State = StateHeld
		x.Why = "it changed, but failed so recently that it waits until its minimum backoff has passed"
	case core.Retry:
		x.State = StateRetry
		x.Why = fmt.Sprintf("it has failed %s in a row and waits for its retry", count(st.Failures, "time"))
		if b := everything(s.breakers); b != nil {
			x.State = StateTripped
			x.Why = fmt.Sprintf("it failed, and waits for the breaker to close: %s", b.Failure)
		}
	case core.Requeue:
		x.State = StateRequeue
		x.Why = "it is in the target, and asked to be run again"
	case core.Blocked:
		x.State = StateBlocked
		x.BlockedOn = l.reasonFor(s)
		x.Why = "its operation waits for something: " + x.BlockedOn
	case core.Terminal:
		x.State = StateTerminal
		x.Why = "it failed for good: it is left alone until it changes, is refreshed or retried by hand"
	}
}

// everything returns the breaker for all errors, if it is open.
func everything(breakers []core.OpenBreaker) *core.OpenBreaker {
	if len(breakers) > 0 && breakers[0].Class == "" {
		return &breakers[0]
	}
	return nil
}

// count returns a number of things as text.
func count(n int, thing string) string {
	if n == maxAhead {
		return fmt.Sprintf("at least %d %ss", n, thing)
	}
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// explainFlight explains an object that was handed to a worker.
func (l *Loop[Obj]) explainFlight(x *Explanation, s *sight[Obj]) {
	where, since := l.pool.flightOf(func(obj Obj) bool { return bytes.Equal(l.indexer.ObjectToKey(obj), s.key) })
	operation := OpUpdate
	if s.standing.Deleted {
		operation = OpDelete
	}
	x.State = StateInFlight
	if where == flightRunning || where == flightStuck {
		x.Since = l.timeOf(since)
	}
	switch where {
	case flightStuck:
		x.State = StateStuck
		x.Why = operation + " is running, ignores its deadline and was left behind: the object waits until it comes back"
	case flightRunning:
		x.Why = operation + " is running"
	case flightQueued:
		x.Why = operation + " has been handed to the workers, and waits for one to be free"
	default:
		x.Why = operation + " has ended, and its outcome is about to be written"
	}
}

// reasonFor returns what a blocked object waits for: what its status says, or, for a
// deletion, the journal.
func (l *Loop[Obj]) reasonFor(s *sight[Obj]) (reason string) {
	if s.found {
		if is := l.cfg.GetStatus(s.row); is.Kind == status.KindBlocked && is.Error != nil {
			return *is.Error
		}
	}
	if events := l.eventsOf([]index.Key{s.key}, EventQuery{Limit: 1}); len(events) > 0 {
		return events[0].Error
	}
	return "something that is not known any more"
}

// explainRow explains an object of which the loop, having been asked, knows nothing.
func (l *Loop[Obj]) explainRow(x *Explanation, s *sight[Obj]) {
	if !s.found {
		x.State = StateAbsent
		x.Why = "the table has no such object, and nothing is left to be done for one"
		return
	}
	is := l.cfg.GetStatus(s.row)
	switch {
	case is.Kind == status.KindUnset:
		x.State = StateNoStatus
		x.Why = "its status was never set, so that nobody reconciles it: whoever writes it has to set it to Pending"
	case is.IsPendingOrRefreshing():
		x.State = StateUnseen
		x.Wanted = is.UpdatedAt
		l.book.mu.Lock()
		standing := l.book.standing
		l.book.mu.Unlock()
		x.Ahead = min(maxAhead, max(0, int(s.revision)-int(standing.observed)-standing.passed-1))
		x.Why = "its change has not been looked at yet, with about " + count(x.Ahead, "change") + " before it"
		if s.whole {
			x.State = StatePaused
			x.Why = "the reconciler is paused; without that: " + x.Why
		} else if b := everything(s.breakers); b != nil {
			x.State = StateTripped
			x.Why = fmt.Sprintf("its change waits for the breaker to close: %s", b.Failure)
		}
	case is.Kind == status.KindDone:
		x.State = StateDone
		x.Why = "it is in the target"
	default:
		x.State, x.Error = StateNoStatus, errorOf(is)
		x.Why = fmt.Sprintf("somebody else has set its status to %s, which asks for nothing: whoever writes it has to set it to Pending", is.Kind)
	}
}

func errorOf(s Status) string {
	if s.Error == nil {
		return ""
	}
	return *s.Error
}

// explainUnasked explains an object as far as its row tells: the loop could not be asked.
func (l *Loop[Obj]) explainUnasked(x *Explanation, s *sight[Obj]) {
	x.State, x.Why = StateUnknown, "the reconciler could not be asked"
	if obj, operation, since, ok := l.busyWith(); ok && bytes.Equal(l.indexer.ObjectToKey(obj), s.key) {
		x.State, x.Since = StateInFlight, l.timeOf(since)
		x.Deleted = operation == OpDelete
		x.Why = operation + " is running, and the reconciler waits for it"
		return
	}
	if !s.found {
		return
	}
	is := l.cfg.GetStatus(s.row)
	x.Error = errorOf(is)
	switch {
	case is.Kind == status.KindUnset, is.Kind == status.KindDone:
		l.explainRow(x, s)
	case is.Kind == status.KindBlocked:
		x.State, x.BlockedOn, x.Error = StateBlocked, x.Error, ""
		x.Why = "its operation waits for something: " + x.BlockedOn
	case is.IsPendingOrRefreshing() && l.running.Load() && !l.stopped():
		x.State, x.Wanted = StateUnseen, is.UpdatedAt
		x.Why = "its change waits, since the reconciler is busy"
	}
}

// busyWith returns the object of the operation that the loop itself is running, if it is.
func (l *Loop[Obj]) busyWith() (obj Obj, operation string, since time.Duration, ok bool) {
	s := l.scope.Load()
	if s == nil {
		return obj, "", 0, false
	}
	return s.running()
}

// busy says what the loop itself is running; empty if nothing.
func (l *Loop[Obj]) busy() string {
	s := l.scope.Load()
	if s == nil {
		return ""
	}
	if obj, operation, since, ok := s.running(); ok {
		return fmt.Sprintf("%s of %s, running since %s", operation, l.nameOf(obj), l.timeOf(since).Format(time.RFC3339))
	}
	c := s.calling.Load()
	if c == nil {
		return ""
	}
	at := l.timeOf(c.since).Format(time.RFC3339)
	if c.objects == 0 {
		return fmt.Sprintf("%s, running since %s", c.operation, at)
	}
	return fmt.Sprintf("%s of %s in one batch, running since %s", c.operation, count(c.objects, "object"), at)
}

// notes are what holds of the whole reconciler and matters to an object. why is why it
// could not be asked.
func (l *Loop[Obj]) notes(s *sight[Obj], why string) (notes []string) {
	if why != "" {
		note := strings.Trim(why, " ()")
		if why == whyBusy {
			note = "the reconciler is busy"
		}
		if busy := l.busy(); busy != "" {
			note += ": " + busy
		}
		notes = append(notes, note)
	}
	if ready, _ := l.cfg.Table.Initialized(s.txn); !ready {
		notes = append(notes, fmt.Sprintf("the table is not initialised, so that nothing is pruned: it waits for %s",
			strings.Join(l.cfg.Table.PendingInitializers(s.txn), ", ")))
	}
	if s.whole {
		notes = append(notes, "the reconciler is paused")
	}
	for i := range s.breakers {
		notes = append(notes, l.breakerText(&s.breakers[i]))
	}
	return notes
}

// Events returns what the journal has of operations, the oldest first. An event that is
// older than the journal reaches is not among them; [WithJournal] says how far that is.
// The key is as [Loop.Explain] takes it. Safe from any goroutine; it does not wait for a
// running operation.
func (l *Loop[Obj]) Events(q EventQuery) []Event {
	var keys []index.Key
	if q.Key != "" {
		keys = l.rawKeys(q.Key)
	}
	return l.eventsOf(keys, q)
}

// eventsOf returns the events of the objects with some keys, nil for all, that a query asks
// for besides.
func (l *Loop[Obj]) eventsOf(keys []index.Key, q EventQuery) []Event {
	var events []Event
	var objects []Obj
	l.journal.visit(func(r *roundEntry, op *operationEntry[Obj]) bool {
		if r.Started.Before(q.Since) {
			return false
		}
		if keys != nil && !isOneOf(l.indexer.ObjectToKey(op.object), keys) {
			return true
		}
		record := l.journal.record(op)
		events = append(events, Event{
			Round: r.Sequence, At: r.Started,
			Operation: record.Operation, Cause: record.Cause, Revision: record.Revision, Attempt: record.Attempt,
			Result: record.Result, Error: record.Error, Note: record.Note, Lost: record.Lost, Conflict: record.Conflict, Took: record.Took,
		})
		objects = append(objects, op.object)
		return q.Limit == 0 || len(events) < q.Limit
	})
	// Names are looked up in the table: not under the lock of the journal.
	for i := range events {
		events[i].Key = l.nameOf(objects[i])
	}
	slices.Reverse(events)
	return events
}

func isOneOf(key index.Key, keys []index.Key) bool {
	for _, k := range keys {
		if bytes.Equal(key, k) {
			return true
		}
	}
	return false
}

// operationInfo says for a hook what is about to be called.
func (l *Loop[Obj]) operationInfo(t *task[Obj], a *attempt[Obj], operation string, objects int) OperationInfo {
	return OperationInfo{
		Reconciler: l.ID(), Operation: operation, Objects: objects,
		Key: l.nameOf(a.row), Revision: t.revision, Attempt: int(a.number),
	}
}
