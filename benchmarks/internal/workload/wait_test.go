// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// never is a system whose rows are never done.
type never struct{ subject.System }

func (never) Insert(uint64, uint64) error { return nil }

func (never) Await(ctx context.Context, _ uint64, _ subject.Kind) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestWaitForANewRowEndsAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		took, done, err := insertAndAwait(t.Context(), never{}, 0, time.Minute)
		require.NoError(t, err)
		assert.False(t, done)
		assert.Equal(t, time.Minute, took)
		assert.Equal(t, time.Minute, time.Since(begin))
	})
}

func TestEndOfTheRunIsNotTheLimit(t *testing.T) {
	stuck := errors.New("stuck")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stuck)
	_, _, err := insertAndAwait(ctx, never{}, 0, time.Hour)
	assert.ErrorIs(t, err, stuck)
	assert.ErrorIs(t, pauseForAttempt(ctx, &subject.Target{}, time.Hour), stuck)
}

func TestPauseForAttemptEndsAfterItOrAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := &subject.Target{}
		require.NoError(t, target.Update(0))
		begin := time.Now()
		require.NoError(t, pauseForAttempt(t.Context(), target, time.Minute), "what was before is not waited for")
		assert.Equal(t, time.Minute, time.Since(begin))

		begin = time.Now()
		time.AfterFunc(time.Second, func() { _ = target.Update(0) })
		require.NoError(t, pauseForAttempt(t.Context(), target, time.Minute))
		assert.Equal(t, time.Second+afterProbe, time.Since(begin))
	})
}
