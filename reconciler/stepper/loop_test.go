// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"context"
	"errors"
	"iter"
	"strings"
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

const straightPath = "CRChecker > ObjectsGetter > Mutator > Updater > SuccessManager > End"

// The hook fails in the first two calls in a state. Explain has the paths.
func TestTheResultsAreTheOutcome(t *testing.T) {
	busy := errors.New("no such disk")
	const done = "update done: " + straightPath
	for name, test := range map[string]struct {
		state stepper.State
		fails func(c *call)
		text  string   // of the status after the first call
		want  []string // the operations of an hour
	}{
		"failures": {stepper.Updater, func(c *call) {
			c.AddOp("net", "looked up", nil, 24*time.Hour) // does not delay the retry
			c.AddOp("disk", "created", busy, 0)
		}, "Error: no such disk",
			[]string{"update failed: CRChecker > ObjectsGetter > Mutator > Updater > ErrorManager > End",
				"update failed: CRChecker > ObjectsGetter > Mutator > Updater > ErrorManager > End", done}},
		"outcomes of the loop": {stepper.ObjectsGetter,
			func(c *call) { c.AddOp("volume", "looked up", reconciler.Blocked("no volume"), 0) }, "Blocked: no volume",
			[]string{"update blocked: CRChecker > ObjectsGetter > ErrorManager > End",
				"update blocked: CRChecker > ObjectsGetter > ErrorManager > End", done}},
		// The path up to the panic is noted, and no engine keeps results of the panic.
		"panics": {stepper.Mutator, func(c *call) {
			assert.Zero(t, c.ErrorsCount())
			c.AddOp("", "", busy, 0)
			panic("oops")
		}, "Error: panic in update: oops", []string{"update failed: CRChecker > ObjectsGetter > Mutator",
			"update failed: CRChecker > ObjectsGetter > Mutator", done}},
		"a give-up with an error": {stepper.CRChecker, func(c *call) { c.AddGiveupError("disk", "checked", busy) },
			"Error: given up: no such disk",
			[]string{"update terminal: CRChecker > ErrorManager > GiveupManager > End"}},
		"a give-up without an error": {stepper.CRChecker, func(c *call) { c.AddGiveupError("disk", "checked", nil) },
			"Blocked: given up: checked disk",
			[]string{"update blocked: CRChecker > GiveupManager > End",
				"update blocked: CRChecker > GiveupManager > End", done}},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			hook := in(test.state, func(c *call) {
				if c.Object().ID == 1 && calls.Add(1) < 3 {
					test.fails(c)
				}
			})
			inBubble(t, stepper.NewStepper(hook), func(e *env) {
				e.Insert(pending(1, 1), pending(2, 1))
				e.Pass(time.Millisecond)
				require.Equal(e, test.text, e.text(1))
				require.Equal(e, []string{done}, e.events(2), "another row")
				e.Pass(time.Hour)
				require.Equal(e, test.want, e.events(1))
				calls.Store(2)
				e.Insert(pending(1, 2))
				e.Pass(time.Hour)
				require.Equal(e, "Done", e.text(1))
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 10 * time.Minute }))
		})
	}
}

// A deleted row is finalized until it succeeds, as with a finalizer, even if it was inserted and deleted between two
// rounds, since pruning is off.
func TestDeletedRowsAreFinalizedUntilSuccess(t *testing.T) {
	var calls atomic.Int32
	hook := in(stepper.CRFinalizer, func(c *call) {
		assert.True(t, c.Deleted())
		assert.Equal(t, 5, c.Object().Value)
		if calls.Add(1) == 1 {
			c.AddOp("disk", "removed", errors.New("busy"), 0)
		}
	})
	inBubble(t, stepper.NewStepper(hook), func(e *env) {
		e.Insert(pending(1, 5))
		synctest.Wait()
		e.Remove(1)
		e.Pass(time.Minute)
		require.Equal(e, []string{"update done: " + straightPath,
			"delete failed: CRChecker > CRFinalizer > ErrorManager > End",
			"delete done: CRChecker > CRFinalizer > End"}, e.events(1))
		e.Write(func(wtxn statedb.WriteTxn) {
			_, _, err := e.Table.Insert(wtxn, pending(2, 5))
			require.NoError(e, err)
			_, _, err = e.Table.Delete(wtxn, &row{ID: 2})
			require.NoError(e, err)
		})
		synctest.Wait()
		require.EqualValues(e, 3, calls.Load())
	})
}

