// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// ahead inserts rows with notes by a clock that was an hour ahead.
func ahead(e *env, notes func(b *bucket, at time.Time)) {
	e.hide(true)
	e.want(1, func(b *bucket) {
		managed.SetExternalName(b, b.Name)
		b.Finalizers = []string{managed.FinalizerName}
		notes(b, time.Now().Add(time.Hour))
	})
}

func created(b *bucket, at time.Time) {
	setCreate(b, "pending", at)
	setCreate(b, "succeeded", at.Add(time.Second))
}

// After the clock was set back, a note from the future is believed for one grace period.
func TestCreateNotedInTheFutureIsBelievedForTheGrace(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		each(t, func(e *env) {
			ahead(e, created)
			pass(20 * time.Second)
			e.holds(-1) // within the grace
			e.hide(false)
			pass(time.Minute)
			e.holds(1)
			e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
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
			ahead(e, func(b *bucket, at time.Time) { setCreate(b, "pending", at) })
			e.remove()
			pass(20 * time.Second)
			e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
			pass(2 * time.Minute)
			e.gone()
		}, deterministic)
	})
}

// The result of an earlier create does not count for a later one, even if both are in the future.
func TestCreatePendingInTheFutureStaysUnsure(t *testing.T) {
	for name, earlier := range map[string]func(b *bucket, at time.Time){
		"after a failure": func(b *bucket, at time.Time) { setCreate(b, "failed", at) },
		"after a success": func(b *bucket, at time.Time) { setCreate(b, "succeeded", at) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				ahead(e, func(b *bucket, at time.Time) {
					earlier(b, at)
					setCreate(b, "pending", at.Add(time.Second))
				})
				pass(5 * time.Minute)
				e.is(managed.ReasonCreateUnsure, managed.ConditionReason("Creating"))
				e.holds(-1)
			}, nil)
		})
	}
}
