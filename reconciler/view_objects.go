// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

const (
	// defaultListed and maxObjects are the default and the maximum of the objects of a page,
	// maxScanned is the maximum of the rows, or of the unreconciled keys, that are read for one.
	defaultListed = 50
	maxObjects    = 1000
	maxScanned    = 20_000
	// maxPageText is the number of bytes of keys and reasons after which a page ends.
	maxPageText = 3 << 18

	// listDeleted is the status that lists deletions.
	listDeleted = "deleted"
)

// objects is [Loop.Objects].
func (v *view[Obj]) objects(ctx context.Context, q inspect.ObjectQuery) (inspect.ObjectPage, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = defaultListed
	}
	limit = min(limit, maxObjects)
	kind := strings.ToLower(q.Status)
	after, err := parsePlace(q.After)
	if err != nil || after.key != "" && kind != listDeleted {
		return inspect.ObjectPage{}, fmt.Errorf("after is %q, must be the next of the page before", q.After)
	}
	if kind == listDeleted {
		return v.listDeletions(ctx, after, limit)
	}
	if kind != "" && !isKind(kind) {
		return inspect.ObjectPage{}, fmt.Errorf("status is %q, must be one of Pending, Refreshing, Done, Error, Blocked, Unset or Deleted, or empty", q.Status)
	}
	return v.listRows(ctx, kind, after.revision, limit), nil
}

// place is where a page ends: a revision, and for deletions, several of which may have the same
// revision, a key.
type place struct {
	revision uint64
	key      string
}

func (p place) String() string {
	if p.key == "" {
		return strconv.FormatUint(p.revision, 10)
	}
	return fmt.Sprintf("%d-%x", p.revision, p.key)
}

func parsePlace(text string) (p place, err error) {
	if text == "" {
		return p, nil
	}
	revision, key, _ := strings.Cut(text, "-")
	if p.revision, err = strconv.ParseUint(revision, 10, 64); err != nil {
		return p, err
	}
	raw, err := hex.DecodeString(key)
	p.key = string(raw)
	return p, err
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.revision, q.revision), strings.Compare(p.key, q.key))
}

func isKind(text string) bool {
	for _, k := range []StatusKind{
		status.KindUnset, status.KindPending, status.KindRefreshing, status.KindDone, status.KindError, status.KindBlocked,
	} {
		if kindText(k) == text {
			return true
		}
	}
	return false
}

// kindText returns a kind in lower case; "unset" for Unset, which has no text.
func kindText(k StatusKind) string {
	if k == status.KindUnset {
		return "unset"
	}
	return strings.ToLower(k.String())
}

func (v *view[Obj]) listRows(ctx context.Context, kind string, after uint64, limit int) inspect.ObjectPage {
	page := inspect.ObjectPage{Objects: []inspect.ObjectLine{}}
	var rows []Obj
	var kinds []StatusKind
	scanned, size := 0, 0
	txn := v.rows.DB.ReadTxn()
	for row, revision := range v.rows.Table.LowerBound(txn, statedb.ByRevision[Obj](after+1)) {
		if len(rows) == limit || scanned == maxScanned || size >= maxPageText {
			page.Next = strconv.FormatUint(after, 10)
			break
		}
		scanned++
		after = revision
		s := v.ledger.Status(txn, row, revision)
		if kind != "" && kindText(s.Kind) != kind {
			continue
		}
		line := inspect.ObjectLine{Key: v.rows.Name(row), Status: s.Kind.String(), Since: s.UpdatedAt, Revision: revision}
		if s.Kind == status.KindBlocked {
			line.BlockedOn = errorOf(s)
		} else {
			line.Error = errorOf(s)
		}
		size += lineText(&line)
		page.Objects, rows, kinds = append(page.Objects, line), append(rows, row), append(kinds, s.Kind)
	}
	v.addInfos(ctx, page.Objects, rows, kinds)
	return page
}

// lineText returns the number of bytes of the texts of a line.
func lineText(line *inspect.ObjectLine) int {
	return len(line.Key) + len(line.Error) + len(line.BlockedOn)
}

// addInfos adds what the loop knows about some rows, with the kinds of their statuses, to their lines.
func (v *view[Obj]) addInfos(ctx context.Context, lines []inspect.ObjectLine, rows []Obj, kinds []StatusKind) {
	type knownOf struct {
		info core.KeyInfo[Obj]
		// has: info is set. seen is as for sight.
		has, seen bool
	}
	known, err := told(ctx, v, func() []knownOf {
		all := make([]knownOf, len(rows))
		for i, row := range rows {
			k := &all[i]
			k.info, k.has = v.core.KeyInfo(string(v.rows.Key(row)), 0)
			k.seen = v.seen(row, lines[i].Revision)
		}
		return all
	})
	g := v.gates()
	for i, row := range rows {
		if err == nil && known[i].has {
			v.addInfo(&lines[i], &known[i].info, g)
		} else if err == nil && known[i].seen && !v.rewritten(row, lines[i].Revision) {
			// Its status follows if it does not say so.
			lines[i].State = inspect.StateDone
		} else {
			lines[i].State = g.shown(v.rowState(v.rows.Key(row), kinds[i], err), v.rows.Key(row))
			if lines[i].State == inspect.StateNoStatus && v.rewritten(row, lines[i].Revision) {
				// The loop may have had an entry for the version that is listed.
				lines[i].State = inspect.StateUnknown
			}
		}
	}
}

