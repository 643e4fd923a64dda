// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// A resource that was left in place stays, even if sweeps run.

// lister lists the buckets of the cloud that are not marked.
type lister struct {
	cloud  *cloud
	marked sync.Map
}

func (l *lister) List(_ context.Context, _ statedb.ReadTxn, yield func(*bucket) bool) error {
	var rows []*bucket
	l.cloud.set(func(c *cloud) {
		for id, s := range c.buckets {
			if _, marked := l.marked.Load(id); !marked {
				b := named(s.owner)
				managed.SetExternalName(b, id)
				b.Finalizers = []string{managed.FinalizerName}
				rows = append(rows, b)
			}
		}
	})
	for _, b := range rows {
		if !yield(b) {
			break
		}
	}
	return nil
}

// swept makes the loop of a test sweep every ten seconds.
func swept(e *env) []managed.ReconcilerOption {
	e.sweeper = &lister{cloud: e.cloud}
	e.options = append(e.options, reconciler.WithPruning(10*time.Second))
	return noGrace(e)
}

// ways are the policies that leave a resource in place.
var ways = map[string]func(b *bucket){
	"orphan":  func(b *bucket) { managed.SetDeletionPolicy(b, managed.DeletionOrphan) },
	"observe": func(b *bucket) { managed.SetManagementPolicies(b, managed.ManagementActionObserve) },
	"update": func(b *bucket) {
		managed.SetManagementPolicies(b, managed.ManagementActionObserve, managed.ManagementActionUpdate)
	},
}

func TestResourceLeftInPlaceIsNotSwept(t *testing.T) {
	for way, leave := range ways {
		for how, away := range map[string]func(e *env){
			"deleted": (*env).remove, "removed directly": (*env).removeDirectly,
			"replaced and removed directly": func(e *env) {
				e.write(func(_ managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
					b := named(name).SetStatus(reconciler.StatusPending())
					leave(b)
					_, _, err := e.Table.Insert(wtxn, b)
					require.NoError(e, err)
					_, _, err = e.Table.Delete(wtxn, b)
					require.NoError(e, err)
				})
			},
		} {
			t.Run(way+"/"+how, func(t *testing.T) {
				each(t, func(e *env) {
					e.settle(1)
					e.edit(leave)
					e.forget()
					away(e)
					pass(time.Minute)
					e.gone()
					e.holds(1)
					e.forgetAfter(time.Minute)
					e.holds(1)
				}, swept)
			})
		}
	}
}

// forgetAfter drops the recorded calls, and requires that there are no new ones for a while.
func (e *env) forgetAfter(d time.Duration) {
	e.Helper()
	e.forget()
	pass(d)
	e.called()
	e.told()
}

func TestResourceLeftInPlaceIsNotInTheSweepBudget(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, ways["orphan"])
		e.remove()
		pass(time.Minute)
		e.cloud.set(func(c *cloud) { c.buckets["lost"] = &stored{"lost", 1} })
		pass(time.Minute)
		require.Empty(e, e.cloud.holds("lost"), "the budget is only for resources without a row")
		e.holds(1)
	}, func(e *env) []managed.ReconcilerOption {
		e.options = append(e.options, reconciler.WithSweepBudget(1, 0))
		return swept(e)
	})
}

func TestRowThatTakesOverAResourceDeletesIt(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, ways["orphan"])
		ids := map[string]string{}
		e.rows(func(b *bucket) { ids[b.Name] = managed.GetExternalName(b) })
		e.remove()
		pass(time.Minute)
		e.settle(1, func(b *bucket) { managed.SetExternalName(b, ids[b.Name]) })
		e.remove()
		pass(time.Minute)
		e.gone()
		e.holds(-1)
	}, swept)
}

func TestResourceLeftInPlaceSurvivesALaterRow(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, ways["orphan"])
		e.remove()
		pass(time.Minute)
		e.want(2)
		pass(time.Second)
		for _, name := range e.names {
			require.ElementsMatch(e, []int{1, 2}, e.cloud.holds(name))
		}
		e.remove()
		pass(time.Minute)
		e.gone()
		e.holds(1)
	}, swept)
}

func TestLeaveHookRunsBeforeTheRowIsRemoved(t *testing.T) {
	for how, away := range map[string]func(e *env){"deleted": (*env).remove, "removed directly": (*env).removeDirectly} {
		t.Run(how, func(t *testing.T) {
			var down sync.Map
			each(t, func(e *env) {
				e.settle(1, ways["orphan"])
				e.names = e.names[:1]
				down.Store("down", true)
				away(e)
				pass(10 * time.Second)
				if how == "deleted" {
					e.is(managed.ConditionReason("ReconcileError"), managed.ConditionReason("Deleting"))
				}
				require.Contains(e, e.events.take(e.names[0]), "Warning "+string(event.Reason("CannotLeaveExternalResource")))
				down.Clear()
				pass(time.Minute)
				e.gone()
				e.holds(1)

				// The next process knows only the mark.
				e.Stop()
				e.start(e.again...)
				pass(time.Minute)
				e.holds(1)
			}, func(e *env) []managed.ReconcilerOption {
				down.Clear()
				e.again = append(swept(e), managed.WithLeaveHook(func(_ context.Context, b *bucket) error {
					if _, is := down.Load("down"); is {
						return errors.New("503")
					}
					e.sweeper.marked.Store(managed.GetExternalName(b), true)
					return nil
				}))
				return e.again
			})
		})
	}
}

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

func TestLeaveHookChangesNothingForARowThatMayOnlyBeObserved(t *testing.T) {
	for name, away := range map[string]func(e *env){"deleted": (*env).remove, "removed directly": (*env).removeDirectly} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.settle(1)
				e.edit(func(b *bucket) { managed.SetManagementPolicies(b, "Observe", "LateInitialize") })
				away(e)
				pass(time.Minute)
				e.gone()
				e.holds(1)
			}, func(e *env) []managed.ReconcilerOption {
				return []managed.ReconcilerOption{managed.WithLeaveHook(func(context.Context, *bucket) error {
					e.Error("the hook ran")
					return nil
				})}
			})
		})
	}
}
