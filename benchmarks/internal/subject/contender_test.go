// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// within bounds a wait that could otherwise hang a test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func started(t *testing.T, c subject.Contender, o subject.Options) subject.System {
	sys, err := c.Start(o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, sys.Stop(context.Background())) })
	return sys
}

func TestContenderNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range subject.Contenders() {
		assert.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
		assert.NotEmpty(t, c.About)
		ways := 0
		for _, has := range []bool{c.Start != nil, c.StartController != nil, c.StartFleet != nil} {
			if has {
				ways++
			}
		}
		assert.Equal(t, 1, ways, "%s is started in one way", c.Name)
	}
	assert.Len(t, seen, 32)
}

// withoutStatus are the contenders whose rows carry no status.
var withoutStatus = map[string]bool{subject.StatekeelBeside: true, subject.StatekeelBeside8: true, subject.FloorBeside: true}

func TestContendersReconcileRowsAndDeletions(t *testing.T) {
	for _, c := range subject.Contenders() {
		if c.Start == nil {
			continue
		}
		options := map[string]subject.Options{
			"single": {},
			"batch":  {Batch: true},
			"set":    {Reconcilers: 1},
			"retry":  {RetryMin: time.Hour, RetryMax: time.Hour},
		}
		switch c.Name {
		case subject.StatekeelStepper:
			delete(options, "batch")
		case subject.StatekeelStateful, subject.StatekeelResources:
			delete(options, "batch")
			delete(options, "set")
		}
		for name, o := range options {
			t.Run(c.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx := within(t)
				sys := started(t, c, o)
				target := sys.Targets()[0]
				assert.True(t, sys.Oldest().IsZero())

				require.NoError(t, sys.Insert(10, 5))
				require.NoError(t, sys.Await(ctx, 14, subject.Done))
				_, err := sys.AwaitAll(ctx, subject.Done)
				require.NoError(t, err)
				waited, err := sys.AwaitAll(ctx, subject.Done)
				require.NoError(t, err)
				assert.Zero(t, waited)
				assert.Equal(t, map[subject.Kind]uint64{subject.Done: 5}, sys.Count())
				assert.EqualValues(t, 5, target.Updates.Load())
				assert.Equal(t, withoutStatus[c.Name], sys.Oldest().IsZero())
				if o.Batch {
					assert.Positive(t, target.Batches.Load())
				}

				require.NoError(t, sys.Remove(11, 2))
				select {
				case <-target.Deletes.Reached(2):
				case <-ctx.Done():
					require.NoError(t, context.Cause(ctx))
				}
				assert.Equal(t, map[subject.Kind]uint64{subject.Done: 3}, sys.Count())
			})
		}
	}
}

func TestRowIsDoneWhenAllReconcilersReported(t *testing.T) {
	for _, name := range []string{subject.Statekeel, subject.StatekeelBeside, subject.Peer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			sys := started(t, byName(t, name), subject.Options{Reconcilers: 3})
			require.Len(t, sys.Targets(), 3)
			hold := make(chan struct{})
			sys.Targets()[1].SetRule(func(uint64) error { <-hold; return nil })

			require.NoError(t, sys.Insert(0, 1))
			awaitCall(ctx, t, sys.Targets()[0])
			awaitCall(ctx, t, sys.Targets()[2])
			assert.Equal(t, map[subject.Kind]uint64{subject.Waiting: 1}, sys.Count())
			close(hold)
			require.NoError(t, sys.Await(ctx, 0, subject.Done))
			for _, target := range sys.Targets() {
				assert.EqualValues(t, 1, target.Updates.Load())
			}
		})
	}
}

func TestRowHasFailedWhenOneReconcilerFailed(t *testing.T) {
	for _, name := range []string{subject.Statekeel, subject.Peer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			sys := started(t, byName(t, name), subject.Options{Reconcilers: 2, RetryMin: time.Hour, RetryMax: time.Hour})
			sys.Targets()[1].SetRule(func(uint64) error { return errors.New("no") })
			require.NoError(t, sys.Insert(0, 1))
			require.NoError(t, sys.Await(ctx, 0, subject.Failed))
		})
	}
}

func TestContendersRunAsManyWorkersAsTheyReport(t *testing.T) {
	for name, workers := range map[string]int{
		subject.Statekeel: 1, subject.StatekeelBreaker: 1, subject.StatekeelObserved: 1, subject.StatekeelBare: 1, subject.Peer: 1, subject.Floor: 1,
		subject.StatekeelBeside: 1, subject.StatekeelBeside8: 8, subject.FloorBeside: 1,
		subject.StatekeelStepper: 1, subject.StatekeelStateful: 1, subject.StatekeelResources: 1,
		subject.Statekeel2: 2, subject.Statekeel4: 4, subject.Statekeel64: 64, subject.Statekeel128: 128,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			sys := started(t, byName(t, name), subject.Options{})
			assert.Equal(t, workers, sys.Workers())

			// Each operation waits until as many run as there are workers.
			var running, excess atomic.Int64
			var once sync.Once
			together := make(chan struct{})
			sys.Targets()[0].SetRule(func(uint64) error {
				defer running.Add(-1)
				if n := running.Add(1); n == int64(workers) {
					once.Do(func() { close(together) })
				} else if n > int64(workers) {
					excess.Add(1)
				}
				select {
				case <-together:
				case <-ctx.Done():
				}
				return nil
			})
			require.NoError(t, sys.Insert(0, 1000))
			_, err := sys.AwaitAll(ctx, subject.Done)
			require.NoError(t, err)
			assert.True(t, closed(together), "fewer operations ran at a time")
			assert.Zero(t, excess.Load())
		})
	}
}

