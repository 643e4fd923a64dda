// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// A sweep lists a resource without a row, and then the program inserts a row with that key. A listing
// has only the name of the resource, and may be late.

// orphans adds a resource without a row to the cloud for each object, and waits for a sweep. Deleted
// resources stay.
func (e *env) orphans() {
	e.Helper()
	e.cloud.set(func(c *cloud) {
		c.sticky = true
		for _, name := range e.names {
			c.buckets["orphan-"+name] = &stored{name, 1}
		}
	})
	pass(12 * time.Second)
	for _, name := range e.names {
		require.Contains(e, e.cloud.take(name), "delete")
	}
	e.forget()
}

// hideOrphans hides those resources from later sweeps.
func (e *env) hideOrphans() {
	for _, name := range e.names {
		e.sweeper.marked.Store("orphan-"+name, true)
	}
}

// endOrphans ends the deletion of those resources.
func (e *env) endOrphans() {
	e.cloud.set(func(c *cloud) {
		c.sticky = false
		for _, name := range e.names {
			delete(c.buckets, "orphan-"+name)
		}
	})
}

func TestRowTakesNoNameFromASweep(t *testing.T) {
	for how, before := range map[string]func(e *env){
		"resource without a row": func(*env) {},
		"late listing of a resource that is gone": func(e *env) {
			e.settle(1, func(b *bucket) { managed.SetExternalName(b, "orphan-"+b.Name) })
			e.remove()
			pass(time.Second)
			e.gone()
			e.holds(-1)
		},
	} {
		t.Run(how, func(t *testing.T) {
			each(t, func(e *env) {
				before(e)
				e.orphans()
				e.want(1)
				pass(5 * time.Second)
				e.rows(func(b *bucket) {
					require.Empty(e, managed.GetExternalName(b))
					require.False(e, managed.IsReady(b))
					require.Equal(e, managed.ConditionReason("ReconcileWaiting"), b.GetCondition(managed.TypeSynced).Reason)
				})
				e.endOrphans()
				pass(time.Minute)
				e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
				e.rows(func(b *bucket) { requireZone(e, b) })
				e.holds(1)
			}, swept)
		})
	}
}

func TestRowThatReturnsDuringASweepLeaksNothing(t *testing.T) {
	for how, away := range map[string]func(e *env){
		"stays": func(*env) {},
		"paused for a while": func(e *env) {
			e.edit(func(b *bucket) { managed.SetPaused(b, true) })
			pass(5 * time.Second)
			e.edit(func(b *bucket) { managed.SetPaused(b, false) })
		},
		"deleted": (*env).remove, "removed directly": (*env).removeDirectly,
	} {
		t.Run(how, func(t *testing.T) {
			each(t, func(e *env) {
				e.cloud.fail("delete", errors.New("busy"))
				e.orphans()
				e.hideOrphans()
				e.want(2)
				pass(5 * time.Second)
				away(e)
				pass(5 * time.Second)
				e.cloud.set(func(c *cloud) { c.sticky = false })
				e.cloud.fail("delete", nil)
				pass(5 * time.Minute)
				if how == "deleted" || how == "removed directly" {
					e.gone()
					e.holds(-1)
					return
				}
				e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
				e.holds(2)
				e.rows(func(b *bucket) { requireZone(e, b) })
			}, swept)
		})
	}
}

// derivedName derives the external name from the name of the row.
var derivedName = managed.Initializer[*bucket](func(_ context.Context, b *bucket) error {
	managed.SetExternalName(b, "orphan-"+b.Name)
	return nil
})

func TestRowThatNamesASweptResourceKeepsIt(t *testing.T) {
	for name, names := range map[string]func(b *bucket){
		"applied": func(b *bucket) { managed.SetExternalName(b, "orphan-"+b.Name) },
		"derived": func(*bucket) {},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.cloud.fail("delete", errors.New("busy"))
				e.orphans()
				e.want(2, names)
				e.cloud.fail("delete", nil)
				pass(time.Minute)
				e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
				e.rows(func(b *bucket) { require.Equal(e, "orphan-"+b.Name, managed.GetExternalName(b)) })
				e.holds(2)
				for _, name := range e.names {
					calls := e.cloud.take(name)
					require.NotContains(e, calls, "delete")
					require.NotContains(e, calls, "create")
				}
			}, func(e *env) []managed.ReconcilerOption {
				if name == "applied" {
					return swept(e)
				}
				return append(swept(e), managed.WithInitializers[*bucket](derivedName))
			})
		})
	}
}
