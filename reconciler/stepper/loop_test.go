// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

const (
	straightPath = "CRChecker > ObjectsGetter > Mutator > Updater > SuccessManager > End"
	errorPath    = "CRChecker > ObjectsGetter > Mutator > Updater > ErrorManager > End"
)

// in returns a hook that calls do in one state.
func in(state stepper.State, do func(e *stepper.Stepper[*row])) stepper.StepperEngineHookFunc[*row] {
	return func(e *stepper.Stepper[*row]) {
		if e.GetState() == state {
			do(e)
		}
	}
}

// Failed rows are retried with backoff, and Explain has the paths.
func TestErrorsAreRetriedWithBackoff(t *testing.T) {
	var calls atomic.Int32
	hook := in(stepper.Updater, func(e *stepper.Stepper[*row]) {
		if calls.Add(1) < 3 {
			e.AddOp("disk", "created", errors.New("busy"), 0)
		}
	})
	inBubble(t, stepper.NewStepper(hook), func(e *env) {
		e.Insert(pending(1, 1))
		e.Pass(99 * time.Millisecond)
		require.EqualValues(e, 1, calls.Load())
		kind, text := e.status(1)
		require.Equal(e, reconciler.StatusKindError, kind)
		require.Equal(e, "busy", text)
		e.Pass(time.Millisecond)
		require.EqualValues(e, 2, calls.Load())
		e.Pass(time.Second)
		kind, _ = e.status(1)
		require.Equal(e, reconciler.StatusKindDone, kind)
		require.Equal(e, []string{"update failed: " + errorPath, "update failed: " + errorPath, "update done: " + straightPath}, e.events(1))
	})
}

// An outcome of the loop that is added as an error keeps its meaning.
func TestOutcomesOfTheLoopPassThrough(t *testing.T) {
	var gate atomic.Pointer[chan struct{}]
	hook := in(stepper.ObjectsGetter, func(e *stepper.Stepper[*row]) {
		if ch := gate.Load(); ch != nil {
			e.AddOp("volume", "looked up", reconciler.Blocked("no volume", *ch), 0)
		}
	})
	inBubble(t, stepper.NewStepper(hook), func(e *env) {
		open := make(chan struct{})
		gate.Store(&open)
		e.Insert(pending(1, 1))
		synctest.Wait()
		kind, text := e.status(1)
		require.Equal(e, reconciler.StatusKindBlocked, kind)
		require.Equal(e, "no volume", text)
		gate.Store(nil)
		close(open)
		synctest.Wait()
		require.Equal(e, []string{"update blocked: CRChecker > ObjectsGetter > ErrorManager > End", "update done: " + straightPath}, e.events(1))
	})
}

// A deleted row is finalized until it succeeds, as with a finalizer.
func TestDeletedRowsAreFinalizedUntilSuccess(t *testing.T) {
	var calls atomic.Int32
	hook := in(stepper.CRFinalizer, func(e *stepper.Stepper[*row]) {
		assert.True(t, e.Deleted())
		assert.Equal(t, 5, e.Object().Value)
		if calls.Add(1) == 1 {
			e.AddOp("disk", "removed", errors.New("busy"), 0)
		}
	})
	inBubble(t, stepper.NewStepper(hook), func(e *env) {
		e.Insert(pending(1, 5))
		synctest.Wait()
		e.Remove(1)
		e.Pass(time.Minute)
		require.EqualValues(e, 2, calls.Load())
		require.Equal(e, []string{"update done: " + straightPath,
			"delete failed: CRChecker > CRFinalizer > ErrorManager > End", "delete done: CRChecker > CRFinalizer > End"}, e.events(1))
	})
}

