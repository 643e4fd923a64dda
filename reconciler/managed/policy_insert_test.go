// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestPoliciesAreFieldsOfTheRow(t *testing.T) {
	each(t, func(e *env) {
		observe := func(b *bucket) {
			b.ManagementPolicies = managed.ManagementPolicies{managed.ManagementActionObserve}
			b.DeletionPolicy = managed.DeletionOrphan
		}
		e.want(1, observe)
		pass(time.Second)
		e.holds(-1)
		e.is(managed.ConditionReason("ReconcileError"), managed.ConditionReason("Unavailable"))
		e.edit(func(b *bucket) { managed.SetManagementPolicies(b, managed.ManagementActionAll) })
		pass(time.Minute)
		e.holds(1)
		e.want(1, func(b *bucket) { b.ManagementPolicies, b.DeletionPolicy = nil, "" })
		e.rows(func(b *bucket) {
			if b.ManagementPolicies != nil || b.DeletionPolicy != "" {
				e.Errorf("policies were not taken back: %+v", b.Meta)
			}
		})
		e.remove()
		pass(time.Minute)
		e.gone()
		e.holds(-1)
	}, nil)
}

func TestInvalidPolicyFieldStopsTheObject(t *testing.T) {
	each(t, func(e *env) {
		e.want(1, func(b *bucket) { b.DeletionPolicy = "Maybe" })
		e.called()
		e.rows(func(b *bucket) {
			require.Equal(e, `policies: field DeletionPolicy is "Maybe", must be "Delete" or "Orphan"`, b.Status.GetError())
		})
	}, nil)
}

func TestAPlainInsertReplacesThePolicies(t *testing.T) {
	each(t, func(e *env) {
		e.insertLiteral(1, func(b *bucket) {
			managed.SetPaused(b, true)
			b.DeletionPolicy = managed.DeletionOrphan
		})
		pass(time.Minute)
		e.holds(-1)
		e.insertLiteral(1)
		pass(time.Minute)
		e.holds(1)
		e.rows(func(b *bucket) { require.Empty(e, b.DeletionPolicy) })
	}, nil)
}

func TestPoliciesOfAPersonSurviveAnApply(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) {
			managed.SetPaused(b, true)
			managed.SetDeletionPolicy(b, managed.DeletionOrphan)
		})
		e.want(2)
		pass(time.Minute)
		e.holds(1)
		e.is(managed.ConditionReason("ReconcilePaused"), managed.ConditionReason("Available"))
		e.edit(func(b *bucket) { managed.SetPaused(b, false) })
		pass(time.Minute)
		e.remove()
		pass(time.Minute)
		e.gone()
		e.holds(2)
	}, nil)
}
