// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// ahead leaves rows of creates that were noted by a clock that was an hour ahead.
func ahead(e *env, notes func(b *bucket, at time.Time)) {
	e.hide(true)
	e.want(1, func(b *bucket) {
		managed.SetExternalName(b, b.Name)
		b.SetFinalizers([]string{managed.FinalizerName})
		notes(b, time.Now().Add(time.Hour))
	})
}

func created(b *bucket, at time.Time) {
	managed.SetCreatePending(b, at)
	managed.SetCreateSucceeded(b, at.Add(time.Second))
}

// After a step of the clock a note of the future is believed for the grace, and no longer.
func TestCreateNotedInTheFutureIsBelievedForTheGrace(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		each(t, func(e *env) {
			ahead(e, created)
			pass(20 * time.Second)
			e.holds(-1) // within the grace
			e.hide(false)
			pass(time.Minute)
			e.holds(1)
			e.is(managed.ReasonReconcileSuccess, managed.ReasonAvailable)
			e.rows(func(b *bucket) { require.False(e, managed.IsCreateIncomplete(b)) })
		}, nil)
	})
	t.Run("deleted", func(t *testing.T) {
		each(t, func(e *env) {
			ahead(e, created)
			e.remove()
			pass(20 * time.Second)
			e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
			pass(time.Minute)
			e.gone()
		}, nil)
	})
	t.Run("pending", func(t *testing.T) {
		each(t, func(e *env) {
			ahead(e, func(b *bucket, at time.Time) { managed.SetCreatePending(b, at) })
			e.remove()
			pass(20 * time.Second)
			e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
			pass(2 * time.Minute)
			e.gone()
		}, deterministic)
	})
}

// What came of an earlier create is not taken for what came of a later one, however the clock stood.
func TestCreatePendingInTheFutureStaysUnsure(t *testing.T) {
	for name, earlier := range map[string]func(b *bucket, at time.Time){
		"after a failure": func(b *bucket, at time.Time) { managed.SetCreateFailed(b, at) },
		"after a success": func(b *bucket, at time.Time) { managed.SetCreateSucceeded(b, at) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				ahead(e, func(b *bucket, at time.Time) {
					earlier(b, at)
					managed.SetCreatePending(b, at.Add(time.Second))
				})
				pass(5 * time.Minute)
				e.is(managed.ReasonCreateUnsure, managed.ReasonCreating)
				e.holds(-1)
			}, nil)
		})
	}
}