// A row that is inserted and deleted between two rounds is finalized too, since pruning is off.
func TestRowsDeletedBeforeTheirFirstUpdateAreFinalized(t *testing.T) {
	var calls atomic.Int32
	hook := in(stepper.CRFinalizer, func(*stepper.Stepper[*row]) { calls.Add(1) })
	inBubble(t, stepper.NewStepper(hook), func(e *env) {
		e.Insert(pending(2, 1))
		synctest.Wait()
		wtxn := e.DB.WriteTxn(e.Table)
		_, _, err := e.Table.Insert(wtxn, pending(1, 1))
		require.NoError(e, err)
		_, _, err = e.Table.Delete(wtxn, &row{ID: 1})
		require.NoError(e, err)
		wtxn.Commit()
		synctest.Wait()
		require.EqualValues(e, 1, calls.Load())
	})
}

// A hook that panics fails only its row. The path up to the panic is noted, and no engine keeps
// results of the panic.
func TestPanicsOfHooksAreErrorsOfTheirRow(t *testing.T) {
	var panicked atomic.Bool
	hook := in(stepper.Mutator, func(e *stepper.Stepper[*row]) {
		assert.Zero(t, e.ErrorsCount())
		if e.Object().ID == 1 && !panicked.Swap(true) {
			e.AddOp("", "", errors.New("half done"), 0)
			panic("oops")
		}
	})
	inBubble(t, stepper.NewStepper(hook), func(e *env) {
		e.Insert(pending(1, 1), pending(2, 1))
		synctest.Wait()
		_, text := e.status(1)
		require.Equal(e, "panic in update: oops", text)
		e.Pass(time.Second)
		require.Equal(e, []string{"update failed: CRChecker > ObjectsGetter > Mutator", "update done: " + straightPath}, e.events(1))
		require.Equal(e, []string{"update done: " + straightPath}, e.events(2))
	})
}

// freely is a hook without states.
type freely struct{ calls atomic.Int32 }

func (f *freely) ReconcileWithCR(e *stepper.FreeStyle[*row]) {
	f.calls.Add(1)
	switch {
	case e.Deleted():
		e.AddGiveupError("disk", "removed", errors.New("keeps what it has"))
	case e.Object().Value == 1:
		e.AddOpSuccess("", "looked up")
		e.AddOp("disk", "created", nil, time.Hour)
	default:
		e.AddOp("", "created", errors.New("odd"), 0)
	}
}

// The results of a free style become outcomes, as those of a walk, and its note.
func TestFreeStyleResultsAreOutcomesAndNotes(t *testing.T) {
	hook := &freely{}
	inBubble(t, stepper.NewFreeStyle(hook), func(e *env) {
		e.Insert(pending(1, 1), pending(2, 2))
		synctest.Wait()
		require.Equal(e, []string{"update requeue: looked up, created disk"}, e.events(1))
		require.Equal(e, []string{"update failed: created (failed)"}, e.events(2))
		e.Remove(1)
		synctest.Wait()
		require.Equal(e, []string{"update requeue: looked up, created disk",
			"delete failed: the row is being finalized, removed disk (failed)"}, e.events(1))
		require.EqualValues(e, 3, hook.calls.Load())
	})
}

// A note of the hook stays if there are no results. After a panic the note has the results from
// before it.
func TestFreeStyleNotesItsResults(t *testing.T) {
	for want, hook := range map[string]stepper.FreeStyleHookFunc[*row]{
		"update done: ":        func(*stepper.FreeStyle[*row]) {},
		"update done: by hand": func(e *stepper.FreeStyle[*row]) { reconciler.Note(e.Context(), "by hand") },
		"update done: disk":    func(e *stepper.FreeStyle[*row]) { e.AddOpSuccess("disk", "") },
		"update failed: disk (failed), failed": func(e *stepper.FreeStyle[*row]) {
			e.AddOp("disk", "", errors.New("busy"), 0)
			e.AddOp("", "", errors.New("busy"), 0)
		},
		"update failed: created disk": func(e *stepper.FreeStyle[*row]) {
			e.AddOpSuccess("disk", "created")
			panic("oops")
		},
	} {
		t.Run(want, func(t *testing.T) {
			inBubble(t, stepper.NewFreeStyle(hook), func(e *env) {
				e.Insert(pending(1, 1))
				synctest.Wait()
				require.Equal(e, []string{want}, e.events(1))
			})
		})
	}
}

