// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// How long a run waits, in virtual time: after a state, and after the faults, when a breaker may be open and a failure
// may wait for its retry.
const (
	settleTime = 10 * time.Second
	healTime   = 3 * time.Minute
	stopTime   = time.Minute
	callTime   = 10 * time.Second
)

// In real time a run is settled when everything is applied and no operation was called in the last stillLooks looks, which are
// a millisecond apart or, on a busy machine, as much as a goroutine of the program has to wait, too; or after realTime; after
// lastingTime if something fails for ever.
const (
	stillLooks  = 10
	realTime    = 2 * time.Second
	lastingTime = 100 * time.Millisecond
)

// settle waits until the target should match. If the program is killed meanwhile, it is started again; or later, if the
// next state is written before that.
func (w *world[Obj, T]) settle(d time.Duration) {
	for {
		if !w.wait(d) {
			return
		}
		rewritten := w.tb.Rewritten
		w.env = nil
		if rewritten {
			return
		}
		w.start(check.Step{State: w.state})
	}
}

// wait waits, and reports whether the program was killed.
func (w *world[Obj, T]) wait(d time.Duration) (died bool) {
	if w.s.RealTime {
		return w.waitReal()
	}
	select {
	case <-w.tb.Died():
		died = true
	case <-time.After(d):
	}
	synctest.Wait()
	return died
}

func (w *world[Obj, T]) waitReal() (died bool) {
	calls, still := -1, 0
	for begin := time.Now(); time.Since(begin) < realTime && (time.Since(begin) < lastingTime || len(w.x.Lasting()) == 0); {
		select {
		case <-w.tb.Died():
			return true
		case <-time.After(time.Millisecond):
		}
		still++
		if n := w.x.Calls(); n != calls {
			calls, still = n, 0
		}
		if still >= stillLooks && len(w.x.Running()) == 0 && len(w.unapplied()) == 0 {
			return false
		}
	}
	return false
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
	Retry(ctx context.Context, keys ...string) (int, error)
	Refresh(ctx context.Context, keys ...string) (int, error)
	Prune()
	Snapshot(ctx context.Context) inspect.Snapshot
	WaitAll(ctx context.Context, m reconciler.Milestone) (inspect.Unapplied, error)
}

func retry(ctx context.Context, c controller)   { _, _ = c.Retry(ctx) }
func refresh(ctx context.Context, c controller) { _, _ = c.Refresh(ctx) }
func prune(_ context.Context, c controller)     { c.Prune() }

// each calls for each reconciler of the program. A loop that hangs does not take the call.
func (w *world[Obj, T]) each(call func(ctx context.Context, c controller)) {
	for _, c := range w.env.Registry.All() {
		ctx, cancel := context.WithTimeout(w.env.Context(), callTime)
		call(ctx, c)
		cancel()
	}
}

// unequal returns what another resync of the settled target finds, and the operations that it or a new start makes. What an
// operation has asked for itself is left out: its row keeps its schedule.
func (w *world[Obj, T]) unequal() (texts []string) {
	calls := w.x.OwnCalls()
	begun := time.Now()
	w.each(prune)
	w.settle(settleTime)
	// In real time a listing may take longer than the program seems to rest.
	for !w.resynced(begun) && time.Since(begun) < callTime {
		w.settle(settleTime)
	}
	w.each(func(ctx context.Context, c controller) {
		s := c.Snapshot(ctx)
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
	if more := w.x.OwnCalls(); len(texts) == 0 && len(more) > len(calls) {
		texts = append(texts, "a resync of the settled target calls "+strings.Join(more[len(calls):], ", "))
	}
	if len(texts) > 0 {
		return texts
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

// resynced reports whether each reconciler has ended a resync that began after a time.
func (w *world[Obj, T]) resynced(after time.Time) bool {
	all := true
	w.each(func(ctx context.Context, c controller) {
		s := c.Snapshot(ctx)
		all = all && (!s.Lists || s.Resync != nil && !s.Resync.Started.Before(after))
	})
	return all
}

// rest returns the rows that are not applied.
func (w *world[Obj, T]) rest() (keys []inspect.Unreconciled) {
	w.each(func(ctx context.Context, c controller) {
		ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		rest, err := c.WaitAll(ctx, reconciler.Applied)
		if keys = append(keys, rest.Keys...); err != nil && len(rest.Keys) == 0 {
			keys = append(keys, inspect.Unreconciled{Err: err})
		}
	})
	return keys
}

// unapplied returns the rows that are not applied, with the reasons.
func (w *world[Obj, T]) unapplied() (texts []string) {
	for _, u := range w.rest() {
		texts = append(texts, u.Error())
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
		if u.State != inspect.StateBlocked && !slices.ContainsFunc(lasting, func(p check.Point) bool { return strings.HasSuffix(p.Key, check.KeyMark+string(u.Key)) }) {
			texts = append(texts, u.Error())
		}
	}
	return texts
}
