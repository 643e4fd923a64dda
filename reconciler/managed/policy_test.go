// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestEachPolicySetAllowsExactlyItsActions(t *testing.T) {
	for _, test := range []struct {
		actions                        managed.ManagementPolicies
		creates, updates, removes, ini bool
	}{
		{actions: managed.ManagementPolicies{"Observe"}},
		{actions: managed.ManagementPolicies{"Observe", "Create"}, creates: true},
		{actions: managed.ManagementPolicies{"Observe", "Update"}, updates: true},
		{actions: managed.ManagementPolicies{"Observe", "Delete"}, removes: true},
		{actions: managed.ManagementPolicies{"Observe", "LateInitialize"}, ini: true},
		{actions: managed.ManagementPolicies{"Observe", "Create", "Update", "LateInitialize"}, creates: true, updates: true, ini: true},
		{actions: managed.ManagementPolicies{"*"}, creates: true, updates: true, removes: true, ini: true},
	} {
		t.Run(test.actions.String(), func(t *testing.T) {
			require.NoError(t, test.actions.Validate())
			each(t, func(e *env) {
				with := func(b *bucket) { managed.SetManagementPolicies(b, test.actions...) }
				e.want(1, with)
				pass(time.Minute)
				if !test.creates {
					e.is("ReconcileError", "Unavailable")
					for _, name := range e.names {
						require.Contains(e, e.events.take(name), "Warning CannotObserveExternalResource")
					}
					e.holds(-1)
					e.there("there-", 1)
					e.edit(func(b *bucket) { managed.SetExternalName(b, "there-"+b.Name) })
					pass(2 * time.Minute)
				}
				e.is("ReconcileSuccess", "Available")
				e.holds(1)

				e.cloud.set(func() { e.cloud.lateRegion = true })
				e.want(2, with)
				pass(time.Minute)
				e.is("ReconcileSuccess", "Available")
				size, region := 1, ""
				if test.updates {
					size = 2
				}
				if test.ini || len(test.actions) == 1 {
					region = "north" // a row that is only observed is written whole
				}
				e.holds(size)
				e.rows(func(b *bucket) {
					require.Equal(e, region, b.Region)
					require.Equal(e, b.Generation, b.GetCondition(managed.TypeSynced).ObservedGeneration)
				})
				at := e.revision()
				pass(10 * time.Minute)
				require.Equal(e, at, e.revision(), "polls write nothing")

				if test.removes {
					size = -1
				}
				e.removed(size)
			})
		})
	}
}

func TestInvalidPoliciesStopTheObject(t *testing.T) {
	for want, set := range map[string]func(b *bucket){
		`policies: management action "Fly" is none of`: func(b *bucket) { managed.SetManagementPolicies(b, "Observe", "Fly") },
		`policies: management policies "Create" lack "Observe"`: func(b *bucket) {
			managed.SetManagementPolicies(b, "Create")
		},
		`policies: annotation "statekeel.io/deletion-policy" is "Maybe", must be "Delete" or "Orphan"`: func(b *bucket) {
			managed.SetDeletionPolicy(b, "Maybe")
		},
		`policies: field DeletionPolicy is "Maybe", must be "Delete" or "Orphan"`: func(b *bucket) { b.DeletionPolicy = "Maybe" },
	} {
		each(t, func(e *env) {
			e.want(1, set)
			e.called()
			e.told("Warning CannotUseInvalidManagementPolicy")
			e.rows(func(b *bucket) { require.Contains(e, b.Status.GetError(), want) })
			pass(time.Hour)
			e.told()
			e.status(reconciler.StatusKindError)
		})
	}
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
		e.is("ReconcileError", "Unavailable")
		e.edit(func(b *bucket) { managed.SetManagementPolicies(b, managed.ManagementActionAll) })
		pass(time.Minute)
		e.holds(1)
		e.want(1, func(b *bucket) { b.ManagementPolicies, b.DeletionPolicy = nil, "" })
		e.rows(func(b *bucket) {
			require.Nil(e, b.ManagementPolicies)
			require.Empty(e, b.DeletionPolicy)
		})
		e.removed(-1)
	})
}

func TestAPlainInsertReplacesThePolicies(t *testing.T) {
	each(t, func(e *env) {
		e.replace(1, func(b *bucket) {
			managed.SetPaused(b, true)
			b.DeletionPolicy = managed.DeletionOrphan
		})
		pass(time.Minute)
		e.holds(-1)
		e.replace(1)
		pass(time.Minute)
		e.holds(1)
		e.rows(func(b *bucket) { require.Empty(e, b.DeletionPolicy) })
	})
}

func TestPausedObjectIsLeftAlone(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) {
			managed.SetPaused(b, true)
			managed.SetDeletionPolicy(b, managed.DeletionOrphan)
		})
		e.called()
		e.told("Normal ReconciliationPaused")
		e.is("ReconcilePaused", "Available")
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
		e.is("ReconcileSuccess", "Available")
		e.holds(2)
		e.removed(2)
	})
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
			require.EqualValues(e, "ReconcilePaused", synced.Reason)
			require.Contains(e, synced.Message, "deletion is refused")
		})
		e.edit(func(b *bucket) { managed.SetPaused(b, false) })
		pass(time.Second)
		e.gone(-1)
	}, noGrace)
}

func TestEmptyPoliciesPauseTheObject(t *testing.T) {
	each(t, func(e *env) {
		e.want(1, func(b *bucket) { managed.SetManagementPolicies(b) })
		e.called()
		e.is("ReconcilePaused", "")
		e.edit(func(b *bucket) { b.RemoveAnnotation(managed.AnnotationPrefix + "management-policies") })
		pass(time.Second)
		e.is("ReconcileSuccess", "Available")
	})
}
