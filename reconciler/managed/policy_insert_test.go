// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestOrphanSetByAPersonSurvivesAPlainInsert(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) { managed.SetDeletionPolicy(b, managed.DeletionOrphan) })
		e.insertLiteral(2)
		e.remove()
		pass(time.Minute)
		e.gone()
		e.holds(2)
	}, nil)
}

func TestPauseSetByAPersonSurvivesAPlainInsert(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) { managed.SetPaused(b, true) })
		e.insertLiteral(2)
		pass(time.Minute)
		e.holds(1)
		e.is(managed.ConditionReason("ReconcilePaused"), "")
		e.edit(func(b *bucket) { managed.SetPaused(b, false) })
		pass(time.Minute)
		e.holds(2)
	}, nil)
}

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
		e.want(1)
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

func TestPolicyFieldsOfAnotherProgramSurviveAPlainInsert(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) { b.DeletionPolicy = managed.DeletionOrphan })
		e.insertLiteral(2)
		pass(0)
		e.rows(func(b *bucket) { require.Equal(e, managed.DeletionOrphan, b.DeletionPolicy) })
		e.insertLiteral(3, func(b *bucket) { b.DeletionPolicy = managed.DeletionDelete })
		e.remove()
		pass(time.Minute)
		e.gone()
		e.holds(-1)
	}, nil)
}

func TestPlainInsertTakesBackItsOwnEarlierPolicies(t *testing.T) {
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

func TestPauseBeforeTheCreateSurvivesAPlainInsert(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.fail("connect", errRefused)
		e.want(1)
		e.edit(func(b *bucket) { managed.SetPaused(b, true) })
		pass(time.Minute)
		e.cloud.fail("connect", nil)
		e.insertLiteral(2)
		pass(time.Minute)
		e.holds(-1)
	}, nil)
}

// insertAndEdit replaces all rows, and lets a person change them before a pass sees them.
func (e *env) insertAndEdit(size int, change func(b *bucket)) {
	e.Helper()
	e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		b := named(name).SetStatus(reconciler.StatusPending())
		b.Size = size
		_, _, err := e.Table.Insert(wtxn, b)
		require.NoError(e, err)
		_, err = w.Edit(wtxn, b, change)
		require.NoError(e, err)
	})
}

func TestPauseBeforeTheFirstPassSurvivesAPlainInsert(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.insertAndEdit(2, func(b *bucket) { managed.SetPaused(b, true) })
		pass(time.Minute)
		e.holds(1)
		e.insertLiteral(2)
		pass(time.Minute)
		e.holds(1)
	}, noGrace)
}

func TestPoliciesSetByAPersonSurviveADeletionAndApply(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) { managed.SetPaused(b, true) })
		e.removeDirectly()
		pass(time.Second)
		e.want(2)
		pass(time.Minute)
		e.holds(1)
		e.edit(func(b *bucket) {
			managed.SetPaused(b, false)
			managed.SetDeletionPolicy(b, managed.DeletionOrphan)
		})
		pass(time.Minute)
		e.holds(2)
		e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
			_, _, err := e.Table.Delete(wtxn, named(name))
			require.NoError(e, err)
			b := named(name)
			b.Size = 2
			_, err = w.Apply(wtxn, b)
			require.NoError(e, err)
		})
		e.remove()
		pass(time.Minute)
		e.gone()
		e.holds(2)
	}, noGrace)
}

func TestApplyAfterADeletionTakesBackItsPolicies(t *testing.T) {
	each(t, func(e *env) {
		e.want(1, func(b *bucket) { b.DeletionPolicy = managed.DeletionOrphan })
		e.want(1, func(b *bucket) {
			managed.SetPaused(b, true)
			b.DeletionPolicy = managed.DeletionOrphan
		})
		pass(time.Second)
		e.removeDirectly()
		pass(time.Second)
		e.want(2)
		pass(time.Minute)
		e.holds(2)
		e.rows(func(b *bucket) { require.Empty(e, b.DeletionPolicy) })
	}, noGrace)
}
