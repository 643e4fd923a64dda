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
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// A deletion ends when the resource is gone, whatever happens before.

func TestDeletionIsNeverGivenUp(t *testing.T) {
	for name, err := range map[string]error{
		"failure": errors.New("busy"), "terminal": reconciler.TerminalError(errors.New("in use")),
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.settle(1)
				e.cloud.fail("delete", err)
				e.remove()
				pass(10 * time.Minute)
				e.rows(func(b *bucket) { require.NotContains(e, b.Status.GetError(), "given up") })
				e.cloud.before("delete", nil)
				pass(2 * time.Minute)
				e.gone()
				e.holds(-1)
			}, func(e *env) []managed.ReconcilerOption {
				e.options = append(e.options, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 3 }))
				return noGrace(e)
			})
		})
	}
}

func TestDeletionIsUnreconciledUntilItsResourceIsGone(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.set(func(c *cloud) { c.sticky = true })
		e.remove()
		upTo := e.revision()
		pass(time.Minute)
		e.status(reconciler.StatusKindBlocked)
		e.rows(func(b *bucket) { require.Equal(e, "still deleting", b.Status.GetError()) })
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		_, err := e.Loop.Wait(ctx, upTo, reconciler.Applied)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		e.cloud.set(func(c *cloud) { c.sticky = false })
		_, err = e.Loop.Wait(e.Context(), upTo, reconciler.Applied)
		require.NoError(e, err)
		e.gone()
	}, noGrace)
}

// dozenWithBreaker sets up a dozen objects. Five failing ones open the breaker.
func dozenWithBreaker(e *env) []managed.ReconcilerOption {
	e.names = nil
	for _, letter := range "abcdefghijkl" {
		e.names = append(e.names, string(letter))
	}
	e.options = append(e.options, reconciler.WithBreaker(reconciler.Breaker{Failures: 5}))
	return noGrace(e)
}

// What Observe sets while a resource is being deleted is written at once.
func TestConditionsSetDuringADeletionAreWritten(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.set(func(c *cloud) { c.sticky = true })
		e.remove()
		pass(10 * time.Second)
		at := e.revision()
		pass(2 * time.Minute)
		require.Equal(e, at, e.revision(), "polls that find no change write nothing")
		e.cloud.then("observe", func(_ context.Context, b *bucket) error {
			b.SetAnnotation("example.org/progress", "50 %")
			return nil
		})
		pass(2 * time.Minute)
		e.rows(func(b *bucket) { require.Equal(e, "50 %", b.Annotations["example.org/progress"]) })
	}, noGrace)
}

// Neither a slow deletion nor one that waits for a person means that the outside system is down.
func TestDeletionsThatWaitOpenNoBreaker(t *testing.T) {
	for name, away := range map[string]func(e *env){
		"slow": func(e *env) {
			e.settle(1)
			e.cloud.set(func(c *cloud) { c.sticky = true })
			e.remove()
		},
		"slow, removed directly": func(e *env) {
			e.settle(1)
			e.cloud.set(func(c *cloud) { c.sticky = true })
			e.removeDirectly()
		},
		"paused, removed directly": func(e *env) {
			e.settle(1)
			e.edit(func(b *bucket) { managed.SetPaused(b, true) })
			e.removeDirectly()
		},
		"unsure":                   func(e *env) { crash(e); e.remove() },
		"unsure, removed directly": func(e *env) { crash(e); e.removeDirectly() },
		"policies that cannot be read": func(e *env) {
			e.settle(1)
			e.edit(func(b *bucket) { managed.SetDeletionPolicy(b, "Maybe") })
			e.remove()
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				away(e)
				pass(2 * time.Minute)
				require.Empty(e, e.Loop.Snapshot(e.Context()).Breaker)
				e.names = []string{"fresh"}
				e.want(1)
				e.holds(1)
			}, dozenWithBreaker)
		})
	}
}

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

func TestRowNamingItsResourceInAPlainInsertLeaksNothing(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		ids := map[string]string{}
		e.rows(func(b *bucket) { ids[b.Name] = managed.GetExternalName(b) })
		e.comeAndGo(func(b *bucket) { managed.SetExternalName(b, ids[b.Name]) })
		pass(time.Minute)
		e.gone()
		e.holds(-1)
	}, noGrace)
}

