// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// noOperation asserts that a checkpoint of o with this context fails and changes nothing.
func (e *env) noOperation(ctx context.Context, o *object, why string) {
	e.Helper()
	before := e.get(o.ID)
	err := reconciler.Checkpoint(ctx, o)
	assert.ErrorIs(e, err, reconciler.ErrNoOperation, why)
	assert.ErrorContains(e, err, "checkpoint: not in an update of this object", why)
	assert.Same(e, before, e.get(o.ID), why)
}

// Only an update can make a checkpoint, and only of its own object.
func TestCheckpointOutsideOfAnUpdate(t *testing.T) {
	type foreign struct{ *object }
	withHooks(t, func(e *env, h *hooked) {
		var mu sync.Mutex
		var after []func()
		h.update = func(ctx context.Context, o *object) error {
			e.noOperation(context.Background(), o, "without the context")
			e.noOperation(ctx, &object{ID: 3}, "another object")
			assert.ErrorIs(e, reconciler.Checkpoint(ctx, foreign{o}), reconciler.ErrNoOperation, "an object of another type")
			mu.Lock()
			defer mu.Unlock()
			after = append(after, func() { e.noOperation(ctx, o, "after the end of the update") })
			return nil
		}
		h.remove = func(ctx context.Context, o *object) error {
			e.noOperation(ctx, o, "in a deletion")
			return nil
		}
		e.noOperation(e.Context(), &object{ID: 1}, "with the context of the test")
		e.put(1, 1, 2)
		synctest.Wait()
		for _, f := range after {
			f()
		}
		e.remove(1)
		synctest.Wait()
		e.status(2, reconciler.StatusKindDone, "")
	})
}

// The call for the deletions of a round cannot make a checkpoint of an object that the round updates.
func TestCheckpointInTheDeletionsOfARound(t *testing.T) {
	var h *hooked
	eachConcurrency(t, "batches", func(e *env) {
		h.update = func(context.Context, *object) error { return nil }
		h.remove = func(ctx context.Context, o *object) error {
			e.noOperation(ctx, &object{ID: 2}, "an update of the same round")
			return nil
		}
		e.put(1, 1)
		synctest.Wait()
		e.write(func(wtxn statedb.WriteTxn) {
			_, _, err := e.table.Delete(wtxn, &object{ID: 1})
			require.NoError(e, err)
			_, _, err = e.table.Insert(wtxn, &object{ID: 2, Status: reconciler.StatusPending()})
			require.NoError(e, err)
		})
		synctest.Wait()
		e.status(2, reconciler.StatusKindDone, "")
	}, func(_ *env, cfg *reconciler.Config[*object]) {
		h = &hooked{}
		cfg.BatchOperations = h
	})
}

// A batch can make a checkpoint of each of its objects, in any order. In the order of the batch, the
// cost of each does not grow with the size of the batch.
func TestCheckpointsOfABatch(t *testing.T) {
	const n = 1000
	var h *hooked
	for _, backwards := range []bool{false, true} {
		eachConcurrency(t, fmt.Sprintf("backwards %t", backwards), func(e *env) {
			e.put(1, ids(1, n)...)
			synctest.Wait()
			e.eachNote(n, "checked")
			if !backwards {
				require.Less(e, counted.Load(), int64(30*n))
			}
		}, func(e *env, cfg *reconciler.Config[*object]) {
			h = &hooked{}
			cfg.BatchOperations = checkingBatch{h, e, backwards}
			countReads(e, cfg)
			counted.Store(0)
		})
	}
}

// eachNote requires n rows, each Done and with the note.
func (e *env) eachNote(n int, note string) {
	e.Helper()
	rows := 0
	for o := range e.table.All(e.db.ReadTxn()) {
		rows++
		require.Equal(e, note, o.Note)
		require.Equal(e, reconciler.StatusKindDone, o.Status.Kind, o.Status)
	}
	require.Equal(e, n, rows)
}

// checkingBatch makes a checkpoint of each object in the middle of its batch.
type checkingBatch struct {
	*hooked
	e         *env
	backwards bool
}

