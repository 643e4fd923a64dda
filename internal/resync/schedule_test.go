// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
)

// pruning is a world whose program prunes the target itself. prunes counts the calls.
func pruning(t *testing.T) (w *world, prunes *int) {
	prunes = new(int)
	w = play(t, func(cfg *Config[row]) {
		cfg.List = nil
		cfg.Prune = func(context.Context, statedb.ReadTxn) error {
			*prunes++
			return w.err
		}
	})
	w.set.Interval = time.Hour
	return w, prunes
}

func TestNothingIsPrunedBeforeTheTableIsInitialised(t *testing.T) {
	w, prunes := pruning(t)
	w.late()
	w.set.Interval = 0
	require.Nil(t, w.Initialized())
	w.Request(false)
	require.Nil(t, w.pass())
	_, ok := w.Next(0, false)
	require.False(t, ok)
	initialized := w.Initialized()
	w.initialise()
	<-initialized
	w.attempted = 0
	require.NotNil(t, w.pass(), "it was requested, and waits for no operation")
	require.Nil(t, w.Initialized())
	require.Nil(t, w.pass())
	require.Equal(t, 1, *prunes)
}

func TestFailedPruneIsRetriedWithBackoff(t *testing.T) {
	w, _ := pruning(t)
	w.err = errors.New("down")
	for i, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		out := w.pass()
		require.Equal(t, i+1, out.Failures)
		require.Equal(t, wait*time.Second, out.After)
		require.Equal(t, "down", out.Record.Error)
		require.Equal(t, "prune: down", w.State(w.now).Failure)
		at, ok := w.Next(w.now, false)
		require.True(t, ok)
		require.Equal(t, w.now+out.After, at)
		w.Reschedule(w.now)
		w.now = at - 1
		require.Nil(t, w.pass(), "the retry keeps its time when the interval changes")
		w.now = at
	}
	w.err = nil
	out := w.pass()
	require.Zero(t, out.Failures)
	require.Equal(t, time.Hour, out.After)
	require.Equal(t, State{At: w.now + time.Hour}, w.State(w.now))
	w.set.Interval = time.Second
	w.Reschedule(w.now)
	require.Equal(t, w.now+time.Second, w.State(w.now).At)
	w.set.Interval = 0
	w.Reschedule(w.now)
	_, ok := w.Next(w.now, false)
	require.False(t, ok)
	w.set.Interval = math.MaxInt64 - 1
	w.Reschedule(w.now)
	_, ok = w.Next(w.now, false)
	require.False(t, ok, "the time does not overflow")
}

func TestResyncWaitsForTheInitialRowsOfTheTable(t *testing.T) {
	w := play(t, nil)
	w.put(row{1, 1}, row{2, 1})
	gate := w.cfg.Rows.Revision()
	w.attempted = gate - 1
	require.Nil(t, w.pass())
	w.put(row{3, 1})
	require.Nil(t, w.pass())
	require.Nil(t, w.listing)
	w.attempted = gate
	require.Nil(t, w.pass())
	require.NotNil(t, w.listing, "later rows do not matter")
}

// Another listing would have them, too.
func TestObjectsThatAreLeftAloneAreNoReasonToListAgain(t *testing.T) {
	w := play(t, func(cfg *Config[row]) { cfg.Budget = Budget{Objects: 1} })
	w.listed = []row{{0, 1}, {7, 1}}
	w.begin()
	out := w.finish()
	require.ErrorIs(t, out.Err, ErrLeftAlone)
	require.Zero(t, out.Failures)
	_, planned := w.Next(w.now, false)
	require.False(t, planned)
	require.Equal(t, State{Failure: out.Err.Error(), At: -1}, w.State(w.now))
	w.listed = append(w.listed, row{8, 1})
	w.begin()
	out = w.finish()
	require.ErrorIs(t, out.Err, ErrAwaits)
	require.Equal(t, 1, out.Failures)
	require.Equal(t, time.Second, out.After, "a resync that awaits approval is tried again")
}

func TestApprovalNeedsARefusedResync(t *testing.T) {
	w := play(t, func(cfg *Config[row]) { cfg.Budget = Budget{Objects: 1} })
	w.listed = []row{{7, 1}, {8, 1}}
	w.Request(true)
	w.begin()
	require.ErrorIs(t, w.finish().Err, ErrAwaits, "none was refused before")
	require.True(t, w.Refused())
	w.err = errors.New("down")
	w.Request(true)
	w.begin()
	require.Error(t, w.fails())
	require.True(t, w.Refused())
	w.err = nil
	w.begin()
	require.NoError(t, w.finish().Err, "the approval waits for a listing that works")
	require.Equal(t, []uint64{7, 8}, w.orphans)
	require.False(t, w.Refused())
	w.begin()
	require.ErrorIs(t, w.finish().Err, ErrAwaits, "it was for one resync")
}

func TestPruneWaitsForOperations(t *testing.T) {
	w, prunes := pruning(t)
	w.busy = true
	require.Nil(t, w.pass())
	require.True(t, w.Holds(), "work is held back")
	w.Step(t.Context(), Pass{Now: w.now, Txn: w.cfg.Rows.DB.ReadTxn(), Paused: true})
	require.False(t, w.Holds())
	w.stuck = true
	require.Nil(t, w.pass())
	require.False(t, w.Holds())
	w.busy = false
	require.NotNil(t, w.pass())
	require.Equal(t, 1, *prunes)
}

// Work is held back for longer each time, and never for more than a tenth of the time.
func TestPruneHoldsWorkBackATenthOfTheTime(t *testing.T) {
	var d drain
	now := time.Hour
	for hold := minHold; hold < time.Minute; hold *= 2 {
		require.False(t, d.wait(now, false, false))
		require.True(t, d.holding)
		at := d.until
		require.Equal(t, now+hold, at)
		require.False(t, d.wait(at-1, false, false))
		require.True(t, d.holding)
		require.False(t, d.wait(at, false, false))
		require.False(t, d.holding)
		again := d.until
		require.Equal(t, at+9*hold, again)
		require.False(t, d.wait(again-1, false, false))
		require.False(t, d.holding)
		now = again
	}
	require.True(t, d.wait(now, true, false))
	require.Equal(t, drain{}, d)
}

func TestWorkIsNotHeldBackForAStuckOperation(t *testing.T) {
	var d drain
	d.wait(time.Hour, false, false)
	require.False(t, d.wait(time.Hour, false, true))
	require.False(t, d.holding)
	require.Equal(t, time.Hour+time.Minute, d.until)
	require.True(t, d.wait(time.Hour+1, true, false), "the stuck operation has returned")
	require.Zero(t, d)
}

func TestResyncThatAwaitsApprovalHasNotJudgedAll(t *testing.T) {
	require.True(t, IsJudged(nil))
	require.True(t, IsJudged(fmt.Errorf("1 of 2 %w", ErrLeftAlone)))
	require.False(t, IsJudged(fmt.Errorf("%w; %w", ErrAwaits, ErrLeftAlone)))
	require.False(t, IsJudged(errors.New("down")))
}
