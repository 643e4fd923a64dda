// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// A deletion ends when the resource is gone, whatever happens before.

func TestDeletionIsNeverGivenUp(t *testing.T) {
	table(t, map[string]error{"failure": errRefused, "terminal": reconciler.TerminalError(errRefused)}, func(e *env, err error) {
		e.settle(1)
		e.cloud.fail("delete", err)
		e.remove()
		pass(10 * time.Minute)
		e.rows(func(b *bucket) { require.NotContains(e, b.Status.GetError(), "given up") })
		e.cloud.fail("delete", nil)
		pass(2 * time.Minute)
		e.gone(-1)
	}, noGrace, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 3 }))
}

func TestDeletedObjectStaysUntilItsResourceIsGone(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.sticky(true)
		e.remove()
		upTo := e.revision()
		e.called("connect", "observe", "delete")
		e.told("Normal DeletedExternalResource")
		e.is("ReconcileSuccess", "Deleting")
		e.status(reconciler.StatusKindBlocked)
		e.rows(func(b *bucket) {
			require.EqualValues(e, 2, b.Generation)
			require.Equal(e, "still deleting", b.Status.GetError())
		})
		pass(time.Second)
		e.called("connect", "observe", "delete")
		at := e.revision()
		ctx, cancel := context.WithTimeout(e.Context(), 2*time.Minute)
		defer cancel()
		_, err := e.Loop.Wait(ctx, upTo, reconciler.Applied)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.Equal(e, at, e.revision(), "polls that find no change write nothing")
		e.told()

		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			b.SetAnnotation("example.org/progress", "50 %")
			return nil
		})
		pass(2 * time.Minute)
		e.rows(func(b *bucket) { require.Equal(e, "50 %", b.Annotations["example.org/progress"]) })
		e.forget()
		e.sticky(false)
		e.WaitApplied(2 * time.Minute)
		e.gone(-1)
		pass(time.Hour)
		e.called("connect", "observe", "delete", "connect", "observe")
	}, noGrace)
}

// Neither a slow deletion nor one that waits for a person means that the outside system is down.
func TestDeletionsThatWaitOpenNoBreaker(t *testing.T) {
	table(t, map[string]func(e *env){
		"slow": func(e *env) {
			e.settle(1)
			e.sticky(true)
			e.remove()
		},
		"slow, removed directly": func(e *env) {
			e.settle(1)
			e.sticky(true)
			e.removeDirectly()
		},
		"paused, removed directly": func(e *env) {
			e.settle(1)
			e.edit(func(b *bucket) { managed.SetPaused(b, true) })
			e.removeDirectly()
		},
		"unsure": func(e *env) {
			crash(e)
			e.remove()
		},
		"unsure, removed directly": func(e *env) {
			crash(e)
			e.removeDirectly()
		},
		"policies that cannot be read": func(e *env) {
			e.settle(1)
			e.edit(func(b *bucket) { managed.SetDeletionPolicy(b, "Maybe") })
			e.remove()
		},
	}, func(e *env, away func(e *env)) {
		e.names = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
		away(e)
		pass(2 * time.Minute)
		require.Empty(e, e.Loop.Snapshot(e.Context()).Breaker)
		e.names = []string{"fresh"}
		e.want(1)
		e.holds(1)
	}, noGrace, reconciler.WithSettings(func(s *reconciler.Settings) { s.BreakerFailures = 5 }))
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
		e.is("ReconcileWaiting", "Deleting")
		e.told("Normal WaitingForOtherFinalizers")
		pass(2 * time.Minute)
		e.told()
		e.holds(1)

		// The owner of the other finalizer does not change the status of this reconciler.
		for _, name := range e.names {
			b := e.get(name).Clone()
			b.Finalizers = []string{managed.FinalizerName}
			e.Insert(b)
		}
		pass(time.Second)
		e.calledAlso("delete")
		pass(time.Second)
		e.gone(-1)
	}, noGrace)
}

// full is a finalizer that cannot be added.
type full struct{ managed.Finalizer[*bucket] }

func (full) AddFinalizer(context.Context, *bucket) error { return errRefused }

func TestFinalizerThatCannotBeAddedStopsTheCreate(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.called("connect", "observe")
		e.told("Warning CannotChangeFinalizer")
		e.is("ReconcileError", "")
		e.status(reconciler.StatusKindError)
		pass(time.Second)
		e.called("connect", "observe")
		e.holds(-1)
	}, managed.WithFinalizer[*bucket](full{}))
}

func TestFinalizerOfAnotherNameIsOurs(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.rows(func(b *bucket) { require.Equal(e, []string{"example.org/mine"}, b.Finalizers) })
		e.removed(-1)
		e.settle(1)
		e.removeDirectly()
		pass(time.Minute)
		e.holds(-1)
	}, noGrace, managed.WithFinalizer(managed.NewFinalizer[*bucket]("example.org/mine")))
}

// What the process remembers decides what happens to a resource, not the last version of its row.

