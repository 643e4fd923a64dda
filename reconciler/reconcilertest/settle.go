// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// How long a run waits, in virtual time: after a state, and after the faults, when a breaker may be open and a failure
// may wait for its retry. The time is longer, up to mostTime, if the reconcilers then have work that is not over.
const (
	settleTime = 10 * time.Second
	healTime   = 3 * time.Minute
	mostTime   = time.Hour
	stopTime   = time.Minute
	callTime   = 10 * time.Second
)

// In real time a run is settled when no reconciler has work that is not over, and nothing has happened while each
// goroutine was seen blocked stillRounds times, in looks that are at least a millisecond apart. So a goroutine that waits for
// the processor is waited for, however busy the machine is. What does not rest in mostLooks while no call runs, or in
// callsTime, is reported.
const (
	stillRounds = 10
	mostLooks   = 2000
	callsTime   = 5 * time.Minute
)

// settle waits until the target should match. If the program is killed meanwhile, it is started again; or later, if the
// next state is written before that.
func (w *world[Obj, T]) settle(d time.Duration) {
	for w.wait(d) {
		rewritten := w.tb.Rewritten
		w.env = nil
		if rewritten && !w.x.Healed() {
			return
		}
		w.start(w.again())
	}
}

// wait waits, and reports whether the program was killed.
func (w *world[Obj, T]) wait(d time.Duration) (died bool) {
	if w.s.RealTime {
		return w.waitReal()
	}
	for begun, more := time.Now(), time.Second; ; more *= 2 {
		select {
		case <-w.tb.Died():
		case <-time.After(d):
		}
		// What is due at the end of this time comes first.
		synctest.Wait()
		if w.tb.IsDead() {
			return true
		}
		if !w.goesOn() || time.Since(begun) > mostTime {
			return false
		}
		d = more
	}
}

// goesOn reports whether what a run waits for in virtual time may be still to come: the end of an operation, all work
// after the faults, and until then the rows that a lasting failure must not hold up.
func (w *world[Obj, T]) goesOn() bool {
	switch name, _, _ := w.x.FailedMoreThan(mostFailures); {
	case len(w.x.Running()) > 0:
		return true
	case !w.x.Healed():
		return len(w.stuck()) > 0
	default:
		return name == "" && w.hasWork()
	}
}

// waitReal is wait in real time. It ends the run if that has gone wrong, or the program does not rest.
func (w *world[Obj, T]) waitReal() (died bool) {
	var q quiet
	begun, rested := time.Now(), false
	for looks := 0; looks < mostLooks; {
		select {
		case <-w.tb.Died():
			return true
		case <-time.After(time.Millisecond):
		}
		if len(w.x.Wrong()) > 0 {
			panic(over{})
		}
		if running := w.x.Running(); len(running) > 0 {
			if time.Since(begun) > callsTime {
				w.x.Report("the program does not rest within %s: it calls %s", callsTime, running[0].Name)
			}
			continue
		}
		looks++
		if q.look(w.events(), w.goroutines); q.rounds >= stillRounds {
			if !w.hasWork() {
				return w.tb.IsDead()
			}
			q.rounds, rested = 0, true
		}
	}
	if !rested {
		w.x.Report("the program does not rest: it calls, changes a table or computes all the time%s", q.awake)
		panic(over{})
	}
	return false
}

// events changes with each call, and with each change of a table.
func (w *world[Obj, T]) events() (n uint64) {
	txn := w.env.DB.ReadTxn()
	for _, table := range w.env.DB.GetTables(txn) {
		n += table.Revision(txn)
	}
	return n + uint64(w.x.Calls())
}

// goroutines returns the stacks of the goroutines that have begun in the run.
func (w *world[Obj, T]) goroutines() map[string]string {
	now := check.Goroutines()
	maps.DeleteFunc(now, func(number, _ string) bool { return w.before[number] != "" })
	return now
}