// pruning is a hook that prunes.
type pruning struct {
	stepper.StepperEngineHookFunc[*row]
	wanted chan int
}

func (p pruning) Prune(_ context.Context, _ statedb.ReadTxn, objects iter.Seq2[*row, statedb.Revision]) error {
	n := 0
	for range objects {
		n++
	}
	p.wanted <- n
	return nil
}

func TestHooksMayPrune(t *testing.T) {
	nothing := func(*stepper.Stepper[*row]) {}
	hook := pruning{nothing, make(chan int, 10)}
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.Insert(pending(1, 1), pending(2, 1))
		p := pruning{nothing, make(chan int, 10)}
		e.start(e.config(), stepper.NewStepper(p))
		require.Equal(t, 2, <-p.wanted)
		e.Stop()
	})
	// Without a loop.
	ops := operationsOf(t, stepper.NewStepper(hook))
	require.NoError(t, ops.Prune(t.Context(), nil, func(func(*row, statedb.Revision) bool) {}))
	require.Zero(t, <-hook.wanted)
	ops = operationsOf(t, stepper.NewStepper(stepper.StepperEngineHookFunc[*row](nothing)))
	require.EqualError(t, ops.Prune(t.Context(), nil, nil),
		"the hook stepper.StepperEngineHookFunc[*github.com/statekeel/statekeel/internal/tests/harness.Object] has no Prune method; use WithoutPruning")
}

// Operations behave as the engine did when they were made, and do not use the engine itself.
func TestOperationsUseCopiesOfTheEngine(t *testing.T) {
	calls := 0
	s := stepper.NewStepper(in(stepper.CRChecker, func(e *stepper.Stepper[*row]) { calls++; e.AddGiveupError("", "", nil) }))
	ops := operationsOf(t, s)
	err := ops.Update(t.Context(), nil, 1, &row{})
	require.ErrorIs(t, err, stepper.ErrGiveUpReconciliation)
	require.NoError(t, ops.Delete(t.Context(), nil, 1, &row{}))
	require.Equal(t, 2, calls)
	require.Zero(t, s.ErrorsCount(), "a copy of the engine ran")
}

func TestConfigureNamesEveryMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		cfg := e.config()
		ops := operationsOf(t, stepper.NewFreeStyle(&freely{}))
		cfg.Operations = ops
		_, err := stepper.Configure(cfg, nil)
		require.EqualError(t, err, "stepper: the engine is nil\nConfig.Operations (*stepper.operations[*github.com/statekeel/statekeel/internal/tests/harness.Object]) is set, which is the engine's to do")
		_, err = stepper.Configure(e.config(), stepper.NewFreeStyle[*row](nil))
		require.EqualError(t, err, "stepper: the hook of the *stepper.FreeStyle[*github.com/statekeel/statekeel/internal/tests/harness.Object] is nil")
		_, err = stepper.Configure(e.config(), stepper.NewStepper[*row](nil))
		require.ErrorContains(t, err, "is nil")
		cfg = e.config()
		cfg.Table = nil
		cfg, err = stepper.Configure(cfg, stepper.NewFreeStyle(&freely{}))
		require.NoError(t, err)
		_, err = reconciler.New(cfg)
		require.ErrorContains(t, err, "Config.Table is nil")
	})
}

// stored returns a row and its revision.
func (e *env) stored(id uint64) (*row, statedb.Revision) {
	r, revision, found := e.Table.Get(e.DB.ReadTxn(), harness.ByID.Query(id))
	require.True(e, found, "row %d", id)
	return r, revision
}

// ways are outcomes that do not change the status when they are repeated.
var ways = map[string]func(c *stepper.Call[*row]){
	"requeue": func(c *stepper.Call[*row]) { c.AddOp("disk", "looked up", nil, time.Minute) },
	"failure": func(c *stepper.Call[*row]) { c.AddOp("disk", "looked up", errors.New("busy"), time.Minute) },
	"give-up": func(c *stepper.Call[*row]) { c.AddGiveupError("disk", "looked up", nil) },
	"panic":   func(*stepper.Call[*row]) { panic("oops") },
}

