// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

func TestRefreshIsCountedAndHasNoLatency(t *testing.T) {
	inBubble(t, func(e *env) {
		e.writeRows(1, 1)
		e.pass(time.Hour)
		before := e.loop.Figures()
		n, err := e.loop.Refresh(e.Context(), "1")
		require.NoError(e, err)
		require.Equal(e, 1, n)
		e.pass(time.Second)
		require.Equal(e, before.Updates.Done+1, e.loop.Figures().Updates.Done)
		require.Equal(e, before.Latency.Sum, e.loop.Figures().Latency.Sum, "a refresh is no change that waited")
		require.Equal(e, before.Refreshes+1, e.loop.Figures().Refreshes)
	}, beside)
}

func TestRepeatedRequeueHasNoLatency(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(call) error { return reconciler.Requeue(time.Hour) })
		e.writeRows(1, 1)
		e.pass(10 * time.Hour)
		require.Less(e, e.loop.Figures().Latency.Sum, 1.0)
	}, beside)
}

func workersAndRound(workers, round int) []reconciler.Option {
	return []reconciler.Option{
		reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(round, nil),
	}
}

func TestWaitForEndsWhenTheStatusIsDone(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			time.Sleep(4 * time.Millisecond)
			if c.id == 1001 {
				time.Sleep(time.Second)
			}
			return nil
		})
		e.writeRows(1, ids(1, 1000)...)
		time.Sleep(50 * time.Millisecond)
		e.writeRows(1, 1001, 1002)
		var waited time.Duration
		began := time.Now()
		go func() {
			_, err := e.loop.WaitFor(e.Context(), reconciler.Applied, &object{ID: 1002})
			require.NoError(e, err)
			waited = time.Since(began)
		}()
		for e.told(1002).Kind != reconciler.StatusKindDone {
			time.Sleep(time.Millisecond)
		}
		done := time.Since(began)
		require.Less(e, done, 200*time.Millisecond)
		e.pass(10 * time.Second)
		require.LessOrEqual(e, waited, done)
	}, beside, workersAndRound(2, 10)...)
}