func TestRowIsBlockedUntilItsChannelCloses(t *testing.T) {
	for name, c := range map[string]struct {
		contender string
		options   subject.Options
		kind      subject.Kind
	}{
		"plain":  {subject.Statekeel, subject.Options{}, subject.Blocked},
		"shared": {subject.Statekeel, subject.Options{Reconcilers: 2}, subject.Waiting},
		"beside": {subject.StatekeelBeside, subject.Options{}, subject.Blocked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			sys := started(t, byName(t, c.contender), c.options)
			device, missed := make(chan struct{}), make(chan struct{}, 1)
			target := sys.Targets()[0]
			target.SetRule(func(uint64) error {
				if !closed(device) {
					missed <- struct{}{}
					return subject.BlockedOn("no device", device)
				}
				return nil
			})
			require.NoError(t, sys.Insert(0, 1))
			select {
			case <-missed:
			case <-ctx.Done():
				require.NoError(t, context.Cause(ctx))
			}
			require.NoError(t, sys.Await(ctx, 0, c.kind))
			assert.Equal(t, map[subject.Kind]uint64{c.kind: 1}, sys.Count())
			close(device)
			require.NoError(t, sys.Await(ctx, 0, subject.Done))
			assert.EqualValues(t, 2, target.Updates.Load())
		})
	}
}

func TestWriterWorksOnceForEachRow(t *testing.T) {
	errWork := errors.New("no work")
	for _, reconcilers := range []int{0, 2} {
		var worked []uint64
		sys := started(t, byName(t, subject.Statekeel), subject.Options{
			Reconcilers: reconcilers,
			WriteWork: func(id uint64) error {
				if id == 9 {
					return errWork
				}
				worked = append(worked, id)
				return nil
			},
		})
		require.NoError(t, sys.Insert(1, 3))
		require.NoError(t, sys.Remove(2, 1))
		assert.Equal(t, []uint64{1, 2, 3, 2}, worked)
		assert.ErrorIs(t, sys.Insert(8, 2), errWork)
		assert.ErrorIs(t, sys.Remove(9, 1), errWork)
		assert.ErrorContains(t, sys.Await(ended(t), 8, subject.Done), "row 8 is not in the table", "nothing was written")
	}
}

func TestDoneRowsExistBeforeTheContenderStarts(t *testing.T) {
	for _, name := range []string{subject.Statekeel, subject.Peer} {
		synctest.Test(t, func(t *testing.T) {
			since := time.Now().Add(-59 * time.Minute)
			var calls atomic.Int64
			sys, err := byName(t, name).Start(subject.Options{
				Batch: true, RefreshEvery: time.Hour, DoneRows: 5, DoneSince: since,
				Prepare: func(target *subject.Target) { target.SetBatchRule(func() { calls.Add(1) }) },
			})
			require.NoError(t, err)
			defer func() { assert.NoError(t, sys.Stop(context.Background())) }()
			target := sys.Targets()[0]
			time.Sleep(time.Minute - 1)
			synctest.Wait()
			assert.Equal(t, map[subject.Kind]uint64{subject.Done: 5}, sys.Count())
			assert.True(t, sys.Oldest().Equal(since))
			assert.Zero(t, target.Updates.Load(), "there was nothing to do")

			time.Sleep(time.Second)
			synctest.Wait()
			assert.EqualValues(t, 5, target.Updates.Load(), "all were due for a refresh")
			assert.Equal(t, target.Batches.Load(), uint64(calls.Load()))
			assert.True(t, sys.Oldest().After(since))
		})
	}
}

func TestBatchRuleRunsBeforeTheRowsRule(t *testing.T) {
	target := &subject.Target{}
	target.SetBatchRule(func() {
		assert.EqualValues(t, 1, target.Batches.Load())
		assert.Zero(t, target.Updates.Load())
	})
	target.UpdateBatch()
	assert.NoError(t, target.Update(1))
	target.SetBatchRule(nil)
	target.UpdateBatch()
	assert.EqualValues(t, 2, target.Batches.Load())
}

func TestDeletionHasItsOwnRule(t *testing.T) {
	target := &subject.Target{}
	errRule := errors.New("no")
	target.SetDeleteRule(func(uint64) error { return errRule })
	assert.NoError(t, target.Update(1))
	assert.ErrorIs(t, target.Delete(1), errRule)
	target.SetDeleteRule(nil)
	assert.NoError(t, target.Delete(1))
	assert.EqualValues(t, 2, target.Deletes.Load())
}

func TestAwaitErrorNamesTheWait(t *testing.T) {
	sys := started(t, byName(t, subject.Floor), subject.Options{})
	require.NoError(t, sys.Insert(0, 1))
	require.NoError(t, sys.Await(within(t), 0, subject.Done))

	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	assert.NoError(t, sys.Await(ctx, 0, subject.Done), "there is nothing to wait for")
	err := sys.Await(ctx, 0, subject.Failed)
	assert.ErrorIs(t, err, reason)
	assert.ErrorContains(t, err, "row 0 is Done, waited for Error")
	assert.ErrorContains(t, sys.Await(ctx, 7, subject.Done), "row 7 is not in the table")
	waited, err := sys.AwaitAll(ctx, subject.Failed)
	assert.ErrorIs(t, err, reason)
	assert.EqualValues(t, 1, waited)
}

func byName(t *testing.T, name string) subject.Contender {
	for _, c := range subject.Contenders() {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "no such contender", name)
	return subject.Contender{}
}

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func awaitCall(ctx context.Context, t *testing.T, target *subject.Target) {
	select {
	case <-target.Updates.Reached(1):
	case <-ctx.Done():
		require.NoError(t, context.Cause(ctx))
	}
}