// quiet tells a program that rests from one that the machine does not let run.
type quiet struct {
	events uint64
	// rounds is how often each goroutine was seen blocked since the latest event, blocked are those that were in this round.
	rounds  int
	blocked map[string]bool
	// awake is the stack of a goroutine that was not blocked in the latest look; empty if there was an event.
	awake string
}

// look takes a look at the events, and at the goroutines if there was none since the latest look.
func (q *quiet) look(events uint64, goroutines func() map[string]string) {
	if events != q.events || q.blocked == nil {
		*q = quiet{events: events, blocked: map[string]bool{}}
		return
	}
	all := true
	for number, stack := range goroutines() {
		if check.Blocked(stack) {
			q.blocked[number] = true
		}
		if !q.blocked[number] {
			all, q.awake = false, "\n"+stack
		}
	}
	if all {
		q.rounds++
		clear(q.blocked)
	}
}

// hasWork reports whether some reconciler has work that is not over: a change or a failure, an operation, a listing or a prune
// that is due. While something fails for ever, that is left out.
func (w *world[Obj, T]) hasWork() (work bool) {
	lasting := w.x.Lasting()
	w.each(func(ctx context.Context, c controller) {
		s := answered(ctx, c)
		if s.Condition == inspect.ConditionBusy && w.s.RealTime && len(w.x.Running()) == 0 {
			w.x.Report("reconciler %s does not answer within %s: %s", s.Reconciler, callTime, s.Busy)
			panic(over{})
		}
		work = work || s.Condition == inspect.ConditionBusy || s.AwaitsListing || !s.Listing.IsZero() ||
			!s.NextPrune.IsZero() && !s.NextPrune.After(s.At) || s.PruneFailure != "" && len(lasting) == 0
		for _, n := range s.States {
			switch inspect.State(n.State) {
			case inspect.StateUnseen, inspect.StateReady, inspect.StateQueued, inspect.StateInFlight, inspect.StateHeld:
				work = work || n.Count > 0
			}
		}
	})
	if len(lasting) > 0 {
		return work || len(w.stuck()) > 0
	}
	return work || len(w.rest()) > 0
}

// answered returns the snapshot of a loop that has answered, if it does before ctx ends: on a busy machine it may not at once.
func answered(ctx context.Context, c controller) inspect.Snapshot {
	for {
		if s := c.Snapshot(ctx); s.Condition != inspect.ConditionBusy || ctx.Err() != nil {
			return s
		}
		time.Sleep(callTime / 100)
	}
}

// repair lets everything that waits run now, and prunes, as the program would in time. It also refreshes what is done, if
// the operations could not know that it is not, and no listing is compared.
func (w *world[Obj, T]) repair(all bool) {
	w.each(retry)
	w.settle(healTime)
	if all && !w.compares {
		w.each(refresh)
		w.settle(settleTime)
	}
	w.each(prune)
	w.settle(healTime)
}

// controller is what a run asks of a reconciler.
type controller interface {
	ID() inspect.ID
	Retry(ctx context.Context, keys ...string) (int, error)
	Refresh(ctx context.Context, keys ...string) (int, error)
	Prune()
	Keys(prefix string, limit int) []string
	Snapshot(ctx context.Context) inspect.Snapshot
	WaitAll(ctx context.Context, m reconciler.Milestone) (inspect.Unapplied, error)
}

func retry(ctx context.Context, c controller) { _, _ = c.Retry(ctx) }
func prune(_ context.Context, c controller)   { c.Prune() }

// refresh names the rows: then they are work at once, and not in turn.
func refresh(ctx context.Context, c controller) {
	for keys := range slices.Chunk(c.Keys("", mostRows), inspect.MaxKeys) {
		_, _ = c.Refresh(ctx, keys...)
	}
}

// mostRows bounds the rows of a table that are refreshed.
const mostRows = 10_000

// each calls for each reconciler of the program. A loop that hangs does not take the call.
func (w *world[Obj, T]) each(call func(ctx context.Context, c controller)) {
	for _, c := range w.env.Registry.All() {
		ctx, cancel := context.WithTimeout(w.env.Context(), callTime)
		call(ctx, c)
		cancel()
	}
}

