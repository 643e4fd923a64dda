// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"
	"fmt"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// explainStanding explains an object that the loop has an entry for.
func (v *view[Obj]) explainStanding(x *inspect.Explanation, s *sight[Obj]) {
	st := s.info
	x.Deleted = st.Deleted
	x.Attempts, x.Error = st.Failures, st.Failure
	if st.Attempted {
		x.LastAttempt = v.timeOf(st.LastAttempt)
	}
	if st.Deleted {
		x.Wanted, x.Since, x.Revision = v.timeOf(st.Wanted), v.timeOf(st.Wanted), st.Revision
	}
	if st.Timed {
		x.Next = v.timeOf(st.Due)
	}
	if st.Attempted && st.State != core.Ready {
		x.Since = x.LastAttempt
	}
	v.explainState(x, s)
	if s.whole && x.State != inspect.StateInFlight && x.State != inspect.StateStuck {
		x.Why = "the reconciler is paused; without that: " + x.Why
		x.State, x.Next = inspect.StatePaused, time.Time{}
	}
}

// what names the pending work of an object.
func what(deleted bool) string {
	if deleted {
		return "its deletion"
	}
	return "its change"
}

func (v *view[Obj]) explainState(x *inspect.Explanation, s *sight[Obj]) {
	st := s.info
	x.Ahead = st.Ahead
	switch st.State {
	case core.Ready, core.Taken:
		x.State, x.Lane = inspect.StateReady, st.Lane.String()
		x.Since = v.timeOf(st.Observed)
		x.Why = fmt.Sprintf("%s has been seen and waits for its turn, with %s before it in its lane (%s)",
			what(st.Deleted), count(st.Ahead, "object"), x.Lane)
		v.explainBreaker(x, what(st.Deleted), s.breakers.everything())
	case core.InFlight:
		v.explainFlight(x, s)
	case core.Queued:
		x.State, x.Group, x.Holder = inspect.StateQueued, st.Group, v.rows.Name(st.Holder)
		x.Why = fmt.Sprintf("another object of its group %q is being worked on: %s", x.Group, x.Holder)
	case core.Paused:
		x.State = inspect.StatePaused
		x.Why = what(st.Deleted) + " is paused"
	case core.Tripped:
		v.explainBreaker(x, "it failed, and", st.Breaker)
	case core.Unseen:
		x.State = inspect.StateUnseen
		x.Why = "it has changed again, and the change is about to be read"
		v.explainBreaker(x, "its change", s.breakers.everything())
	case core.Held:
		x.State = inspect.StateHeld
		x.Why = "it changed, but failed so recently that it waits until its minimum backoff has passed"
	case core.Retry:
		x.State = inspect.StateRetry
		x.Why = fmt.Sprintf("it has failed %s in a row and waits for its retry", count(st.Failures, "time"))
		v.explainBreaker(x, "it failed, and", s.breakers.everything())
	case core.Requeue:
		x.State = inspect.StateRequeue
		x.Why = "it is in the target, and asked to be run again"
	case core.Blocked:
		x.State = inspect.StateBlocked
		x.BlockedOn = v.reasonFor(s)
		x.Why = "its operation waits for something: " + x.BlockedOn
		if x.BlockedOn == outcome.ErrDeleting.Error() {
			x.Why = "its deletion was begun and goes on: its operation asked to be run again"
		}
	case core.Terminal:
		x.State = inspect.StateTerminal
		x.Why = "it failed for good: it is not tried again until it changes, a trigger marks it, or it is retried by hand"
	}
}

// explainBreaker explains an object that waits for a breaker to close; it does nothing if b is nil,
// which means that no breaker is open. The next attempt at the object is a probe.
func (v *view[Obj]) explainBreaker(x *inspect.Explanation, who string, b *core.OpenBreaker) {
	if b == nil {
		return
	}
	of := ""
	if b.Class != "" {
		of = fmt.Sprintf(" for %q", b.Class)
	}
	x.State, x.Next = inspect.StateTripped, v.timeOf(b.ProbeAt)
	x.Why = fmt.Sprintf("%s waits for the breaker%s to close, which lets probes through until one succeeds: %s", who, of, b.Failure)
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
	where, since := v.workers.Where(func(obj Obj) bool { return bytes.Equal(v.rows.Key(obj), s.key) })
	operation := OpUpdate
	if s.info.Deletes {
		operation = OpDelete
	}
	x.State = inspect.StateInFlight
	if where == execute.Running || where == execute.Stuck {
		x.Since = v.timeOf(since)
	}
	switch where {
	case execute.Stuck:
		x.State = inspect.StateStuck
		x.Why = operation + " is running, well past its deadline or for a minute without one: the object waits until it returns"
	case execute.Running:
		x.Why = operation + " is running"
	case execute.Queued:
		x.Why = operation + " has been handed to the workers, and waits for one to be free"
	default:
		x.Why = operation + " has ended, and its outcome is about to be written"
	}
}

// reasonFor returns what a blocked object waits for: from its status, or for a deletion from the
// journal.
func (v *view[Obj]) reasonFor(s *sight[Obj]) (reason string) {
	if s.found {
		if is := s.status; is.Kind == status.KindBlocked && is.Error != nil {
			return *is.Error
		}
	}
	if events, latest := v.eventsOf(&s.key, inspect.EventQuery{Limit: 1}); latest {
		return events[0].Error
	}
	return "something that is not known any more"
}

// explainRow explains an object that the loop, which has answered, has no entry for.
func (v *view[Obj]) explainRow(x *inspect.Explanation, s *sight[Obj]) {
	if !s.found {
		x.State, x.Why = inspect.StateAbsent, s.absent
		return
	}
	is := s.status
	switch {
	case is.Kind == status.KindUnset:
		x.State = inspect.StateNoStatus
		x.Why = "its status was never set, so it is not reconciled: the program that writes the row must set it to Pending"
	case is.IsPendingOrRefreshing() && s.seen:
		x.State = inspect.StateDone
		x.Why = "it is in the target; its status follows when the changes before it have been attempted, or 20 ms later"
	case is.IsPendingOrRefreshing():
		x.State = inspect.StateUnseen
		x.Wanted = is.UpdatedAt
		v.stats.mu.Lock()
		state := v.stats.state
		v.stats.mu.Unlock()
		x.Ahead = min(maxAhead, max(0, int(s.revision)-int(state.observed)-state.passed-1))
		x.Why = "its change has not been looked at yet, with about " + count(x.Ahead, "change") + " before it"
		switch {
		case s.whole:
			x.State = inspect.StatePaused
			x.Why = "the reconciler is paused; without that: " + x.Why
		case s.paused:
			x.State = inspect.StatePaused
			x.Why = "it is paused; without that: " + x.Why
		default:
			v.explainBreaker(x, "its change", s.breakers.everything())
		}
	case is.Kind == status.KindDone:
		x.State = inspect.StateDone
		x.Why = "it is in the target"
		if at := v.ledger.Applied(s.revision); at != "" {
			x.Why += ", " + at
		}
	default:
		x.State, x.Error = inspect.StateNoStatus, errorOf(is)
		x.Why = fmt.Sprintf("the program has set its status to %s, which asks for no work: to have it reconciled, set it to Pending", is.Kind)
	}
}

func errorOf(s Status) string {
	if s.Error == nil {
		return ""
	}
	return *s.Error
}
