// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// loopWaits holds every call that waits for a loop. The row with ID 9 does not exist.
var loopWaits = map[string]func(ctx context.Context, l *reconciler.Loop[*object]) error{
	"Retry of all": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, err := l.Retry(ctx)
		return err
	},
	"Retry of a key": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, err := l.Retry(ctx, "1")
		return err
	},
	"Wait attempted": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, err := l.Wait(ctx, 1, reconciler.Attempted)
		return err
	},
	"Wait applied": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, err := l.Wait(ctx, 1000, reconciler.Applied)
		return err
	},
	"WaitAll": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, err := l.WaitAll(ctx, reconciler.Attempted)
		return err
	},
	"WaitFor a row": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, err := l.WaitFor(ctx, reconciler.Applied, &object{ID: 1})
		return err
	},
	"WaitFor a deletion": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, err := l.WaitFor(ctx, reconciler.Attempted, &object{ID: 9})
		return err
	},
	"WaitKey": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, err := l.WaitKey(ctx, "1", reconciler.Attempted)
		return err
	},
	"WaitKey of no row": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, err := l.WaitKey(ctx, "9", reconciler.Attempted)
		return err
	},
	"WaitUntilReconciled": func(ctx context.Context, l *reconciler.Loop[*object]) error {
		_, _, err := l.WaitUntilReconciled(ctx, 1000)
		return err
	},
}

// An operation that waits for its own loop would wait for itself. It gets an error at once, with
// every kind of operations, in line and on workers.
func TestOperationCannotWaitForItsOwnLoop(t *testing.T) {
	for name, wait := range loopWaits {
		t.Run(name, func(t *testing.T) {
			withHooks(t, func(e *env, h *hooked) {
				asked := 0
				ask := func(ctx context.Context, _ *object) error {
					asked++
					began := time.Now()
					// The deadline lets the test fail instead of hang.
					ctx, cancel := context.WithTimeout(ctx, time.Hour)
					defer cancel()
					assert.ErrorIs(e, wait(ctx, e.loop), reconciler.ErrInOperation)
					assert.Zero(e, time.Since(began), "waited")
					return nil
				}
				h.update, h.remove = ask, ask
				e.put(1, 1)
				e.pass(24 * time.Hour)
				e.remove(1)
				e.pass(24 * time.Hour)
				require.Equal(e, 2, asked)
			})
		})
	}
}

// A prune is an operation as well.
func TestPruneCannotWaitForItsOwnLoop(t *testing.T) {
	for name, wait := range loopWaits {
		t.Run(name, func(t *testing.T) {
			var p *askingPruner
			inBubble(t, func(e *env) {
				p.ask = func(ctx context.Context) {
					ctx, cancel := context.WithTimeout(ctx, time.Hour)
					defer cancel()
					p.err = wait(ctx, e.loop)
				}
				began := time.Now()
				e.loop.Prune()
				synctest.Wait()
				require.ErrorIs(e, p.err, reconciler.ErrInOperation)
				require.Equal(e, began, time.Now())
			}, func(e *env, cfg *reconciler.Config[*object]) {
				p = &askingPruner{Operations: cfg.Operations}
				cfg.Operations = p
			})
		})
	}
}

type askingPruner struct {
	reconciler.Operations[*object]
	ask func(ctx context.Context)
	err error
}

func (p *askingPruner) Prune(ctx context.Context, _ statedb.ReadTxn, _ iter.Seq2[*object, statedb.Revision]) error {
	if p.ask != nil {
		p.ask(ctx)
	}
	return nil
}

// An operation may wait for another loop.
func TestWaitForAnotherLoopInAnOperationIsLegal(t *testing.T) {
	withHooks(t, func(e *env, h *hooked) {
		target := newTarget()
		cfg := e.config(reconciler.WithName("other"))
		cfg.Operations, cfg.SetStatus, cfg.GetStatus = target, (*object).SetOther, (*object).GetOther
		other := e.start(cfg)
		h.update = func(ctx context.Context, o *object) error {
			_, err := other.WaitFor(ctx, reconciler.Applied, o)
			_, retried := other.Retry(ctx)
			return errors.Join(err, retried)
		}
		e.put(1, 1)
		e.pass(time.Second)
		e.status(1, reconciler.StatusKindDone, "")
		require.Equal(e, map[uint64]int{1: 1}, target.holds())
	})
}

// An operation may ask for the state of its object or of its loop, and gets an answer without
// waiting. In line the loop is busy with this operation, and the answer shows it.
func TestOperationAsksItsOwnLoopWithoutWaiting(t *testing.T) {
	withHooks(t, func(e *env, h *hooked) {
		var x inspect.Explanation
		var s inspect.Snapshot
		var page inspect.ObjectPage
		var later context.Context
		h.update = func(ctx context.Context, _ *object) error {
			later = ctx
			began := time.Now()
			x, s = e.loop.Explain(ctx, "1"), e.loop.Snapshot(ctx)
			page, _ = e.loop.Objects(ctx, inspect.ObjectQuery{})
			assert.Zero(e, time.Since(began), "waited")
			return nil
		}
		e.put(1, 1)
		synctest.Wait()
		require.Equal(e, "Pending", x.Status)
		require.Len(e, page.Objects, 1)
		inLine := e.loop.Settings().Concurrency == 1
		if inLine {
			require.Equal(e, inspect.ConditionBusy, s.Condition)
			require.NotEmpty(e, s.Busy)
		} else {
			require.Equal(e, inspect.ConditionRunning, s.Condition)
			require.Equal(e, inspect.StateInFlight, x.State)
		}
		// The loop answers normally for the context of an operation that has ended.
		require.Equal(e, inspect.ConditionRunning, e.loop.Snapshot(later).Condition)
	})
}
