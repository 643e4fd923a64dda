// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// states maps the states of the core to those that are reported.
var states = [core.NumStates]inspect.State{
	core.Taken: inspect.StateReady, core.Ready: inspect.StateReady, core.InFlight: inspect.StateInFlight, core.Queued: inspect.StateQueued,
	core.Paused: inspect.StatePaused, core.Unseen: inspect.StateUnseen, core.Held: inspect.StateHeld,
	core.Retry: inspect.StateRetry, core.Requeue: inspect.StateRequeue, core.Blocked: inspect.StateBlocked, core.Terminal: inspect.StateTerminal,
}

func stateName(s core.State) string { return string(states[s]) }

// stateOf returns the state of an object, without what holds back all objects. kind is the status of its row, if
// found; err is why the loop did not tell what is known.
func (v *view[Obj]) stateOf(key index.Key, found bool, kind StatusKind, k *known[Obj], err error) inspect.State {
	if k.info != nil {
		return states[k.info.State]
	}
	busy, running := (*inspect.BusyError)(nil), ""
	if err != nil {
		running, _ = v.inLine(key)
	}
	asks := kind == status.KindPending || kind == status.KindRefreshing
	switch {
	case running != "":
		return inspect.StateInFlight
	case !found && err == nil:
		return inspect.StateAbsent
	case !found:
		return inspect.StateUnknown
	case kind == status.KindDone, k.seen:
		// The status follows if it does not say so.
		return inspect.StateDone
	case asks && k.paused:
		return inspect.StatePaused
	case asks && (err == nil || errors.As(err, &busy)):
		return inspect.StateUnseen
	case kind == status.KindBlocked && err != nil:
		return inspect.StateBlocked
	case kind != status.KindUnset && err != nil:
		return inspect.StateUnknown
	}
	// Its status was never set, or another writer has set one that asks for no work.
	return inspect.StateNoStatus
}

// gates are the latest state of the loop, of which a pause and a breaker hold back all objects, and the
// keys whose operation is stuck.
type gates struct {
	state *state
	stuck map[string]struct{}
}

func (v *view[Obj]) gates() gates {
	g := gates{v.stats.state.Load(), map[string]struct{}{}}
	for j := range v.workers.StuckJobs {
		for i := range j.Ops {
			g.stuck[string(v.rows.Key(j.Ops[i].Obj))] = struct{}{}
		}
	}
	return g
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
	case inspect.StateDone, inspect.StateNoStatus, inspect.StateUnknown, inspect.StateAbsent:
		return s
	case inspect.StateReady, inspect.StateRetry, inspect.StateUnseen:
		if g.state.breaker.Open && !g.state.health.PausedWhole {
			return inspect.StateTripped
		}
	}
	if g.state.health.PausedWhole {
		return inspect.StatePaused
	}
	return s
}

// nextAttempt returns the time of the next attempt at an object in a state that is reported, zero if it is not known.
func (v *view[Obj]) nextAttempt(g gates, shown inspect.State, info *core.KeyInfo[Obj]) time.Time {
	switch {
	case shown == inspect.StateTripped:
		return v.life.timeOf(g.state.breaker.ProbeAt)
	case shown != inspect.StatePaused && info != nil && info.Timed:
		return v.life.timeOf(info.At)
	}
	return time.Time{}
}

// explainState explains the state of an object. err is why the loop did not tell what it knows.
func (v *view[Obj]) explainState(x *inspect.Explanation, s *sight[Obj], err error) {
	is := v.stateOf(s.key, s.found, s.status.Kind, &s.known, err)
	if s.info != nil {
		v.explainEntry(x, s)
	} else {
		v.explainRow(x, s, is, err)
	}
	g := v.gates()
	x.State = g.shown(is, s.key)
	x.Next = v.nextAttempt(g, x.State, s.info)
	switch {
	case x.State == inspect.StateTripped:
		x.Why = fmt.Sprintf("%s waits for the breaker to close, which lets probes through until one succeeds: %s",
			what(x), s.state.breaker.Failure)
	case x.State == inspect.StateStuck:
		x.Why += ", well past its deadline or for a minute without one: the object waits until it returns"
	case s.state.health.PausedWhole && x.State == inspect.StatePaused:
		x.Why = "the reconciler is paused; without that: " + x.Why
	}
}

// what names the pending work of an object.
func what(x *inspect.Explanation) string {
	switch {
	case x.Deleted:
		return "its deletion"
	case x.Attempts > 0:
		return "its retry"
	}
	return "its change"
}

