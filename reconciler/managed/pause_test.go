// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestPausedObjectIsLeftAlone(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) { managed.SetPaused(b, true) })
		e.called()
		e.told("Normal ReconciliationPaused")
		e.is(managed.ConditionReason("ReconcilePaused"), managed.ConditionReason("Available"))
		at := e.revision()
		pass(time.Hour)
		e.called()
		require.Equal(e, at, e.revision())

		// The desired state may change meanwhile. The pause is reported only once.
		e.want(2)
		e.called()
		e.told()
		e.rows(func(b *bucket) { require.True(e, managed.IsPaused(b), "Apply keeps the annotation") })

		e.edit(func(b *bucket) { managed.SetPaused(b, false) })
		e.called("connect", "observe", "update")
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.holds(2)
	}, nil)
}

func TestDeletionOfAPausedObjectIsRefusedVisibly(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, func(b *bucket) { managed.SetDeletionPolicy(b, managed.DeletionDelete) })
		e.edit(func(b *bucket) { managed.SetPaused(b, true) })
		e.forget()
		e.remove()
		e.called()
		e.told("Warning DeletionRefused")
		e.rows(func(b *bucket) {
			synced := b.GetCondition(managed.TypeSynced)
			require.Equal(e, managed.ConditionReason("ReconcilePaused"), synced.Reason)
			require.Contains(e, synced.Message, "deletion is refused")
		})
		e.edit(func(b *bucket) { managed.SetPaused(b, false) })
		pass(time.Second)
		e.gone()
		e.holds(-1)
	}, noGrace)
}

func TestEmptyPoliciesPauseTheObject(t *testing.T) {
	each(t, func(e *env) {
		e.want(1, func(b *bucket) { managed.SetManagementPolicies(b) })
		e.called()
		e.is(managed.ConditionReason("ReconcilePaused"), "")
		e.edit(func(b *bucket) { b.RemoveAnnotation(managed.AnnotationPrefix + "management-policies") })
		pass(time.Second)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
	}, nil)
}
