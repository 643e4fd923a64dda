// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// A resource that was left in place stays, even if the target is listed.

func orphaned(b *bucket) { managed.SetDeletionPolicy(b, managed.DeletionOrphan) }

// aways are the ways in which a row goes.
var aways = map[string]func(e *env){"deleted": (*env).remove, "removed directly": (*env).removeDirectly}

func TestResourceLeftInPlaceIsNoOrphan(t *testing.T) {
	for way, leave := range map[string]func(b *bucket){
		"orphan":  orphaned,
		"observe": func(b *bucket) { managed.SetManagementPolicies(b, managed.ManagementActionObserve) },
		"update": func(b *bucket) {
			managed.SetManagementPolicies(b, managed.ManagementActionObserve, managed.ManagementActionUpdate)
		},
	} {
		test := func(e *env, away func(e *env)) {
			e.settle(1)
			e.edit(leave)
			away(e)
			pass(time.Minute)
			e.gone(1)
			e.forget()
			pass(time.Minute)
			e.called()
			e.told()
			e.holds(1)
		}
		t.Run(way, func(t *testing.T) {
			table(t, aways, test, relisted)
			each(t, func(e *env) {
				test(e, func(e *env) { e.comeAndGo(leave) })
			}, relisted)
		})
	}
}

func TestResourceLeftInPlaceIsNotInTheBudget(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, orphaned)
		e.remove()
		pass(time.Minute)
		e.cloud.set(func() { e.cloud.buckets["lost"] = stored{owner: "lost", size: 1} })
		pass(time.Minute)
		require.Empty(e, e.cloud.holds("lost"), "the budget is only for resources without a row")
		e.holds(1)
	}, reconciler.WithOrphanBudget(1, 0), relisted)
}

func TestResourceLeftInPlaceIsManagedWhenARowNamesIt(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, orphaned)
		ids := map[string]string{}
		e.rows(func(b *bucket) { ids[b.Name] = managed.GetExternalName(b) })
		e.remove()
		pass(time.Minute)
		// A later row of that key does not name it.
		e.want(2)
		pass(time.Second)
		for _, name := range e.names {
			require.ElementsMatch(e, []int{1, 2}, e.cloud.holds(name))
		}
		e.removed(1)
		e.settle(1, func(b *bucket) { managed.SetExternalName(b, ids[b.Name]) })
		e.removed(-1)
	}, relisted)
}

func leaveHook(e *env) any { return managed.WithLeaveHook(e.cloud.leave) }

func TestLeaveHookChangesNothingForARowThatMayOnlyBeObserved(t *testing.T) {
	table(t, aways, func(e *env, away func(e *env)) {
		e.settle(1)
		e.edit(func(b *bucket) { managed.SetManagementPolicies(b, "Observe", "LateInitialize") })
		e.forget()
		away(e)
		pass(time.Minute)
		e.gone(1)
		e.notCalled("leave")
	}, leaveHook)
}

// A late list shows the resource without its mark. The row outlives that time, so that a process which is started again knows
// better.
func TestResourceLeftInPlaceStaysIfTheProcessStartsAgainBeforeListsShowIt(t *testing.T) {
	const grace, late = 20 * time.Second, 18 * time.Second
	opts := []any{relisted, leaveHook, deterministic, managed.WithCreationGracePeriod(grace)}
	for _, after := range []time.Duration{time.Second, 15 * time.Second, grace + time.Second} {
		each(t, func(e *env) {
			e.cloud.set(func() { e.cloud.lag = func() time.Duration { return late } })
			e.want(1, orphaned)
			pass(time.Minute)
			e.remove()
			pass(after)
			require.Equal(e, after > grace, len(e.all()) == 0, "after %s", after)
			e.Stop()
			e.insert(e.all()...)
			e.start(opts...)
			pass(3 * grace)
			require.Empty(e, e.all())
			e.holds(1)
		}, opts...)
	}
}

// A resync lists a resource without a row, and then the program inserts a row with that key. A listing
// has only the name of the resource, and may be late.

func orphanNamed(b *bucket) { managed.SetExternalName(b, "orphan-"+b.Name) }

// orphans adds a resource without a row to the cloud for each object, and waits for a resync. Deleted
// resources stay.
func (e *env) orphans() {
	e.Helper()
	e.sticky(true)
	e.there("orphan-", 1)
	pass(12 * time.Second)
	e.calledAlso("delete")
	e.forget()
}

func TestRowTakesNoNameFromAResync(t *testing.T) {
	table(t, map[string]func(e *env){
		"resource without a row": func(*env) {},
		"late listing of a resource that is gone": func(e *env) {
			e.settle(1, orphanNamed)
			e.removed(-1)
		},
	}, func(e *env, before func(e *env)) {
		before(e)
		e.orphans()
		e.want(1)
		pass(5 * time.Second)
		e.is("ReconcileWaiting", "")
		e.rows(func(b *bucket) { require.Empty(e, managed.GetExternalName(b)) })
		e.sticky(false)
		e.cloud.set(func() { clear(e.cloud.buckets) })
		pass(time.Minute)
		e.is("ReconcileSuccess", "Available")
		e.rows(func(b *bucket) { requireZone(e, b) })
		e.holds(1)
	}, relisted)
}

func TestRowThatNamesAnOrphanKeepsIt(t *testing.T) {
	test := func(names func(b *bucket)) func(e *env) {
		return func(e *env) {
			e.cloud.fail("delete", errRefused)
			e.orphans()
			e.want(2, names)
			e.cloud.fail("delete", nil)
			pass(time.Minute)
			e.is("ReconcileSuccess", "Available")
			e.rows(func(b *bucket) { require.Equal(e, "orphan-"+b.Name, managed.GetExternalName(b)) })
			e.holds(2)
			for _, name := range e.names {
				calls := e.cloud.take(name)
				require.NotContains(e, calls, "delete")
				require.NotContains(e, calls, "create")
			}
		}
	}
	each(t, test(orphanNamed), relisted)
	each(t, test(func(*bucket) {}), relisted, managed.WithInitializers(managed.Initializer[*bucket](
		func(_ context.Context, b *bucket) error {
			orphanNamed(b)
			return nil
		})))
}
