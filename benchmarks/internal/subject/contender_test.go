// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
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
				assert.Equal(t, c.Name == subject.StatekeelObserved, sys.View() != nil)

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
				await(ctx, t, target.Deletes.Reached(2))
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
			await(ctx, t, sys.Targets()[0].Updates.Reached(1))
			await(ctx, t, sys.Targets()[2].Updates.Reached(1))
			assert.Equal(t, map[subject.Kind]uint64{subject.Waiting: 1}, sys.Count())
			close(hold)
			require.NoError(t, sys.Await(ctx, 0, subject.Done))
			for _, target := range sys.Targets() {
				assert.EqualValues(t, 1, target.Updates.Load())
			}
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

			rule, check := newTogether(ctx, workers)
			sys.Targets()[0].SetRule(rule)
			require.NoError(t, sys.Insert(0, 1000))
			_, err := sys.AwaitAll(ctx, subject.Done)
			require.NoError(t, err)
			check(t)
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

// await waits for something that happens.
func await[T any](ctx context.Context, t *testing.T, happens <-chan T) {
	t.Helper()
	select {
	case <-happens:
	case <-ctx.Done():
		require.NoError(t, context.Cause(ctx))
	}
}

// together is a rule whose operations wait until as many run as there are workers.
type together struct {
	workers         int64
	running, excess atomic.Int64
	once            sync.Once
	all             chan struct{}
}

func newTogether(ctx context.Context, workers int) (rule func(uint64) error, check func(*testing.T)) {
	g := &together{workers: int64(workers), all: make(chan struct{})}
	rule = func(uint64) error {
		defer g.running.Add(-1)
		if n := g.running.Add(1); n == g.workers {
			g.once.Do(func() { close(g.all) })
		} else if n > g.workers {
			g.excess.Add(1)
		}
		select {
		case <-g.all:
		case <-ctx.Done():
		}
		return nil
	}
	return rule, func(t *testing.T) {
		assert.True(t, closed(g.all), "fewer operations ran at a time")
		assert.Zero(t, g.excess.Load())
	}
}