// The results of a free style become outcomes, as those of a walk, and its note. A note of the hook stays if there
// are no results. After a panic the note has the results from before it.
func TestFreeStyleNotesItsResults(t *testing.T) {
	for want, hook := range map[string]freely{
		"update done: ":        func(*stepper.FreeStyle[*row]) {},
		"update done: by hand": func(e *stepper.FreeStyle[*row]) { reconciler.Note(e.Context(), "by hand") },
		"update requeue: looked up, created disk": func(e *stepper.FreeStyle[*row]) {
			e.AddOpSuccess("", "looked up")
			e.AddOp("disk", "created", nil, time.Hour)
		},
		"update failed: disk (failed), failed": func(e *stepper.FreeStyle[*row]) {
			e.AddOp("disk", "", errors.New("busy"), 0)
			e.AddOp("", "", errors.New("busy"), 0)
		},
		"update failed: created disk": func(e *stepper.FreeStyle[*row]) {
			e.AddOpSuccess("disk", "created")
			panic("oops")
		},
		"delete failed: the row is being finalized, removed disk (failed)": func(e *stepper.FreeStyle[*row]) {
			if e.Deleted() {
				e.AddGiveupError("disk", "removed", errors.New("keeps what it has"))
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			inBubble(t, stepper.NewFreeStyle(hook), func(e *env) {
				e.Insert(pending(1, 1))
				synctest.Wait()
				if strings.HasPrefix(want, "delete") {
					e.Remove(1)
					synctest.Wait()
				}
				events := e.events(1)
				require.Equal(e, want, events[len(events)-1])
			})
		})
	}
}

// pruning is a hook that prunes, and counts the wanted rows.
type pruning struct {
	steps
	wanted *int
}

func (p pruning) Prune(_ context.Context, _ statedb.ReadTxn, objects iter.Seq2[*row, statedb.Revision]) error {
	*p.wanted = 0
	for range objects {
		*p.wanted++
	}
	return nil
}

// mistyped has a Prune method that no loop would call.
type mistyped struct{ steps }

func (mistyped) Prune() error { return nil }

func TestHooksMayPrune(t *testing.T) {
	nothing := func(*stepper.Stepper[*row]) {}
	wanted := -1
	inBubble(t, stepper.NewStepper(pruning{nothing, &wanted}), func(e *env) {
		require.Zero(e, wanted)
		e.Insert(pending(1, 1), pending(2, 1))
		e.Loop.Prune()
		e.Pass(time.Minute)
		require.Equal(e, 2, wanted)
	})
	cfg, err := stepper.Configure(harness.Config(nil), stepper.NewStepper(steps(nothing)))
	require.NoError(t, err)
	require.Nil(t, cfg.Pruner)
	_, err = stepper.Configure(harness.Config(nil), stepper.NewStepper(mistyped{nothing}))
	require.ErrorContains(t, err, "stepper: the hook: stepper_test.mistyped.Prune is a func() error, must be a func(")
}

// Operations behave as the engine did when they were made, and do not use the engine itself.
func TestOperationsUseCopiesOfTheEngine(t *testing.T) {
	calls := 0
	s := stepper.NewStepper(in(stepper.CRChecker, func(c *call) {
		calls++
		require.EqualValues(t, 9, c.Revision())
		c.AddGiveupError("", "", nil)
	}))
	ops := operationsOf(t, s)
	require.ErrorIs(t, ops.Update(t.Context(), nil, 9, &row{}), stepper.ErrGiveUpReconciliation)
	require.NoError(t, ops.Delete(t.Context(), nil, 9, &row{}))
	require.Equal(t, 2, calls)
	require.Zero(t, s.ErrorsCount(), "a copy of the engine ran")
}

func TestConfigureNamesEveryMistake(t *testing.T) {
	const object = "github.com/statekeel/statekeel/internal/tests/harness.Object"
	cfg := harness.Config(operationsOf(t, stepper.NewFreeStyle(freely(func(*stepper.FreeStyle[*row]) {}))))
	_, err := stepper.Configure(cfg, nil)
	require.EqualError(t, err, "stepper: the engine is nil\nConfig.Operations (*stepper.operations[*"+object+"]) is set, "+
		"which is the engine's to do")
	_, err = stepper.Configure(harness.Config(nil), stepper.NewFreeStyle[*row](nil))
	require.EqualError(t, err, "stepper: the hook of the *stepper.FreeStyle[*"+object+"] is nil")
	_, err = stepper.Configure(harness.Config(nil), stepper.NewStepper[*row](nil))
	require.ErrorContains(t, err, "the hook of the *stepper.Stepper[*"+object+"] is nil")
	_, err = stepper.Configure(harness.Config(nil), stepper.NewFreeStyle(stepper.FreeStyleHookFunc[*row](nil)))
	require.ErrorContains(t, err, "the hook of the *stepper.FreeStyle[*"+object+"] is nil")
	_, err = stepper.Configure(harness.Config(nil), (*stepper.Stepper[*row])(nil))
	require.EqualError(t, err, "stepper: the engine is nil")
	_, err = stepper.Configure(harness.Config(nil), stepper.NewStepperOn(nil, stepper.StepperEngineHookFunc[*row](func(*stepper.Stepper[*row]) {})))
	require.EqualError(t, err, "stepper: the graph of the *stepper.Stepper[*"+object+"] is nil")
}