// explainEntry explains an object that the loop has an entry for.
func (v *view[Obj]) explainEntry(x *inspect.Explanation, s *sight[Obj]) {
	st := s.info
	// The row may be back, and unread.
	x.Deleted, x.Ahead, x.Attempts, x.Error = st.Deleted && !s.found, st.Queue.Ahead, st.Failures, st.Failure
	switch {
	case x.Deleted:
		x.Wanted, x.Since, x.Revision = v.life.timeOf(st.Wanted), v.life.timeOf(st.Wanted), st.Revision
	case s.found:
		x.Wanted = v.writtenAt(s.row, s.revision, st.Wanted)
	}
	if st.LastAttempt >= 0 {
		x.LastAttempt = v.life.timeOf(st.LastAttempt)
		x.Since = x.LastAttempt
	}
	switch st.State {
	case core.Ready, core.Taken:
		x.Lane, x.Since = st.Queue.Lane.String(), v.life.timeOf(st.At)
		x.Why = fmt.Sprintf("%s has been seen and waits for its turn, with %s before it in its lane (%s)",
			what(x), count(st.Queue.Ahead, "object"), x.Lane)
	case core.InFlight:
		v.explainFlight(x, s)
	case core.Queued:
		x.Group, x.Holder = st.Queue.Group, v.rows.Name(st.Queue.Holder)
		x.Why = fmt.Sprintf("another object of its group %q is being worked on: %s", x.Group, x.Holder)
	case core.Paused:
		x.Why = what(x) + " is paused"
	case core.Unseen:
		x.Why = "it has changed again, and the change is about to be read"
	case core.Held:
		x.Why = "it changed, but failed so recently that it waits until its minimum backoff has passed"
	case core.Retry:
		x.Why = fmt.Sprintf("it has failed %s in a row and waits for its retry", count(st.Failures, "time"))
	case core.Requeue:
		x.Why = "it is in the target, and asked to be run again"
	case core.Blocked:
		v.explainBlocked(x, v.reasonFor(s))
	case core.Terminal:
		x.Why = "it failed for good: it is not tried again until it changes, a trigger hands it over, or it is retried by hand"
	}
}

// explainBlocked explains an object that waits for something.
func (v *view[Obj]) explainBlocked(x *inspect.Explanation, on string) {
	x.BlockedOn, x.Error = on, ""
	x.Why = "its operation waits for something: " + on
	if on == outcome.ErrDeleting.Error() {
		x.Why = "its deletion was begun and goes on: its operation asked to be run again"
	}
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
func (v *view[Obj]) explainFlight(x *inspect.Explanation, s *sight[Obj]) {
	operation := OpUpdate
	if s.info.Deletes {
		operation = OpDelete
	}
	x.Why = operation + " has ended, and its outcome is about to be written"
	for j := range v.workers.Jobs {
		for i := range j.Ops {
			switch {
			case !v.rows.HasKey(j.Ops[i].Obj, s.key):
				continue
			case j.Place == execute.Queued:
				x.Why = operation + " has been handed to the workers, and waits for one to be free"
			default:
				x.Since, x.Why = v.life.timeOf(j.Began), operation+" is running"
			}
			return
		}
	}
}

// reasonFor returns what a blocked object waits for: from its status, or for a deletion from the
// journal.
func (v *view[Obj]) reasonFor(s *sight[Obj]) (reason string) {
	if s.status.Kind == status.KindBlocked && s.status.Error != nil {
		return *s.status.Error
	}
	if events := v.eventsOf(s.key, inspect.EventQuery{Limit: 1}); len(events) > 0 {
		return events[0].Error
	}
	return "something that is not known any more"
}

// explainRow explains an object that the loop has no entry for, or could not be asked about.
func (v *view[Obj]) explainRow(x *inspect.Explanation, s *sight[Obj], is inspect.State, err error) {
	kind := s.status.Kind
	switch is {
	case inspect.StateInFlight:
		operation, since := v.inLine(s.key)
		x.Since, x.Deleted = v.life.timeOf(since), operation == OpDelete
		x.Why = operation + " is running, and the reconciler waits for it"
	case inspect.StateUnknown:
		x.Error, x.Why = s.status.GetError(), "the reconciler could not be asked"
	case inspect.StateAbsent:
		x.Why = v.absent(s)
	case inspect.StateBlocked:
		v.explainBlocked(x, s.status.GetError())
	case inspect.StateUnseen, inspect.StatePaused:
		x.Wanted = s.status.UpdatedAt
		if err != nil {
			x.Why = "its change waits, since the reconciler is busy"
			break
		}
		if s.state.health.Waits {
			x.Why = "it waits for the first listing of the target, which shows whether the object is there already"
			break
		}
		// What needs no reading is mostly newer: the loop's own writes.
		upTo := min(int(s.revision), int(v.rows.Table.Revision(s.txn))-s.state.passed)
		x.Ahead = min(maxAhead, max(0, upTo-int(s.state.observed)-1))
		x.Why = "its change has not been looked at yet, with about " + count(x.Ahead, "change") + " before it"
		if s.paused {
			x.Why = "it is paused; without that: " + x.Why
		}
	case inspect.StateDone:
		x.Why = "it is in the target"
		if s.wrong != "" {
			x.Why = "it was applied, but a resync has found it " + s.wrong + " in the target: its repair waits for the limiter of refreshes"
			break
		}
		if kind != status.KindDone {
			x.Why += "; its status follows when the changes before it have been attempted, or 20 ms later"
		} else if at := v.ledger.Applied(s.revision); at != "" {
			x.Why += ", " + at
		}
	case inspect.StateNoStatus:
		x.Why = "its status was never set, so it is not reconciled: the program that writes the row must set it to Pending"
		if kind != status.KindUnset {
			x.Error = s.status.GetError()
			x.Why = fmt.Sprintf("the program has set its status to %s, which asks for no work: to have it reconciled, set it to Pending", kind)
		}
	}
}

// absent describes an object that neither the table nor the loop, which has answered, has.
func (v *view[Obj]) absent(s *sight[Obj]) string {
	at := s.state.observed
	switch {
	case at >= v.rows.Table.Revision(s.txn):
		return "not in the table, and nothing is left to be done for it"
	case s.state.catchingUp:
		return fmt.Sprintf("not in the table; some deletions after revision %d are unread: if it was deleted since, that may be still to come", at)
	}
	return fmt.Sprintf("not in the table; deletions after revision %d are unread: if it was deleted since, that is still to come", at)
}