// everyMinute is the backoff of the way "panic"; the others have delays.
var everyMinute = reconciler.WithRetry(time.Minute, time.Minute)

// engines returns a stepper and a free style that call do once for each reconciliation.
func engines(do func(c *stepper.Call[*row])) map[string]func() stepper.Engine[*row] {
	return map[string]func() stepper.Engine[*row]{
		"stepper": func() stepper.Engine[*row] {
			return stepper.NewStepper(in(stepper.Updater, func(e *stepper.Stepper[*row]) { do(&e.Call) }))
		},
		"free style": func() stepper.Engine[*row] {
			return stepper.NewFreeStyle(stepper.FreeStyleHookFunc[*row](func(e *stepper.FreeStyle[*row]) { do(&e.Call) }))
		},
	}
}

func TestChangesOfAHookAreWrittenWithAnyOutcome(t *testing.T) {
	for way, finish := range ways {
		for name, engine := range engines(func(c *stepper.Call[*row]) { c.Object().Value++; finish(c) }) {
			t.Run(way+" of a "+name, func(t *testing.T) {
				withWorkers(t, engine, func(e *env) {
					e.Insert(pending(1, 0))
					e.Pass(9*time.Minute + time.Second)
					r, _ := e.stored(1)
					require.Equal(e, 10, r.Value, "one for each minute")
				}, everyMinute)
			})
		}
	}
}

func TestUnchangedRowsAreNotWrittenAgain(t *testing.T) {
	for way, finish := range ways {
		var calls atomic.Int32
		for name, engine := range engines(func(c *stepper.Call[*row]) { calls.Add(1); c.Object().Value = 7; finish(c) }) {
			t.Run(way+" of a "+name, func(t *testing.T) {
				withWorkers(t, func() stepper.Engine[*row] { calls.Store(0); return engine() }, func(e *env) {
					e.Insert(pending(1, 0))
					e.Pass(time.Second)
					_, first := e.stored(1)
					e.Pass(9 * time.Minute)
					require.EqualValues(e, 10, calls.Load())
					_, last := e.stored(1)
					require.Equal(e, first, last)
				}, everyMinute)
			})
		}
	}
}

// withWorkers runs a test with 1 and with 8 workers.
func withWorkers(t *testing.T, engine func() stepper.Engine[*row], test func(e *env), opts ...reconciler.Option) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d worker(s)", workers), func(t *testing.T) {
			inBubble(t, engine(), test, append(opts, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))...)
		})
	}
}

// applied requires that everything is applied, or that something is not.
func (e *env) applied(want bool) {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	unapplied, err := e.Loop.Wait(ctx, e.Table.Revision(e.DB.ReadTxn()), reconciler.Applied)
	if want {
		require.NoError(e, err)
		require.NoError(e, unapplied.Err())
	} else {
		require.True(e, err != nil || unapplied.Err() != nil, "everything is applied")
	}
}

