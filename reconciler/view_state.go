// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"fmt"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// stateOf returns the state of an object, without what holds back all objects. kind is the status of its row, if
// found. err is why the loop did not tell what it knows: then the state is known only if the loop is in an operation
// on the object, or the row is Done.
func stateOf[Obj any](found bool, kind StatusKind, k *known[Obj], err error) inspect.State {
	switch {
	case k.info != nil:
		return inspect.State(k.info.State.String())
	case k.inLine.Operation != "":
		return inspect.StateInFlight
	case kind == status.KindDone, k.seen && !k.replaced:
		// The status follows if it does not say so.
		return inspect.StateDone
	case err != nil, k.replaced:
		return inspect.StateUnknown
	case !found:
		return inspect.StateAbsent
	case kind != status.KindPending && kind != status.KindRefreshing:
		// Its status was never set, or another writer has set one that asks for no work.
		return inspect.StateNoStatus
	case k.paused:
		return inspect.StatePaused
	}
	return inspect.StateUnseen
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

// why describes the state of an object in a sentence.
func (v *view[Obj]) why(is inspect.State, s *facts[Obj], x *inspect.Explanation) string {
	switch is {
	case inspect.StateDone:
		return v.whyDone(s)
	case inspect.StateAbsent:
		return v.absent(s)
	case inspect.StateNoStatus:
		if s.status.Kind == status.KindUnset {
			return "its status was never set, so it is not reconciled: the program that writes the row must set it to Pending"
		}
		return fmt.Sprintf("the program has set its status to %s, which asks for no work: to have it reconciled, set it to Pending", s.status.Kind)
	case inspect.StateUnseen:
		if s.state.health.Waits {
			return "it " + s.state.awaitsListing()
		}
	case inspect.StateRetry:
		return fmt.Sprintf("it has failed %s in a row and waits for its retry", count(x.Attempts, "time"))
	case inspect.StateRequeue:
		if s.wrong != "" {
			return "it was applied, and asked to be run again: until then it stays as a resync has found it, " + s.wrong + " in the target"
		}
	case inspect.StateBlocked:
		if x.BlockedOn == outcome.ErrDeleting.Error() {
			return "its deletion was begun and goes on: its operation asked to be run again"
		}
		return "its operation waits for something: " + cmp.Or(x.BlockedOn, "it gave no reason") + v.because(s.key) + v.circle(s.key)
	}
	return whys[is]
}

// whys describe the states that need no more words.
var whys = map[inspect.State]string{
	inspect.StateUnseen:   "its change has not been looked at yet",
	inspect.StateReady:    "its change has been seen, and waits for its turn in its lane",
	inspect.StateQueued:   "another object of its group is being worked on",
	inspect.StatePaused:   "it is paused",
	inspect.StateHeld:     "it changed, but failed so recently that it waits until its minimum backoff has passed",
	inspect.StateRequeue:  "it is in the target, and asked to be run again",
	inspect.StateTerminal: "it failed for good: it is not tried again until it changes, a trigger hands it over, or it is retried by hand",
}

// whyDone describes an object that was applied.
func (v *view[Obj]) whyDone(s *facts[Obj]) string {
	switch at := v.ledger.Applied(s.revision); {
	case s.wrong != "":
		return "it was applied, but a resync has found it " + s.wrong + " in the target: its repair waits for the limiter of refreshes"
	case s.status.Kind != status.KindDone:
		return "it is in the target; its status follows when the changes before it have been attempted, or 20 ms later"
	case at != "":
		return "it is in the target, " + at
	}
	return "it is in the target"
}

// absent describes an object that neither the table nor the loop, which has answered, has.
func (v *view[Obj]) absent(s *facts[Obj]) string {
	at := s.state.observed
	if at >= v.rows.Table.Revision(s.txn) {
		return "not in the table, and nothing is left to be done for it"
	}
	return fmt.Sprintf("not in the table; deletions after revision %d may be unread: if it was deleted since, that may be still to come", at)
}

// count returns a number of things as text.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
