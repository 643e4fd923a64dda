// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func noGrace(*env) []managed.ReconcilerOption {
	return []managed.ReconcilerOption{managed.WithCreationGracePeriod(0)}
}

func TestDeletedObjectStaysUntilItsResourceIsGone(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.set(func(c *cloud) { c.sticky = true })
		e.remove()
		e.called("connect", "observe", "delete")
		e.told("Normal DeletedExternalResource")
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Deleting"))
		e.rows(func(b *bucket) { require.EqualValues(e, 2, b.Generation) })

		pass(time.Second)
		e.called("connect", "observe", "delete")
		e.told()
		e.holds(1)

		e.cloud.set(func(c *cloud) { c.sticky = false })
		pass(2 * time.Second)
		e.called("connect", "observe", "delete")
		pass(4 * time.Second)
		e.called("connect", "observe")
		e.gone()
		e.holds(-1)
		pass(time.Hour)
		e.called()
	}, noGrace)
}

func TestDeletionObservesEvenIfNothingWasCreated(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.fail("connect", errors.New("down"))
		for _, name := range e.names {
			e.cloud.buckets[name] = &stored{name, 1}
		}
		e.want(1, func(b *bucket) { managed.SetExternalName(b, b.Name) })
		e.rows(func(b *bucket) { require.Empty(e, b.Finalizers) })
		e.remove()
		e.cloud.before("connect", nil)
		pass(time.Minute)
		e.gone()
		e.holds(-1)
	}, noGrace)
}

func TestNewResourceIsNotTakenForDeleted(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.set(func(c *cloud) { c.blind = true })
		e.want(1)
		e.remove()
		pass(5 * time.Second)
		e.rows(func(b *bucket) { require.NotEmpty(e, b.Finalizers) })
		e.cloud.set(func(c *cloud) { c.blind = false })
		pass(2 * time.Minute)
		e.gone()
		e.holds(-1)
	}, nil)
}

func TestOtherFinalizersAreWaitedForWithoutPolling(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.edit(func(b *bucket) { b.Finalizers = append(b.Finalizers, "example.org/backup") })
		e.forget()
		e.remove()
		pass(10 * time.Second)
		e.called()
		e.status(reconciler.StatusKindBlocked)
		e.is(managed.ConditionReason("ReconcileWaiting"), managed.ConditionReason("Deleting"))
		e.told("Normal WaitingForOtherFinalizers")
		pass(2 * time.Minute)
		e.told()
		e.holds(1)

		// The owner of the other finalizer does not change the status of this reconciler.
		e.write(func(_ managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
			b := e.get(name).Clone()
			b.Finalizers = []string{managed.FinalizerName}
			_, _, err := e.Table.Insert(wtxn, b)
			require.NoError(e, err)
		})
		e.called("connect", "observe", "delete")
		pass(time.Second)
		e.gone()
		e.holds(-1)
	}, noGrace)
}

func TestRemovedRowHasItsResourceDeleted(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.set(func(c *cloud) { c.sticky = true })
		e.removeDirectly()
		e.called("connect", "observe", "delete")
		pass(time.Second)
		e.called("connect", "observe", "delete")
		e.cloud.set(func(c *cloud) { c.sticky = false })
		pass(time.Minute)
		e.holds(-1)
		e.gone()
		e.forget()
		pass(time.Hour)
		e.called()
	}, noGrace)
}

func TestRemovedRowThatWaitsForAPersonWarnsOnce(t *testing.T) {
	for why, tt := range map[string]struct {
		before func(e *env)
		warns  string
	}{
		"paused": {func(e *env) {
			e.settle(1)
			e.edit(func(b *bucket) { managed.SetPaused(b, true) })
		}, "Warning DeletionRefused"},
		"create unsure": {func(e *env) {
			e.cloud.before("create", func(context.Context, *bucket) error { return managed.ErrCreateUnsure })
			e.want(1)
			pass(time.Minute)
			e.is(managed.ReasonCreateUnsure, "Creating")
		}, "Warning CannotTellIfCreated"},
	} {
		t.Run(why, func(t *testing.T) {
			each(t, func(e *env) {
				tt.before(e)
				for range 2 {
					e.forget()
					rows := map[string]*bucket{}
					e.rows(func(b *bucket) { rows[b.Name] = b })
					e.removeDirectly()
					pass(time.Hour)
					e.told(tt.warns)
					// The row comes back as it was, and is removed once more.
					e.write(func(_ managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
						_, _, err := e.Table.Insert(wtxn, rows[name].Clone().SetStatus(reconciler.StatusPending()))
						require.NoError(e, err)
					})
					pass(time.Minute)
				}
			}, nil)
		})
	}
}