// rewritten reports whether a row was written or deleted after a revision.
func (v *view[Obj]) rewritten(row Obj, since statedb.Revision) bool {
	_, revision, found := v.rows.Get(v.rows.DB.ReadTxn(), row)
	return !found || revision != since
}

// addInfo adds what the core knows to a line.
func (v *view[Obj]) addInfo(line *inspect.ObjectLine, s *core.KeyInfo[Obj], g gates) {
	line.Attempts, line.State = s.Failures, g.shown(states[s.State], v.rows.Key(s.Obj))
	if s.Timed {
		line.Next = v.timeOf(s.Due)
	}
}

// gates are the conditions that hold back all objects of a reconciler, and the keys whose operation is
// stuck.
type gates struct {
	paused, breaker bool
	stuck           map[string]struct{}
}

func (v *view[Obj]) gates() gates {
	stuck := map[string]struct{}{}
	v.workers.EachStuck(func(ops []core.Operation[Obj]) {
		for i := range ops {
			stuck[string(v.rows.Key(ops[i].Obj))] = struct{}{}
		}
	})
	v.stats.mu.Lock()
	defer v.stats.mu.Unlock()
	s := &v.stats.state
	return gates{s.paused, s.breakers.everything() != nil, stuck}
}

// shown returns the state that is reported for an object in a state: an object that waits for a time
// or for its turn also waits for the gates, and one in flight may be stuck.
func (g gates) shown(s inspect.State, key []byte) inspect.State {
	switch s {
	case inspect.StateInFlight:
		if _, stuck := g.stuck[string(key)]; stuck {
			return inspect.StateStuck
		}
		return s
	case inspect.StateReady, inspect.StateRetry, inspect.StateUnseen:
		if g.breaker && !g.paused {
			return inspect.StateTripped
		}
	case inspect.StateHeld, inspect.StateRequeue, inspect.StateBlocked, inspect.StateTerminal, inspect.StateQueued, inspect.StateTripped:
	default:
		return s
	}
	if g.paused {
		return inspect.StatePaused
	}
	return s
}

// states maps the states of the core to those that are reported.
var states = [core.NumStates]inspect.State{
	core.Taken: inspect.StateReady, core.Ready: inspect.StateReady, core.InFlight: inspect.StateInFlight, core.Queued: inspect.StateQueued,
	core.Paused: inspect.StatePaused, core.Tripped: inspect.StateTripped, core.Unseen: inspect.StateUnseen, core.Held: inspect.StateHeld,
	core.Retry: inspect.StateRetry, core.Requeue: inspect.StateRequeue, core.Blocked: inspect.StateBlocked, core.Terminal: inspect.StateTerminal,
}

// listDeletions lists deletions that are not carried out, in the order of the revision since which
// they are unreconciled, then of their keys.
func (v *view[Obj]) listDeletions(ctx context.Context, after place, limit int) (inspect.ObjectPage, error) {
	type deletion struct {
		place
		since core.Unreconciled[Obj]
		info  core.KeyInfo[Obj]
	}
	type part struct {
		// deletions are those of the page, sorted, and one more if there is one.
		deletions []*deletion
		// last is the highest place that was read. more: keys with higher places are unreconciled.
		last place
		more bool
	}
	found, err := told(ctx, v, func() part {
		p, scanned := part{last: after}, 0
		v.core.UnreconciledSince(after.revision, func(d core.Unreconciled[Obj]) bool {
			// Keys with the same revision come in no order: all of them are read.
			if d.Since > p.last.revision && (len(p.deletions) > limit || scanned >= maxScanned) {
				p.more = true
				return false
			}
			at := place{d.Since, string(v.rows.Key(d.Obj))}
			if at.compare(after) <= 0 {
				return true
			}
			scanned++
			if at.compare(p.last) > 0 {
				p.last = at
			}
			i, _ := slices.BinarySearchFunc(p.deletions, at, func(d *deletion, at place) int { return d.compare(at) })
			if d.Deleted && i <= limit {
				p.deletions = slices.Insert(p.deletions, i, &deletion{place: at, since: d})
				p.deletions = p.deletions[:min(len(p.deletions), limit+1)]
			}
			return true
		})
		for _, d := range p.deletions {
			d.info, _ = v.core.KeyInfo(d.key, 0)
		}
		return p
	})
	if err != nil {
		return inspect.ObjectPage{}, fmt.Errorf("only the reconciler knows the deletions: %w", err)
	}
	page, g := inspect.ObjectPage{Objects: []inspect.ObjectLine{}}, v.gates()
	if found.more {
		page.Next = found.last.String()
	}
	size := 0
	for i, d := range found.deletions {
		if i == limit || size >= maxPageText {
			page.Next = found.deletions[i-1].String()
			break
		}
		line := inspect.ObjectLine{
			Key: v.rows.Name(d.since.Obj), Status: "Deleted", Revision: d.since.Since, Error: d.since.Failure,
			Since: v.timeOf(d.info.Wanted),
		}
		v.addInfo(&line, &d.info, g)
		size += lineText(&line)
		page.Objects = append(page.Objects, line)
	}
	return page, nil
}

// keys is [Loop.Keys].
func (v *view[Obj]) keys(prefix string, limit int) (keys []string) {
	scanned := 0
	for row := range v.rows.Table.All(v.rows.DB.ReadTxn()) {
		if scanned == maxScanned || len(keys) == limit {
			break
		}
		scanned++
		if name := v.rows.Name(row); strings.HasPrefix(name, prefix) {
			keys = append(keys, name)
		}
	}
	return keys
}
