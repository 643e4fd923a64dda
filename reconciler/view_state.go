// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"fmt"
	"time"

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

// explainEntry explains an object that the loop has an entry for.
func (v *view[Obj]) explainEntry(x *inspect.Explanation, s *sight[Obj]) {
	st := s.info
	x.State, x.Deleted, x.Ahead = states[st.State], st.Deleted, st.Ahead
	x.Attempts, x.Error = st.Failures, st.Failure
	switch {
	case st.Deleted:
		x.Wanted, x.Since, x.Revision = v.timeOf(st.Wanted), v.timeOf(st.Wanted), st.Revision
	case s.found:
		x.Wanted = v.writtenAt(s.row, s.revision, st.Wanted)
	}
	if st.Timed {
		x.Next = v.timeOf(st.At)
	}
	if st.LastAttempt >= 0 {
		x.LastAttempt = v.timeOf(st.LastAttempt)
		x.Since = x.LastAttempt
	}
	v.explainState(x, s)
	if s.state.health.PausedWhole && x.State != inspect.StateInFlight && x.State != inspect.StateStuck {
		explainPause(x, "the reconciler")
	}
}

// explainPause explains an object that waits because of a pause, and for something else.
func explainPause(x *inspect.Explanation, paused string) {
	x.State, x.Next = inspect.StatePaused, time.Time{}
	x.Why = paused + " is paused; without that: " + x.Why
}

// what names the pending work of an object.
func what(deleted bool) string {
	if deleted {
		return "its deletion"
	}
	return "its change"
}

// explainState explains the state of the entry.
func (v *view[Obj]) explainState(x *inspect.Explanation, s *sight[Obj]) {
	st := s.info
	switch st.State {
	case core.Ready, core.Taken:
		x.Lane, x.Since = st.Lane.String(), v.timeOf(st.At)
		x.Why = fmt.Sprintf("%s has been seen and waits for its turn, with %s before it in its lane (%s)",
			what(st.Deleted), count(st.Ahead, "object"), x.Lane)
		v.explainBreaker(x, what(st.Deleted), s.state.breaker)
	case core.InFlight:
		v.explainFlight(x, s)
	case core.Queued:
		x.Group, x.Holder = st.Group, v.rows.Name(st.Holder)
		x.Why = fmt.Sprintf("another object of its group %q is being worked on: %s", x.Group, x.Holder)
	case core.Paused:
		x.Why = what(st.Deleted) + " is paused"
	case core.Unseen:
		x.Why = "it has changed again, and the change is about to be read"
		v.explainBreaker(x, "its change", s.state.breaker)
	case core.Held:
		x.Why = "it changed, but failed so recently that it waits until its minimum backoff has passed"
	case core.Retry:
		x.Why = fmt.Sprintf("it has failed %s in a row and waits for its retry", count(st.Failures, "time"))
		v.explainBreaker(x, "it failed, and", s.state.breaker)
	case core.Requeue:
		x.Why = "it is in the target, and asked to be run again"
	case core.Blocked:
		x.BlockedOn = v.reasonFor(s)
		x.Why = "its operation waits for something: " + x.BlockedOn
		if x.BlockedOn == outcome.ErrDeleting.Error() {
			x.Why = "its deletion was begun and goes on: its operation asked to be run again"
		}
	case core.Terminal:
		x.Why = "it failed for good: it is not tried again until it changes, a trigger marks it, or it is retried by hand"
	}
}

// explainBreaker explains an object that waits for the breaker to close; it does nothing if that is not open. The
// next attempt at the object is a probe.
func (v *view[Obj]) explainBreaker(x *inspect.Explanation, who string, b core.BreakerState) {
	if !b.Open {
		return
	}
	x.State, x.Next = inspect.StateTripped, v.timeOf(b.ProbeAt)
	x.Why = fmt.Sprintf("%s waits for the breaker to close, which lets probes through until one succeeds: %s", who, b.Failure)
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
			if v.rows.HasKey(j.Ops[i].Obj, s.key) {
				v.explainJob(x, operation, j)
				return
			}
		}
	}
}

// explainJob explains an object whose operation is in a job.
func (v *view[Obj]) explainJob(x *inspect.Explanation, operation string, j *execute.Job[Obj]) {
	if j.Place == execute.Queued {
		x.Why = operation + " has been handed to the workers, and waits for one to be free"
		return
	}
	x.Since, x.Why = v.timeOf(j.Began), operation+" is running"
	if j.Place == execute.Stuck {
		x.State = inspect.StateStuck
		x.Why += ", well past its deadline or for a minute without one: the object waits until it returns"
	}
}

// reasonFor returns what a blocked object waits for: from its status, or for a deletion from the
// journal.
func (v *view[Obj]) reasonFor(s *sight[Obj]) (reason string) {
	if s.status.Kind == status.KindBlocked && s.status.Error != nil {
		return *s.status.Error
	}
	if events, latest := v.eventsOf(s.key, inspect.EventQuery{Limit: 1}); latest {
		return events[0].Error
	}
	return "something that is not known any more"
}

// explainRow explains an object that the loop, which has answered, has no entry for.
func (v *view[Obj]) explainRow(x *inspect.Explanation, s *sight[Obj]) {
	is := s.status
	switch {
	case !s.found:
		x.State, x.Why = inspect.StateAbsent, v.absent(s)
	case is.Kind == status.KindUnset:
		x.State = inspect.StateNoStatus
		x.Why = "its status was never set, so it is not reconciled: the program that writes the row must set it to Pending"
	case is.IsPendingOrRefreshing() && s.seen:
		x.State = inspect.StateDone
		x.Why = "it is in the target; its status follows when the changes before it have been attempted, or 20 ms later"
	case is.IsPendingOrRefreshing():
		x.State, x.Wanted = inspect.StateUnseen, is.UpdatedAt
		// What needs no reading is mostly newer: the loop's own writes.
		upTo := min(int(s.revision), int(v.rows.Table.Revision(s.txn))-s.state.passed)
		x.Ahead = min(maxAhead, max(0, upTo-int(s.state.observed)-1))
		x.Why = "its change has not been looked at yet, with about " + count(x.Ahead, "change") + " before it"
		switch {
		case s.state.health.PausedWhole:
			explainPause(x, "the reconciler")
		case s.paused:
			explainPause(x, "it")
		default:
			v.explainBreaker(x, "its change", s.state.breaker)
		}
	case is.Kind == status.KindDone:
		x.State = inspect.StateDone
		x.Why = "it is in the target"
		if at := v.ledger.Applied(s.revision); at != "" {
			x.Why += ", " + at
		}
	default:
		x.State, x.Error = inspect.StateNoStatus, is.GetError()
		x.Why = fmt.Sprintf("the program has set its status to %s, which asks for no work: to have it reconciled, set it to Pending", is.Kind)
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
