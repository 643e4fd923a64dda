// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package recheck

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fake is a loop that remembers what it was asked for.
type fake struct {
	verified []int
	calls    int
	resyncs  []time.Duration
	began    time.Time
	fails    error
}

func (f *fake) Verify(_ context.Context, rows ...int) error {
	f.verified = append(f.verified, rows...)
	f.calls++
	return f.fails
}

func (f *fake) Resync() { f.resyncs = append(f.resyncs, time.Since(f.began)) }

// play runs a queue in virtual time.
func play(t *testing.T, test func(*fake, *Queue[int])) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{began: time.Now()}
		q := New(f)
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go q.Run(ctx)
		test(f, q)
	})
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestBurstCostsOneLookAtEachRow(t *testing.T) {
	play(t, func(f *fake, q *Queue[int]) {
		for i := range 40 {
			q.Verify(i%3, 7)
			pass(time.Millisecond)
		}
		require.Empty(t, f.verified)
		pass(20 * time.Millisecond)
		slices.Sort(f.verified)
		require.Equal(t, []int{0, 1, 2, 7}, f.verified)
		require.Equal(t, 1, f.calls)
		pass(time.Hour)
		require.Equal(t, 1, f.calls)
		require.Empty(t, f.resyncs)
	})
}

func TestManyRowsAreOneResync(t *testing.T) {
	play(t, func(f *fake, q *Queue[int]) {
		for i := range many + 1 {
			q.Verify(i)
		}
		pass(time.Second)
		require.Empty(t, f.verified)
		require.Equal(t, []time.Duration{settle}, f.resyncs)
	})
}

func TestResyncsAreAtOnceUntilTheyAreAskedForAllTheTime(t *testing.T) {
	play(t, func(f *fake, q *Queue[int]) {
		for range 3600 {
			q.Resync()
			q.Verify(1)
			pass(time.Second)
		}
		for i := range first {
			require.Equal(t, settle+time.Duration(i)*time.Second, f.resyncs[i])
		}
		require.InDelta(t, time.Hour/pause, len(f.resyncs), 2*first)
		require.Equal(t, 3600, f.calls, "looks at rows do not wait for resyncs")
	})
}

func TestRowsThatTheLoopDoesNotTakeAreLeftToAResync(t *testing.T) {
	play(t, func(f *fake, q *Queue[int]) {
		f.fails = errors.New("no")
		q.Verify(1)
		pass(time.Second)
		require.Equal(t, []time.Duration{settle}, f.resyncs)
	})
}
