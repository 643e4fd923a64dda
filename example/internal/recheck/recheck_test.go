// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package recheck

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fake is a loop that remembers what it was asked for.
type fake struct {
	began time.Time
	fails error

	mu  sync.Mutex
	was asked
}

// asked is what a loop was asked for: rows, in a number of calls, and resyncs at times.
type asked struct {
	rows    []int
	calls   int
	resyncs []time.Duration
}

func (f *fake) Verify(_ context.Context, rows ...int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.was.rows = append(f.was.rows, rows...)
	f.was.calls++
	return f.fails
}

func (f *fake) Resync() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.was.resyncs = append(f.was.resyncs, time.Since(f.began))
}

// after returns what it was asked for by the end of a time. The rows are sorted.
func (f *fake) after(d time.Duration) asked {
	time.Sleep(d)
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return asked{slices.Sorted(slices.Values(f.was.rows)), f.was.calls, slices.Clone(f.was.resyncs)}
}

// play runs a queue in virtual time.
func play(t *testing.T, test func(*fake, *Queue[int])) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{began: time.Now()}
		q := New(f)
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go func() { _ = q.Run(ctx, nil) }()
		test(f, q)
	})
}

func TestBurstCostsOneLookAtEachRow(t *testing.T) {
	play(t, func(f *fake, q *Queue[int]) {
		for i := range 40 {
			q.Verify(i%3, 7)
			require.Zero(t, f.after(time.Millisecond).calls)
		}
		want := asked{rows: []int{0, 1, 2, 7}, calls: 1}
		require.Equal(t, want, f.after(20*time.Millisecond))
		require.Equal(t, want, f.after(time.Hour))
	})
}

func TestManyRowsAreOneResync(t *testing.T) {
	play(t, func(f *fake, q *Queue[int]) {
		for i := range many + 1 {
			q.Verify(i)
		}
		require.Equal(t, asked{resyncs: []time.Duration{settle}}, f.after(time.Second))
	})
}

// A link with many routes goes down and up again and again.
func TestManyRowsAreLookedAtWhenAResyncWouldHaveToWait(t *testing.T) {
	play(t, func(f *fake, q *Queue[int]) {
		for range 100 {
			for i := range many + 1 {
				q.Verify(i)
			}
			time.Sleep(time.Second)
		}
		was := f.after(0)
		require.Equal(t, 100, was.calls+len(was.resyncs))
		require.Less(t, len(was.resyncs), 12)
		require.Equal(t, was.calls*(many+1), len(was.rows))
	})
}

func TestResyncsAreFewWhileTheyAreAskedForAllTheTime(t *testing.T) {
	play(t, func(f *fake, q *Queue[int]) {
		for range 3600 {
			q.Resync()
			q.Verify(1)
			time.Sleep(time.Second)
		}
		was := f.after(0)
		require.InDelta(t, time.Hour/longest, len(was.resyncs), 12)
		require.Equal(t, 3600, was.calls, "looks at rows do not wait for resyncs")
	})
}

// Somebody deletes a table a few times.
func TestAResyncWaitsNoLongerThanTheTroubleLasted(t *testing.T) {
	for trouble := 100 * time.Millisecond; trouble < 20*time.Second; trouble *= 2 {
		for _, every := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
			play(t, func(f *fake, q *Queue[int]) {
				for range 3 {
					began := time.Since(f.began)
					for time.Since(f.began) < began+trouble {
						q.Resync()
						time.Sleep(every)
					}
					asked := time.Since(f.began) - every
					resyncs := f.after(2 * longest).resyncs
					require.Less(t, resyncs[len(resyncs)-1]-asked, shortest+settle+trouble+every)
					require.GreaterOrEqual(t, resyncs[len(resyncs)-1], asked)
					time.Sleep(longest) // the next trouble is as the first one
				}
			})
		}
	}
}

func TestRowsThatTheLoopDoesNotTakeAreLeftToAResync(t *testing.T) {
	play(t, func(f *fake, q *Queue[int]) {
		f.fails = errors.New("no")
		q.Verify(1)
		require.Equal(t, asked{[]int{1}, 1, []time.Duration{settle}}, f.after(time.Second))
	})
}