// Row 1 is changed by each reconciliation, row 2 only by the first. These outcomes do not change the status when they
// are repeated.
func TestOnlyChangesOfAHookAreWrittenWithAnyOutcome(t *testing.T) {
	for way, finish := range map[string]func(c *call){
		"requeue": func(c *call) { c.AddOp("disk", "looked up", nil, time.Minute) },
		"failure": func(c *call) { c.AddOp("disk", "looked up", errors.New("busy"), time.Minute) },
		"give-up": func(c *call) { c.AddGiveupError("disk", "looked up", nil) },
		"panic":   func(*call) { panic("oops") },
	} {
		var calls atomic.Int32
		for name, engine := range engines(func(c *call) {
			calls.Add(1)
			if c.Object().ID == 1 {
				c.Object().Value++
			} else {
				c.Object().Value = 7
			}
			finish(c)
		}) {
			t.Run(way+" of a "+name, func(t *testing.T) {
				calls.Store(0)
				inBubble(t, engine, func(e *env) {
					e.Insert(pending(1, 0), pending(2, 0))
					e.Pass(time.Second)
					_, first, _ := e.Table.Get(e.DB.ReadTxn(), harness.ByID.Query(2))
					e.Pass(9 * time.Minute)
					require.EqualValues(e, 20, calls.Load())
					require.Equal(e, 10, e.Row(1).Value, "one for each minute")
					row2, last, _ := e.Table.Get(e.DB.ReadTxn(), harness.ByID.Query(2))
					require.Equal(e, first, last, "row 2 is not written again")
					require.Equal(e, 7, row2.Value)
				}, reconciler.WithRetry(time.Minute, time.Minute)) // for the panic; the others have delays
			})
		}
	}
}

// A row is created, changed to a size that is refused, and deleted. Its disk is removed.
func TestFinalizingIgnoresTheResultsOfTheChecker(t *testing.T) {
	for name, refuse := range map[string]func(c *call){
		"give-up with an error":    func(c *call) { c.AddGiveupError("disk", "check", errors.New("too large")) },
		"give-up without an error": func(c *call) { c.AddGiveupError("disk", "check", nil) },
		"give-up beside an error": func(c *call) {
			c.AddOp("disk", "check", errors.New("odd"), 0)
			c.AddGiveupError("disk", "check", errors.New("too large"))
		},
		"delay": func(c *call) { c.AddOp("disk", "looked up", nil, time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			var disk atomic.Bool
			hook := steps(func(e *stepper.Stepper[*row]) {
				switch e.GetState() {
				case stepper.CRChecker:
					if e.Object().Value > 1000 {
						refuse(&e.Call)
					}
				case stepper.Updater:
					disk.Store(true)
				case stepper.CRFinalizer:
					assert.Zero(t, e.ErrorsCount(), "results of CRChecker do not count")
					disk.Store(false)
				}
			})
			inBubble(t, stepper.NewStepper(hook), func(e *env) {
				e.Insert(pending(1, 10))
				synctest.Wait()
				e.Insert(pending(1, 5000))
				e.Pass(time.Minute)
				require.True(e, disk.Load())
				e.Remove(1)
				e.Pass(time.Second)
				require.False(e, disk.Load(), "the disk leaks: %v", e.events(1))
				require.Equal(e, "delete done: CRChecker > CRFinalizer > End", e.events(1)[len(e.events(1))-1])
				require.True(e, e.applied())
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 3 }))
		})
	}
}

// A delay in CRFinalizer means that the deletion is still going on: the row is not applied until
// there is no delay.
func TestADelayInTheFinalizerContinuesTheDeletion(t *testing.T) {
	var looks atomic.Int32
	hook := in(stepper.CRFinalizer, func(c *call) {
		if looks.Add(1) < 4 {
			c.AddOp("disk", "being removed", nil, 20*time.Second)
		}
	})
	inBubble(t, stepper.NewStepper(hook), func(e *env) {
		e.Insert(pending(1, 1))
		synctest.Wait()
		e.Remove(1)
		e.Pass(59 * time.Second)
		require.False(e, e.applied())
		require.EqualValues(e, 3, looks.Load())
		e.Pass(time.Second)
		require.True(e, e.applied())
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 1 }))
}

// A hook may finalize a row that still exists. Neither failures nor give-ups end that.
func TestFinalizingAnExistingRowIsNeverGivenUp(t *testing.T) {
	for name, fail := range map[string]func(c *call){
		"failure":  func(c *call) { c.AddOp("disk", "removed", errors.New("busy"), 0) },
		"panic":    func(*call) { panic("busy") },
		"give-up":  func(c *call) { c.AddGiveupError("disk", "removed", errors.New("busy")) },
		"terminal": func(c *call) { c.AddOp("disk", "removed", reconciler.TerminalError(errors.New("busy")), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			hook := steps(func(e *stepper.Stepper[*row]) {
				switch e.GetState() {
				case stepper.CRChecker:
					e.AddOpSuccess("", stepper.OperationCRIsFinalizing)
				case stepper.CRFinalizer:
					if calls.Add(1) < 10 {
						fail(&e.Call)
					}
				}
			})
			inBubble(t, stepper.NewStepper(hook), func(e *env) {
				e.Insert(pending(1, 1))
				e.Pass(time.Hour)
				require.EqualValues(e, 10, calls.Load())
				require.True(e, e.applied())
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 2 }))
		})
	}
}