// A row is created, changed to a size that is refused, and deleted. Its disk is removed.
func TestFinalizingIgnoresAGiveupOfTheChecker(t *testing.T) {
	refusals := map[string]func(e *stepper.Stepper[*row]){
		"with error":    func(e *stepper.Stepper[*row]) { e.AddGiveupError("disk", "check", errors.New("too large")) },
		"without error": func(e *stepper.Stepper[*row]) { e.AddGiveupError("disk", "check", nil) },
		"beside an error": func(e *stepper.Stepper[*row]) {
			e.AddOp("disk", "check", errors.New("odd"), 0)
			e.AddGiveupError("disk", "check", errors.New("too large"))
		},
	}
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			var disk atomic.Bool
			hook := stepper.StepperEngineHookFunc[*row](func(e *stepper.Stepper[*row]) {
				switch e.GetState() {
				case stepper.CRChecker:
					if e.Object().Value > 1000 {
						refuse(e)
					}
				case stepper.Updater:
					disk.Store(true)
				case stepper.CRFinalizer:
					require.Zero(t, e.ErrorsCount(), "results of CRChecker do not count")
					disk.Store(false)
				}
			})
			withWorkers(t, func() stepper.Engine[*row] { return stepper.NewStepper(hook) }, func(e *env) {
				e.Insert(pending(1, 10))
				synctest.Wait()
				e.Insert(pending(1, 5000))
				e.Pass(time.Minute)
				require.True(e, disk.Load())
				e.Remove(1)
				e.Pass(time.Hour)
				require.False(e, disk.Load(), "the disk leaks: %v", e.events(1))
				require.Equal(e, "delete done: CRChecker > CRFinalizer > End", e.events(1)[len(e.events(1))-1])
				e.applied(true)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 3 }))
		})
	}
}

// A hook that polls adds a delay in CRChecker. It does not apply to deleted rows.
func TestADelayInTheCheckerDoesNotProlongADeletion(t *testing.T) {
	hook := in(stepper.CRChecker, func(e *stepper.Stepper[*row]) { e.AddOp("disk", "looked up", nil, time.Minute) })
	withWorkers(t, func() stepper.Engine[*row] { return stepper.NewStepper(hook) }, func(e *env) {
		e.Insert(pending(1, 1))
		synctest.Wait()
		e.Remove(1)
		e.Pass(time.Second)
		e.applied(true)
		require.Equal(e, "delete done: CRChecker > CRFinalizer > End", e.events(1)[1])
	})
}

// A delay in CRFinalizer means that the deletion is still going on: the row is not applied until
// there is no delay.
func TestADelayInTheFinalizerContinuesTheDeletion(t *testing.T) {
	var looks atomic.Int32
	hook := in(stepper.CRFinalizer, func(e *stepper.Stepper[*row]) {
		if looks.Add(1) < 4 {
			e.AddOp("disk", "being removed", nil, 20*time.Second)
		}
	})
	withWorkers(t, func() stepper.Engine[*row] { looks.Store(0); return stepper.NewStepper(hook) }, func(e *env) {
		e.Insert(pending(1, 1))
		synctest.Wait()
		e.Remove(1)
		e.Pass(59 * time.Second)
		e.applied(false)
		require.EqualValues(e, 3, looks.Load())
		e.Pass(time.Second)
		e.applied(true)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 1 }))
}

// A hook may finalize a row that still exists. Neither failures nor give-ups end that.
func TestFinalizingAnExistingRowIsNeverGivenUp(t *testing.T) {
	failures := map[string]func(e *stepper.Stepper[*row]){
		"failure": func(e *stepper.Stepper[*row]) { e.AddOp("disk", "removed", errors.New("busy"), 0) },
		"panic":   func(*stepper.Stepper[*row]) { panic("busy") },
		"give-up": func(e *stepper.Stepper[*row]) { e.AddGiveupError("disk", "removed", errors.New("busy")) },
		"terminal": func(e *stepper.Stepper[*row]) {
			e.AddOp("disk", "removed", reconciler.TerminalError(errors.New("busy")), 0)
		},
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			hook := stepper.StepperEngineHookFunc[*row](func(e *stepper.Stepper[*row]) {
				switch e.GetState() {
				case stepper.CRChecker:
					e.AddOpSuccess("", stepper.OperationCRIsFinalizing)
				case stepper.CRFinalizer:
					if calls.Add(1) < 10 {
						fail(e)
					}
				}
			})
			withWorkers(t, func() stepper.Engine[*row] { calls.Store(0); return stepper.NewStepper(hook) }, func(e *env) {
				e.Insert(pending(1, 1))
				e.Pass(time.Hour)
				require.EqualValues(e, 10, calls.Load())
				e.applied(true)
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 2 }))
		})
	}
}