// comeAndGo inserts rows and removes them before the loop sees them.
func (e *env) comeAndGo(prepare func(b *bucket)) {
	e.Helper()
	e.write(func(_ managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		b := named(name).SetStatus(reconciler.StatusPending())
		prepare(b)
		_, _, err := e.Table.Insert(wtxn, b)
		require.NoError(e, err)
		_, _, err = e.Table.Delete(wtxn, b)
		require.NoError(e, err)
	})
}

// replace replaces all rows by ones without notes.
func (e *env) replace(size int, also ...func(b *bucket)) {
	for _, name := range e.names {
		b := named(name)
		b.Size = size
		for _, f := range also {
			f(b)
		}
		e.insert(b)
	}
	pass(0)
}

func TestRemovedRowThatWaitsForAPersonWarnsOnce(t *testing.T) {
	type waits struct {
		before func(e *env)
		warns  string
	}
	table(t, map[string]waits{
		"paused": {func(e *env) {
			e.settle(1)
			e.edit(func(b *bucket) { managed.SetPaused(b, true) })
		}, "Warning DeletionRefused"},
		"create unsure": {func(e *env) {
			e.cloud.fail("create", managed.ErrCreateUnsure)
			e.want(1)
			pass(time.Minute)
			e.is(managed.ReasonCreateUnsure, "Creating")
		}, "Warning CannotTellIfCreated"},
	}, func(e *env, tt waits) {
		tt.before(e)
		for range 2 {
			e.forget()
			rows := e.all()
			e.removeDirectly()
			pass(time.Hour)
			e.told(tt.warns)
			// The row comes back as it was, and is removed once more.
			e.insert(rows...)
			pass(time.Minute)
		}
	})
}

// A row that was inserted and removed before the loop saw it has no resource, unless its notes show
// that it may have one.
func TestUnseenRowMakesNoOutsideCall(t *testing.T) {
	each(t, func(e *env) {
		e.comeAndGo(func(*bucket) {})
		pass(time.Minute)
		e.called()
		e.comeAndGo(func(b *bucket) { b.Finalizers = []string{managed.FinalizerName} })
		pass(time.Minute)
		e.calledAlso("observe")
	})
}

// others adds a resource to the cloud for each object that belongs to another one.
func (e *env) others() {
	e.cloud.set(func() {
		for _, name := range e.names {
			e.cloud.buckets["other-"+name] = stored{owner: "other-" + name, size: 1}
		}
	})
}

// otherNamed names that resource.
func otherNamed(b *bucket) { managed.SetExternalName(b, "other-"+b.Name) }

// The rows are Done when the second loop starts, so that it has no pass for them.
func TestRemovedRowThatReturnsAfterARestartKeepsItsResource(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		before := e.all()
		e.Stop()
		e.start(noGrace)
		e.cloud.fail("delete", errRefused)
		e.removeDirectly()
		pass(3 * time.Second)
		e.want(1)
		e.cloud.fail("delete", nil)
		e.forget()
		pass(5 * time.Minute)
		e.is("ReconcileSuccess", "Available")
		for _, b := range before {
			require.Equal(e, managed.GetExternalName(b), managed.GetExternalName(e.get(b.Name)))
			requireZone(e, e.get(b.Name))
			require.NotContains(e, e.cloud.take(b.Name), "delete")
		}
		e.holds(1)
	}, noGrace)
}

func TestFinalizerAddedInTheLastMomentKeepsTheRow(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			if len(e.cloud.holds(b.Name)) == 0 {
				e.editOne(b.Name, func(b *bucket) { b.Finalizers = []string{managed.FinalizerName, "mine"} })
			}
			return nil
		})
		e.remove()
		pass(time.Minute)
		e.rows(func(b *bucket) { require.Contains(e, b.Finalizers, "mine") })
	}, noGrace)
}

func TestRemovedRowBackUnderAnotherNameLeaksNothing(t *testing.T) {
	table(t, map[string]func(e *env, is bool){
		"failing": func(e *env, is bool) {
			e.cloud.before("delete", func(context.Context, *bucket) error {
				if is {
					return errRefused
				}
				return nil
			})
		},
		"still deleting": (*env).sticky,
	}, func(e *env, trouble func(e *env, is bool)) {
		e.settle(1)
		e.others()
		trouble(e, true)
		e.removeDirectly()
		e.want(1, otherNamed)
		pass(time.Minute)
		e.holds(1)
		e.rows(func(b *bucket) { require.NotEqual(e, reconciler.StatusKindDone, b.Status.Kind) })
		trouble(e, false)
		pass(2 * time.Minute)
		e.holds(-1)
		e.is("ReconcileSuccess", "Available")
		for _, name := range e.names {
			require.Equal(e, []int{1}, e.cloud.holds("other-"+name))
		}
		e.remove()
		pass(time.Minute)
		e.gone(-1)
		for _, name := range e.names {
			require.Empty(e, e.cloud.holds("other-"+name))
		}
	}, noGrace)
}