func TestFinalizerThatCannotBeAddedStopsTheCreate(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.called("connect", "observe")
		e.told("Warning CannotChangeFinalizer")
		e.is(managed.ConditionReason("ReconcileError"), "")
		e.status(reconciler.StatusKindError)
		pass(time.Second)
		e.called("connect", "observe")
		e.holds(-1)
	}, func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithFinalizer(finalizerFns[*bucket]{
			add: func(context.Context, *bucket) error { return errors.New("no space") },
		})}
	})
}

func TestFinalizerThatCannotBeRemovedKeepsTheObject(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.remove()
		pass(time.Second)
		e.called("connect", "observe", "delete", "connect", "observe")
		e.told("Normal DeletedExternalResource", "Warning CannotChangeFinalizer")
		e.is(managed.ConditionReason("ReconcileError"), managed.ConditionReason("Deleting"))
		e.rows(func(b *bucket) { require.NotEmpty(e, b.Finalizers) })
	}, func(*env) []managed.ReconcilerOption {
		ready := managed.NewFinalizer[*bucket](managed.FinalizerName)
		return append(noGrace(nil), managed.WithFinalizer(finalizerFns[*bucket]{
			add:    ready.AddFinalizer,
			remove: func(context.Context, *bucket) error { return errors.New("no") },
		}))
	})
}

func TestFinalizerOfAnotherNameIsOurs(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.rows(func(b *bucket) { require.Equal(e, []string{"example.org/mine"}, b.Finalizers) })
		e.remove()
		pass(time.Second)
		e.gone()
		e.holds(-1)
		e.settle(1)
		e.removeDirectly()
		pass(time.Minute)
		e.holds(-1)
	}, func(*env) []managed.ReconcilerOption {
		return append(noGrace(nil), managed.WithFinalizer(managed.NewFinalizer[*bucket]("example.org/mine")))
	})
}

// replace replaces all rows by ones without notes.
func (e *env) replace(size int, also ...func(b *bucket)) {
	e.Helper()
	e.write(func(_ managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		b := named(name).SetStatus(reconciler.StatusPending())
		b.Size = size
		for _, f := range also {
			f(b)
		}
		_, _, err := e.Table.Insert(wtxn, b)
		require.NoError(e, err)
	})
}

func TestReplacedRowKeepsItsResource(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.replace(2)
		pass(time.Second)
		e.holds(2)
		e.rows(func(b *bucket) {
			require.NotEmpty(e, managed.GetExternalName(b))
			require.NotEmpty(e, b.Finalizers)
		})
		e.called("connect", "observe", "update")
	}, nil)
}

func TestReplacedAndRemovedRowLeaksNothing(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.fail("connect", errors.New("down"))
		e.replace(2)
		e.removeDirectly()
		e.cloud.before("connect", nil)
		pass(time.Minute)
		e.holds(-1)
	}, noGrace)
}

// A row that was inserted and removed before the loop saw it has no resource, unless its notes show
// that it may have one.
func TestUnseenRowMakesNoOutsideCall(t *testing.T) {
	each(t, func(e *env) {
		e.comeAndGo(func(*bucket) {})
		pass(time.Minute)
		for _, name := range e.names {
			require.Empty(e, e.cloud.calls[name])
		}
		e.comeAndGo(func(b *bucket) { b.Finalizers = []string{managed.FinalizerName} })
		pass(time.Minute)
		for _, name := range e.names {
			require.Contains(e, e.cloud.calls[name], "observe", "it may have a resource")
		}
	}, nil)
}