func TestRowRemovedWithoutItsFinalizerLeaksNothing(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
			_, err := w.Edit(wtxn, named(name), func(b *bucket) { b.Finalizers = nil })
			require.NoError(e, err)
			_, _, err = e.Table.Delete(wtxn, named(name))
			require.NoError(e, err)
		})
		pass(time.Minute)
		e.holds(-1)
	}, noGrace)
}

func TestRowNamingAnotherResourceInAPlainInsertLeaksNothing(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.others()
		e.comeAndGo(func(b *bucket) { managed.SetExternalName(b, "other-"+b.Name) })
		pass(time.Minute)
		e.gone()
		e.holds(-1)
		for _, name := range e.names {
			require.Equal(e, []int{1}, e.cloud.holds("other-"+name), "it never belonged to the row")
			require.Contains(e, e.events.take(name), "Warning "+string(event.Reason("CannotTellIfManaged")))
		}
	}, noGrace)
}

// others adds a resource with another name for each object to the cloud.
func (e *env) others() {
	e.cloud.set(func(c *cloud) {
		for _, name := range e.names {
			c.buckets["other-"+name] = &stored{"other-" + name, 1}
		}
	})
}

// insertOther applies rows that name those resources.
func (e *env) insertOther() {
	e.Helper()
	e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
		_, err := w.Apply(wtxn, named(name), func(b *bucket) {
			b.Size = 1
			managed.SetExternalName(b, "other-"+name)
		})
		require.NoError(e, err)
	})
}

// manages requires the rows to manage those resources, and nothing else.
func (e *env) manages() {
	e.Helper()
	e.holds(-1)
	e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
	for _, name := range e.names {
		require.Equal(e, []int{1}, e.cloud.holds("other-"+name))
	}
	e.remove()
	pass(time.Minute)
	e.gone()
	for _, name := range e.names {
		require.Empty(e, e.cloud.holds("other-"+name))
	}
}

func TestRemovedRowBackUnderAnotherNameLeaksNothing(t *testing.T) {
	for name, trouble := range map[string]func(e *env) (over func()){
		"failing": func(e *env) func() {
			e.cloud.fail("delete", errors.New("busy"))
			return func() { e.cloud.before("delete", nil) }
		},
		"still deleting": func(e *env) func() {
			e.cloud.set(func(c *cloud) { c.sticky = true })
			return func() { e.cloud.set(func(c *cloud) { c.sticky = false }) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.settle(1)
				e.others()
				over := trouble(e)
				e.removeDirectly()
				e.insertOther()
				pass(time.Minute)
				e.holds(1)
				e.rows(func(b *bucket) { require.NotEqual(e, reconciler.StatusKindDone, b.Status.Kind) })
				over()
				pass(2 * time.Minute)
				e.manages()
			}, noGrace)
		})
	}
}

// The rows are Done when the second loop starts, so that it has no pass for them.
func TestRemovedRowThatReturnsAfterARestartKeepsItsResource(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		ids := map[string]string{}
		e.rows(func(b *bucket) { ids[b.Name] = managed.GetExternalName(b) })
		e.Stop()
		e.start(noGrace(e)...)
		e.cloud.fail("delete", errors.New("busy"))
		e.removeDirectly()
		pass(3 * time.Second)
		e.want(1)
		e.cloud.fail("delete", nil)
		e.forget()
		pass(5 * time.Minute)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.rows(func(b *bucket) {
			require.Equal(e, ids[b.Name], managed.GetExternalName(b))
			requireZone(e, b)
		})
		e.holds(1)
		for _, name := range e.names {
			require.NotContains(e, e.cloud.take(name), "delete")
		}
	}, noGrace)
}

// If the loop has seen neither version, it cannot tell whether the row was changed, or removed and
// inserted.
func TestRowNamingAnotherResourceReportsTheOldOne(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.others()
		e.write(func(w managed.Writer[*bucket], wtxn statedb.WriteTxn, name string) {
			_, _, err := e.Table.Delete(wtxn, named(name))
			require.NoError(e, err)
			b := named(name).SetStatus(reconciler.StatusPending())
			b.Size = 1
			managed.SetExternalName(b, "other-"+name)
			_, _, err = e.Table.Insert(wtxn, b)
			require.NoError(e, err)
		})
		pass(2 * time.Minute)
		e.told("Warning " + string(event.Reason("ExternalNameChanged")))
		e.holds(1)
	}, nil)
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
