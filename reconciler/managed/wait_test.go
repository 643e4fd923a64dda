// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestWaitReadyWaitsForTheConditionNotForDone(t *testing.T) {
	each(t, func(e *env) {
		ready := false
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			if !ready {
				b.SetConditions(managed.Unavailable().WithMessage("starting"))
			}
			return nil
		})
		e.want(1)
		pass(time.Second)
		e.status(reconciler.StatusKindDone)
		ctx, cancel := context.WithTimeout(e.Context(), time.Hour)
		defer cancel()
		name := e.names[0]
		var row *bucket
		var err error
		returned := false
		go func() {
			row, err = managed.WaitReady(ctx, e.DB, e.Table, named(name))
			returned = true
		}()
		pass(10 * time.Minute)
		require.False(e, returned)
		e.cloud.set(func(*cloud) { ready = true })
		pass(time.Minute)
		require.True(e, returned)
		require.NoError(e, err)
		require.Equal(e, name, row.Name)
		require.True(e, managed.IsReady(row))
	}, nil)
}

func TestWaitReadyWaitsForThePresentGeneration(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.Stop()
		e.want(2)
		ctx, cancel := context.WithTimeout(e.Context(), time.Hour)
		defer cancel()
		_, err := managed.WaitReady(ctx, e.DB, e.Table, named(e.names[0]))
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.ErrorContains(e, err, `"b00" is not ready: Ready is True (Available) of generation 1, the object has generation 2`)
	}, nil)
}

func TestWaitReadyFailsForAMissingOrDeletedRow(t *testing.T) {
	each(t, func(e *env) {
		ctx, name := e.Context(), e.names[0]
		_, err := managed.WaitReady(ctx, e.DB, e.Table, named(name))
		require.ErrorIs(e, err, managed.ErrRowGone)
		e.cloud.fail("connect", errRefused)
		e.want(1)
		go func() { _, err = managed.WaitReady(ctx, e.DB, e.Table, named(name)) }()
		synctest.Wait()
		e.remove()
		require.ErrorIs(e, err, managed.ErrTerminating)
		require.ErrorContains(e, err, name)

		short, cancel := context.WithCancelCause(ctx)
		cancel(errDown)
		e.removeDirectly()
		e.cloud.fail("connect", nil)
		pass(time.Minute)
		e.cloud.fail("connect", errRefused)
		e.want(1)
		_, err = managed.WaitReady(short, e.DB, e.Table, named(name))
		require.ErrorIs(e, err, errDown)
		require.ErrorContains(e, err, `"b00" is not ready: Synced is False (ReconcileError: connect: quota)`)
	}, nil)
}