// unequal returns what another resync of the settled target finds, and the operations that it or a new start makes if all is
// compared. What an operation has asked for itself is left out: its row keeps its schedule.
func (w *world[Obj, T]) unequal() (texts []string) {
	calls := w.x.OwnCalls()
	begun := time.Now()
	w.each(prune)
	w.settle(settleTime)
	w.each(func(ctx context.Context, c controller) {
		s := answered(ctx, c)
		switch r := s.Resync; {
		case !s.Lists:
		case r == nil || r.Started.Before(begun):
			texts = append(texts, "a resync was asked for, and none has ended")
		case r.Error != "":
			texts = append(texts, "a resync fails: "+r.Error)
		case r.Orphan+r.Missing+r.Different > 0:
			texts = append(texts, fmt.Sprintf("a resync of the settled target finds %d orphan, %d missing, %d different of %d listed", r.Orphan, r.Missing, r.Different, r.Listed))
			for _, d := range r.Differences {
				texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s: %s %s", d.Kind, d.Key, d.Diff)))
			}
		}
	})
	if len(texts) > 0 || !w.compares {
		return texts
	}
	if more := w.x.OwnCalls(); len(more) > len(calls) {
		return []string{"a resync of the settled target calls " + strings.Join(more[len(calls):], ", ")}
	}
	calls = w.x.OwnCalls()
	w.tb.Kill(false)
	w.env = nil
	w.restart()
	if more := w.x.OwnCalls(); len(more) > len(calls) {
		texts = append(texts, "a new start on the settled target calls "+strings.Join(more[len(calls):], ", "))
	}
	return texts
}

// unreconciled is a row that is not applied.
type unreconciled struct {
	inspect.Unreconciled
	table string
}

// rest returns the rows that are not applied now, without those that are refused.
func (w *world[Obj, T]) rest() (keys []unreconciled) {
	w.each(func(ctx context.Context, c controller) {
		now, cancel := context.WithCancel(ctx)
		cancel()
		for {
			rest, err := c.WaitAll(now, reconciler.Applied)
			if busy := (*inspect.BusyError)(nil); errors.As(err, &busy) && len(w.x.Running()) == 0 && ctx.Err() == nil {
				time.Sleep(callTime / 100) // on a busy machine the loop may not answer at once
				continue
			}
			if err != nil && len(rest.Keys) == 0 {
				if busy := c.Snapshot(ctx).Busy; busy != "" {
					err = &inspect.BusyError{With: busy}
				}
				rest.Keys = []inspect.Unreconciled{{State: inspect.StateUnseen, Err: err}}
			}
			for _, u := range rest.Keys {
				if table := c.ID().Table; !w.x.IsRefused(check.KeyOf(table, u.Key)) {
					keys = append(keys, unreconciled{u, table})
				}
			}
			return
		}
	})
	return keys
}

// unapplied returns the rows that are not applied, with the reasons.
func (w *world[Obj, T]) unapplied() (texts []string) {
	for _, u := range w.rest() {
		texts = append(texts, w.tb.prefix(u.table)+u.Error())
	}
	return texts
}

// stuck returns the rows that are not applied although none of their own operations fails for ever. One that is blocked says
// what it waits for.
func (w *world[Obj, T]) stuck() (texts []string) {
	lasting := w.x.Lasting()
	if len(lasting) == 0 || w.env == nil {
		return nil
	}
	for _, p := range lasting {
		if p.Shared {
			return nil
		}
	}
	for _, u := range w.rest() {
		fails := func(p check.Point) bool { return strings.HasSuffix(p.Key, check.KeyOf(u.table, u.Key)) }
		if u.State != inspect.StateBlocked && !slices.ContainsFunc(lasting, fails) {
			texts = append(texts, w.tb.prefix(u.table)+u.Error())
		}
	}
	return texts
}
