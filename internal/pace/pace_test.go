// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pace_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/pace"
)

// loop is the caller of a Pace, in virtual time.
type loop struct {
	*testing.T
	pace.Pace
	limiter *rate.Limiter
	woken   chan struct{}
	polled  int
	started time.Time
}

func run(t *testing.T, test func(l *loop)) {
	synctest.Test(t, func(t *testing.T) {
		test(&loop{T: t, woken: make(chan struct{}, 1), started: time.Now()})
	})
}

func (l *loop) now() time.Duration { return time.Since(l.started) }

// admit returns how long the next pass was delayed.
func (l *loop) admit() time.Duration {
	from := l.now()
	require.True(l, l.Admit(l.Context(), func() *rate.Limiter { return l.limiter }, l.woken,
		func() bool { l.polled++; return false }, l.now))
	return l.now() - from
}

// round runs a round that takes no time.
func (l *loop) round(r pace.Round) {
	r.Began = l.now()
	l.Ran(r)
}

func TestRoundsAreKeptApartOnlyUnderLoad(t *testing.T) {
	for name, c := range map[string]struct {
		round pace.Round
		want  time.Duration
	}{
		"many items":        {pace.Round{Items: 8}, pace.Gather},
		"too few items":     {pace.Round{Items: 7}, 0},
		"many in flight":    {pace.Round{Items: 1, Moving: 8}, pace.Gather},
		"refreshes":         {pace.Round{Items: 100, Refreshes: 93}, 0},
		"more to do":        {pace.Round{Items: 100, More: true}, 0},
		"more, and workers": {pace.Round{Items: 100, More: true, Moving: 100}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(l *loop) {
				for range 3 {
					l.round(c.round)
					require.Zero(l, l.admit())
				}
				l.round(c.round)
				require.Equal(l, c.want, l.admit())
			})
		})
	}
}

func TestPauseEndsLoad(t *testing.T) {
	run(t, func(l *loop) {
		for range 9 {
			l.round(pace.Round{Items: 8})
		}
		l.Idle(0, pace.Gather-1)
		require.Equal(l, pace.Gather, l.admit())
		l.Idle(0, pace.Gather)
		require.Zero(l, l.admit())
	})
}

func TestLimiterAdmitsOneRoundPerToken(t *testing.T) {
	run(t, func(l *loop) {
		l.limiter = rate.NewLimiter(1, 1)
		require.Zero(l, l.admit())
		require.Zero(l, l.admit(), "a pass without a round keeps its token")
		l.round(pace.Round{Items: 1})
		require.Equal(l, time.Second, l.admit())
		require.Zero(l, l.polled)
	})
}

func TestWokenWaitReturnsItsToken(t *testing.T) {
	run(t, func(l *loop) {
		l.limiter = rate.NewLimiter(1, 1)
		l.admit()
		l.round(pace.Round{Items: 1})
		time.AfterFunc(300*time.Millisecond, func() { l.woken <- struct{}{} })
		require.Equal(l, time.Second, l.admit())
		require.Equal(l, 1, l.polled)
	})
}

func TestLimiterThatAllowsNothingIsAskedAgain(t *testing.T) {
	run(t, func(l *loop) {
		l.limiter = rate.NewLimiter(0, 0)
		time.AfterFunc(time.Second-1, func() { l.limiter.SetLimit(rate.Inf) })
		require.Equal(l, time.Second, l.admit())

		l.round(pace.Round{Items: 1})
		l.limiter = rate.NewLimiter(0, 0)
		ctx, cancel := context.WithTimeout(l.Context(), time.Minute)
		defer cancel()
		require.False(l, l.Admit(ctx, func() *rate.Limiter { return l.limiter }, l.woken, func() bool { return false }, l.now))
	})
}

func TestTurnLengthFollowsTheLastCommitWithinBounds(t *testing.T) {
	var p pace.Pace
	for committed, want := range map[time.Duration]time.Duration{
		0: pace.Turn, 12 * time.Millisecond: 12 * time.Millisecond, time.Hour: 20 * time.Millisecond,
	} {
		p.Committed(committed)
		require.Equal(t, want, p.TurnLength())
	}
}

func TestDueKeyWaitsBrieflyForOthers(t *testing.T) {
	var p pace.Pace
	require.Equal(t, time.Second, p.DueAt(time.Second, time.Minute))
	p.Ran(pace.Round{Began: time.Second, Items: 1})
	require.Equal(t, time.Second, p.DueAt(time.Second, time.Minute), "no item of the round had waited")
	p.Ran(pace.Round{Began: time.Second, Items: 1, Waited: 1})
	require.Equal(t, time.Second+5*time.Millisecond, p.DueAt(time.Second, time.Minute))
	require.Equal(t, time.Second+time.Millisecond, p.DueAt(time.Second, 20*time.Millisecond))
	require.Equal(t, time.Minute, p.DueAt(time.Minute, time.Minute))
}

func TestAlarmDeliversAtTheLastSetTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		now := func() time.Duration { return time.Since(started) }
		var a pace.Alarm
		a.Stop()
		// expect sets the alarm to a time and waits for it.
		expect := func(at time.Duration) {
			t.Helper()
			<-a.Set(at, now())
			a.Rang()
			require.Equal(t, at, now())
		}
		a.Set(2*time.Second, now())
		expect(time.Second)
		expect(3 * time.Second)
		<-a.Set(now(), now())
		a.Rang()
		require.Equal(t, 3*time.Second, now(), "at once")

		ch := a.Set(4*time.Second, now())
		a.Stop()
		time.Sleep(time.Minute)
		require.Empty(t, ch)
		expect(now() + time.Second)

		at := now() + time.Second
		ch = a.Set(at, now())
		time.Sleep(time.Minute)
		require.Equal(t, ch, a.Set(at, now()), "setting the same time again does not delay it")
		<-ch
		a.Rang()
		require.Zero(t, testing.AllocsPerRun(10, func() { a.Set(now()+time.Hour, now()) }))
		a.Stop()
	})
}