func (c checkingBatch) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	for i := range batch {
		if c.backwards {
			i = len(batch) - 1 - i
		}
		batch[i].Object.Note = "checked"
		batch[i].Result = reconciler.Checkpoint(ctx, batch[i].Object)
		if row := c.e.get(batch[i].Object.ID); row.Note != "checked" {
			batch[i].Result = errors.New("not in the table")
		}
	}
}

// Two reconcilers each set a field of the same objects, at checkpoints and at the end. Both fields
// survive, whatever the program writes meanwhile.
func TestFieldsOfTwoReconcilersSurvive(t *testing.T) {
	first := rand.Uint64()
	for i := range uint64(20) {
		seed := first + i
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { survive(t, seed) })
		})
	}
}

func survive(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	e := newEnv(t)
	join := func(seed uint64, set func(o *object, round int), merge func(current, reconciled *object) *object, change func(cfg *reconciler.Config[*object])) {
		h := &hooked{update: updates(seed, set)}
		workers := 1 + 3*rng.IntN(2)
		cfg := e.config(reconciler.WithName(fmt.Sprint(seed)), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }),
			reconciler.WithoutPruning(), reconciler.WithRetry(10*time.Millisecond, 100*time.Millisecond))
		cfg.Operations, cfg.Merge = h, merge
		if rng.IntN(2) == 0 {
			cfg.BatchOperations = h
		}
		change(&cfg)
		e.start(cfg)
	}
	// The last digit of the value is what the program wants. Both fields are derived from it.
	join(seed, func(o *object, round int) { o.Note = fmt.Sprint(round*10 + o.Value%10) }, keepNote,
		func(*reconciler.Config[*object]) {})
	join(seed+1, func(o *object, round int) { o.Value = round*10 + o.Value%10 }, keepValue,
		func(cfg *reconciler.Config[*object]) {
			cfg.SetStatus, cfg.GetStatus = (*object).SetOther, (*object).GetOther
		})
	for range 60 {
		id := uint64(1 + rng.IntN(4))
		e.put(rng.IntN(10), id)
		e.pass(time.Duration(rng.IntN(8)) * time.Millisecond)
	}
	e.pass(time.Minute)
	for o := range e.table.All(e.db.ReadTxn()) {
		require.Equal(e, reconciler.StatusKindDone, o.Status.Kind, "object %d: %s", o.ID, o.Status)
		require.Equal(e, reconciler.StatusKindDone, o.Other.Kind, "object %d: %s", o.ID, o.Other)
		require.NotEmpty(e, o.Note, "object %d", o.ID)
		require.GreaterOrEqual(e, o.Value, 10, "object %d", o.ID)
		require.Equal(e, o.Note[len(o.Note)-1:], fmt.Sprint(o.Value%10), "object %d: both fields are derived from the latest value", o.ID)
	}
	e.stop()
}

// updates returns an update that sets a field, makes checkpoints at random, and fails at random during
// its first calls.
func updates(seed uint64, set func(o *object, round int)) func(ctx context.Context, o *object) error {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	calls := 0
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		calls++
		if calls > 500 {
			return n - 1
		}
		return rng.IntN(n)
	}
	return func(ctx context.Context, o *object) error {
		for round := range 1 + draw(4) {
			set(o, 1+round)
			time.Sleep(time.Duration(draw(3)) * time.Millisecond)
			if draw(2) == 0 {
				if err := reconciler.Checkpoint(ctx, o); err != nil {
					return err
				}
			}
		}
		if draw(5) == 0 {
			return errPlain
		}
		return nil
	}
}

// A checkpoint calls the key function. If an operation makes a checkpoint of a nil object, the key
// function panics, and the operation fails.
func TestCheckpointOfNilFailsItsOperation(t *testing.T) {
	everyWay(t, func(e *env) {
		var mended atomic.Bool
		e.target.before = func(ctx context.Context, c call) {
			if c.id == 2 && !mended.Load() {
				_ = reconciler.Checkpoint[*object](ctx, nil)
			}
		}
		e.put(1, ids(1, 3)...)
		e.pass(time.Second)
		require.Contains(e, e.get(2).Status.GetError(), "panic in ")
		mended.Store(true)
		e.pass(time.Minute)
		e.eachDone()
	})
}
