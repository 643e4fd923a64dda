// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
)

type pool struct {
	*execute.Pool[*row]
	now func() time.Duration
}

// inPool runs f with a pool in a synctest bubble. does has the behaviour of the operations, by key.
func inPool(t *testing.T, limits execute.Limits, does behaviour, f func(t *testing.T, ctx context.Context, p *pool)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, nil)
		cfg.Single = &target{does: does}
		cfg.Timeout = func() time.Duration { return limits.Timeout }
		p := &pool{execute.NewPool(cfg), cfg.Now}
		ctx, cancel := context.WithCancel(t.Context())
		p.Configure(ctx, limits)
		f(t, ctx, p)
		cancel()
		p.Stop()
	})
}

func start(ctx context.Context, p *pool, keys ...string) {
	for _, op := range operations(keys...) {
		p.Start(ctx, nil, []core.Operation[*row]{op})
	}
}

// jobOf returns the job for a key that is queued or runs; nil if there is none.
func jobOf(p *pool, key string) *execute.Job[*row] {
	for j := range p.Jobs {
		if j.Ops[0].Obj.key == key {
			return j
		}
	}
	return nil
}

// overdue returns the objects of the jobs that have become stuck since its last call.
func overdue(p *pool) (stuck []*row) {
	p.Overdue(p.now(), func(op *core.Operation[*row]) { stuck = append(stuck, op.Obj) })
	return stuck
}

func finished(p *pool) (keys []string) {
	for _, op := range p.Finished(nil) {
		keys = append(keys, op.Obj.key)
	}
	slices.Sort(keys)
	return keys
}

func sleep(d time.Duration) func(context.Context) error {
	return func(context.Context) error { time.Sleep(d); return nil }
}

func TestSlowJobDelaysNoOtherJob(t *testing.T) {
	inPool(t, execute.Limits{Workers: 2}, behaviour{"slow": sleep(time.Second)},
		func(t *testing.T, ctx context.Context, p *pool) {
			start(ctx, p, "slow", "a", "b", "c")
			synctest.Wait()
			<-p.SomeFinished
			require.Equal(t, []string{"a", "b", "c"}, finished(p))
			require.Equal(t, execute.Running, jobOf(p, "slow").Place)
			require.Equal(t, 1, p.Moving(p.now()))
			time.Sleep(50 * time.Millisecond)
			require.Zero(t, p.Moving(p.now()), "a slow job is not moving")
			require.True(t, p.IsBusy())
			time.Sleep(time.Second)
			require.Equal(t, []string{"slow"}, finished(p))
			require.False(t, p.IsBusy())
		})
}

func TestWorkersBoundTheRunningJobs(t *testing.T) {
	slow := sleep(time.Second)
	inPool(t, execute.Limits{Workers: 2}, behaviour{"a": slow, "b": slow, "c": slow},
		func(t *testing.T, ctx context.Context, p *pool) {
			require.Equal(t, 2, p.Room())
			start(ctx, p, "a", "b", "c")
			synctest.Wait()
			require.Equal(t, execute.Queued, jobOf(p, "c").Place)
			require.Zero(t, p.Room())
			back := p.Recall()
			require.Len(t, back, 1)
			require.Equal(t, "c", back[0].Obj.key)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, []string{"a", "b"}, finished(p))
		})
}

func TestStuckJobKeepsItsWorkerUntilItReturns(t *testing.T) {
	inPool(t, execute.Limits{Workers: 2, Timeout: time.Second}, behaviour{
		"a": sleep(time.Hour), "b": sleep(time.Millisecond), "c": sleep(time.Hour),
	},
		func(t *testing.T, ctx context.Context, p *pool) {
			start(ctx, p, "a", "b")
			synctest.Wait()
			at, ok := p.NextStuck(p.now())
			require.True(t, ok)
			require.Equal(t, 2*time.Second, at, "twice the timeout")
			require.Empty(t, overdue(p))
			time.Sleep(2 * time.Second)
			require.Len(t, overdue(p), 1)
			require.Empty(t, overdue(p), "each is reported once")
			_, ok = p.NextStuck(p.now())
			require.False(t, ok)
			require.Equal(t, execute.Stuck, jobOf(p, "a").Place)
			require.Zero(t, jobOf(p, "a").Began)
			require.Equal(t, []string{"b"}, finished(p))
			require.Equal(t, 3, p.Room(), "one worker is free, and gets 2 ms of work ahead")
			n, changes, all := p.NumStuck()
			require.Equal(t, 1, n)
			require.False(t, all)

			start(ctx, p, "c")
			time.Sleep(2 * time.Second)
			require.Len(t, overdue(p), 1)
			n, changed, all := p.NumStuck()
			require.Equal(t, 2, n)
			require.NotEqual(t, changes, changed)
			require.True(t, all)
			require.Zero(t, p.Room())
			var stuck []string
			for j := range p.Jobs {
				stuck = append(stuck, j.Ops[0].Obj.key)
			}
			require.Equal(t, []string{"a", "c"}, stuck, "the longest first")

			time.Sleep(time.Hour)
			synctest.Wait()
			require.Equal(t, []string{"a", "c"}, finished(p))
			n, _, all = p.NumStuck()
			require.Zero(t, n)
			require.False(t, all)
			require.Equal(t, 2, p.Room())
		})
}

func TestCallWithoutADeadlineIsStuckAfterAMinute(t *testing.T) {
	inPool(t, execute.Limits{Workers: 1}, behaviour{"a": sleep(time.Hour)},
		func(t *testing.T, ctx context.Context, p *pool) {
			start(ctx, p, "a")
			time.Sleep(time.Minute - time.Nanosecond)
			require.Empty(t, overdue(p))
			time.Sleep(time.Nanosecond)
			require.Len(t, overdue(p), 1)
		})
}

func TestRaisedLimitStartsWorkersForQueuedJobs(t *testing.T) {
	inPool(t, execute.Limits{Workers: 1}, behaviour{"a": sleep(time.Hour)},
		func(t *testing.T, ctx context.Context, p *pool) {
			start(ctx, p, "a", "b")
			synctest.Wait()
			require.Empty(t, finished(p))
			p.Configure(ctx, execute.Limits{Workers: 2})
			synctest.Wait()
			require.Equal(t, []string{"b"}, finished(p))
		})
}

func TestWorkerThatEndsIsReplaced(t *testing.T) {
	inPool(t, execute.Limits{Workers: 1}, behaviour{"a": func(context.Context) error {
		runtime.Goexit()
		return errors.New("never")
	}}, func(t *testing.T, ctx context.Context, p *pool) {
		start(ctx, p, "a", "b")
		synctest.Wait()
		all := p.Finished(nil)
		require.Len(t, all, 2)
		require.Equal(t, execute.ErrGoexit, all[0].Run.Err)
		require.NoError(t, all[1].Run.Err)
	})
}
