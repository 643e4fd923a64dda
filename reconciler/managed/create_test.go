// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func deterministic(*env) []managed.ReconcilerOption {
	return []managed.ReconcilerOption{
		managed.WithDeterministicExternalName(),
		managed.WithInitializers(managed.NewNameAsExternalName[*bucket]()),
	}
}

func TestPendingCreateIsInTheTableBeforeTheCall(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.before("create", func(_ context.Context, b *bucket) error {
			row := e.get(b.Name)
			require.True(e, managed.IsCreateIncomplete(row))
			require.Equal(e, []string{managed.FinalizerName}, row.Finalizers)
			return nil
		})
		e.cloud.then("create", func(context.Context, *bucket) error { return nil })
		e.want(1)
		e.holds(1)
	}, nil)
}

func TestNothingIsCreatedTwiceWithinTheGrace(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.set(func(c *cloud) { c.blind = true })
		e.want(1)
		e.forget()
		pass(time.Second)
		e.called("connect", "observe")
		e.told("Normal PendingExternalResource")
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Creating"))
		pass(20 * time.Second)
		e.holds(1)
		e.cloud.set(func(c *cloud) { c.blind = false })
		pass(20 * time.Second)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.holds(1)
	}, nil)
}

func TestMissingResourceIsCreatedAgainAfterTheGrace(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.set(func(c *cloud) { clear(c.buckets) })
		pass(time.Minute)
		e.called("connect", "observe", "create")
		pass(time.Second)
		e.holds(1)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
	}, nil)
}

func TestFailedCreateIsRetriedWithBackoff(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.fail("create", errors.New("quota"))
		e.want(1)
		e.called("connect", "observe", "create")
		e.told("Warning CannotCreateExternalResource")
		e.is(managed.ConditionReason("ReconcileError"), managed.ConditionReason("Creating"))
		e.status(reconciler.StatusKindError)
		e.rows(func(b *bucket) {
			require.Equal(e, "create: quota", b.Status.GetError())
			require.Equal(e, "create: quota", b.GetCondition(managed.TypeSynced).Message)
			require.False(e, managed.IsCreateIncomplete(b))
			require.False(e, createdAt(b, "failed").IsZero())
		})
		pass(time.Second)
		e.called("connect", "observe", "create")
		pass(time.Second)
		e.called()
		e.cloud.before("create", nil)
		pass(3 * time.Second)
		e.holds(1)
	}, nil)
}

// crash inserts rows as a process leaves them that ended during a create.
func crash(e *env) {
	e.want(1, func(b *bucket) {
		setCreate(b, "pending", time.Now())
		b.Finalizers = []string{managed.FinalizerName}
	})
}

func TestUnsureCreateStopsForAPerson(t *testing.T) {
	each(t, func(e *env) {
		crash(e)
		e.called()
		e.told("Warning CannotTellIfCreated")
		e.is(managed.ReasonCreateUnsure, managed.ConditionReason("Creating"))
		e.status(reconciler.StatusKindError)
		pass(time.Hour)
		e.called()
		e.told()

		// Neither another run, nor a change, nor a deletion resolves it.
		e.Stop()
		e.start()
		pass(time.Hour)
		e.called()
		e.is(managed.ReasonCreateUnsure, managed.ConditionReason("Creating"))
		e.status(reconciler.StatusKindError)
		e.forget()
		e.want(2)
		e.remove()
		e.called()
		e.is(managed.ReasonCreateUnsure, managed.ConditionReason("Creating"))
	}, nil)
}

func TestPersonDecidesThatNothingWasCreated(t *testing.T) {
	each(t, func(e *env) {
		crash(e)
		pass(time.Minute)
		e.edit(func(b *bucket) { managed.DecideCreate(b, "") })
		pass(time.Second)
		e.holds(1)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
	}, nil)
}

func TestPersonDecidesWhatWasCreated(t *testing.T) {
	each(t, func(e *env) {
		for _, name := range e.names {
			e.cloud.buckets["found-"+name] = &stored{name, 1}
		}
		crash(e)
		pass(time.Minute)
		e.edit(func(b *bucket) { managed.DecideCreate(b, "found-"+b.Name) })
		e.holds(1)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.called("connect", "observe")
	}, nil)
}

func TestCreateWithoutAnswerStopsUnlessNamesAreKnown(t *testing.T) {
	reset := func(e *env) {
		e.cloud.then("create", func(context.Context, *bucket) error {
			return fmt.Errorf("connection reset: %w", managed.ErrCreateUnsure)
		})
		e.want(1)
		e.cloud.then("create", nil)
	}
	t.Run("unknown", func(t *testing.T) {
		each(t, func(e *env) {
			reset(e)
			e.told("Warning CannotTellIfCreated")
			e.is(managed.ReasonCreateUnsure, managed.ConditionReason("Creating"))
			e.rows(func(b *bucket) {
				require.Equal(e, "create: connection reset: the external resource may or may not have been created: "+
					"find out, and note what you find on the row (by the program's command that calls managed.DecideCreate)", b.Status.GetError())
			})
			pass(time.Hour)
			e.holds(1)
			e.called("connect", "observe", "create")
		}, nil)
	})
	t.Run("known", func(t *testing.T) {
		each(t, func(e *env) {
			reset(e)
			e.told("Warning CannotCreateExternalResource")
			pass(time.Second)
			e.holds(1)
			e.called("connect", "observe", "create", "connect", "observe")
			e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		}, deterministic)
	})
}

func TestCreateThatTimesOutIsUnsure(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.then("create", func(ctx context.Context, _ *bucket) error {
			<-ctx.Done()
			return ctx.Err()
		})
		e.want(1)
		pass(2 * time.Minute)
		e.is(managed.ReasonCreateUnsure, managed.ConditionReason("Creating"))
		e.holds(1)
		pass(time.Hour)
		e.holds(1)
		e.rows(func(b *bucket) { require.NotEmpty(e, managed.GetExternalName(b), "the name that Create set is kept") })
	}, nil)
}

func TestCreateThatPanicsIsUnsure(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.then("create", func(context.Context, *bucket) error { panic("nil map") })
		e.want(1)
		pass(time.Hour)
		e.is(managed.ReasonCreateUnsure, managed.ConditionReason("Creating"))
		e.holds(1)
	}, nil)
}

func TestCriticalAnnotationsThatFailToBeWrittenAreRemembered(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.called("connect", "observe", "create")
		e.told("Warning CannotUpdateManagedResource")
		e.is(managed.ConditionReason("ReconcileError"), managed.ConditionReason("Creating"))
		pass(time.Second)
		e.called("connect", "observe")
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.holds(1)
	}, func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithCriticalAnnotationUpdater(
			managed.CriticalAnnotationUpdateFn[*bucket](func(context.Context, *bucket) error { return errors.New("disk full") }))}
	})
}

// If the outside system chooses names, a resource whose name is not written now is leaked.
func TestCriticalAnnotationsAreWrittenWhileTheProgramStops(t *testing.T) {
	var written sync.Map
	each(t, func(e *env) {
		written.Clear()
		creating := make(chan struct{}, len(e.names))
		e.cloud.then("create", func(ctx context.Context, _ *bucket) error {
			creating <- struct{}{}
			<-ctx.Done()
			return nil
		})
		e.want(1)
		<-creating
		e.Stop()
		found := 0
		e.cloud.set(func(c *cloud) {
			for id, s := range c.buckets {
				is, _ := written.Load(s.owner)
				require.Equal(e, id, is, "of %q", s.owner)
				found++
			}
		})
		require.Equal(e, e.workers, found)
	}, func(*env) []managed.ReconcilerOption {
		return []managed.ReconcilerOption{managed.WithCriticalAnnotationUpdater(managed.CriticalAnnotationUpdater[*bucket](
			managed.CriticalAnnotationUpdateFn[*bucket](func(ctx context.Context, b *bucket) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(9 * time.Second):
					written.Store(b.Name, managed.GetExternalName(b))
					return nil
				}
			})))}
	})
}

func TestCriticalAnnotationsAreTriedFiveTimes(t *testing.T) {
	each(t, func(e *env) {
		table := &failing{RWTable: e.Table}
		b := named("x")
		wtxn := e.DB.WriteTxn(e.Table)
		_, _, err := e.Table.Insert(wtxn, b)
		require.NoError(e, err)
		wtxn.Commit()

		u := managed.NewRetryingCriticalAnnotationUpdater(e.DB, table, (*bucket).Clone)
		noted := b.Clone()
		managed.SetExternalName(noted, "id-1")
		table.left = 4
		began := time.Now()
		require.NoError(e, u.UpdateCriticalAnnotations(e.Context(), noted))
		require.Equal(e, 150*time.Millisecond, time.Since(began))
		require.Equal(e, "id-1", managed.GetExternalName(e.get("x")))

		table.left = 5
		require.ErrorContains(e, u.UpdateCriticalAnnotations(e.Context(), noted), `annotations of "x": no insert`)
		require.ErrorIs(e, u.UpdateCriticalAnnotations(e.Context(), named("y")), managed.ErrRowGone)
	}, nil)
}

// failing is a table whose next inserts fail.
type failing struct {
	statedb.RWTable[*bucket]
	left int
}

func (f *failing) Insert(wtxn statedb.WriteTxn, b *bucket) (*bucket, bool, error) {
	if f.left > 0 {
		f.left--
		return nil, false, errors.New("no insert")
	}
	return f.RWTable.Insert(wtxn, b)
}

const (
	zone = "example.com/zone"
	hint = "example.com/hint"
)

// createsInZone lets Create set a zone and remove a hint, and then calls then.
func (e *env) createsInZone(then func(name string)) {
	e.cloud.then("create", func(_ context.Context, b *bucket) error {
		b.SetAnnotation(zone, "north-1")
		b.RemoveAnnotation(hint)
		then(b.Name)
		return nil
	})
}

// hasZone requires every row to have the annotations that Create has set.
func (e *env) hasZone(when string) {
	e.Helper()
	e.rows(func(b *bucket) {
		require.Equal(e, "north-1", b.Annotations[zone], "%s: %v", when, b.Annotations)
		require.NotEmpty(e, managed.GetExternalName(b), when)
		require.Contains(e, b.Annotations[managed.AnnotationPrefix+"external-create-changes"], zone, when)
	})
}

func hinted(b *bucket) { b.SetAnnotation(hint, "north") }

func TestAnnotationsSetInCreateSurviveAConcurrentChange(t *testing.T) {
	each(t, func(e *env) {
		e.createsInZone(func(name string) {
			wtxn := e.DB.WriteTxn(e.Table)
			defer wtxn.Commit()
			_, err := e.writer().Edit(wtxn, named(name), func(b *bucket) { b.Size = 2 })
			require.NoError(e, err)
		})
		e.want(1, hinted)
		pass(time.Second)
		e.hasZone("after the create")
		e.rows(func(b *bucket) { require.NotContains(e, b.Annotations, hint) })
		e.holds(2)
	}, nil)
}

func TestAnnotationsSetInCreateSurviveApply(t *testing.T) {
	each(t, func(e *env) {
		e.createsInZone(func(string) {})
		e.settle(1, hinted)
		e.want(1, hinted)
		e.hasZone("applied again")
		e.want(2)
		pass(time.Second)
		e.hasZone("applied without the hint")
		e.want(2, func(b *bucket) { b.SetAnnotation(zone, "south-1") })
		e.rows(func(b *bucket) { require.Equal(e, "south-1", b.Annotations[zone], "the program's latest value") })
	}, nil)
}

func TestAnnotationsSetInCreateSurviveAPlainInsert(t *testing.T) {
	each(t, func(e *env) {
		e.createsInZone(func(string) {})
		e.settle(1)
		e.replace(2)
		pass(time.Second)
		e.hasZone("after the insert")
		e.holds(2)
		e.edit(func(b *bucket) { b.RemoveAnnotation(zone) })
		pass(time.Minute)
		e.rows(func(b *bucket) { require.NotContains(e, b.Annotations, zone, "a person removed it") })
	}, nil)
}

func TestMergeLeavesConditionsOfOthersAlone(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, func(b *bucket) { b.SetConditions(managed.Condition{Type: "Backup", Status: managed.ConditionFalse}) })
		e.cloud.then("update", func(_ context.Context, b *bucket) error {
			wtxn := e.DB.WriteTxn(e.Table)
			defer wtxn.Commit()
			next := e.get(b.Name).Clone()
			next.SetConditions(managed.Condition{Type: "Backup", Status: managed.ConditionTrue})
			_, _, err := e.Table.Insert(wtxn, next)
			return err
		})
		e.want(2)
		pass(time.Second)
		e.rows(func(b *bucket) {
			require.Equal(e, managed.ConditionTrue, b.GetCondition("Backup").Status, "%+v", b.Conditions)
			require.True(e, managed.IsSynced(b))
		})
	}, nil)
}

// ahead inserts rows with notes by a clock that was an hour ahead.
func ahead(e *env, notes func(b *bucket, at time.Time)) {
	e.hide(true)
	e.want(1, func(b *bucket) {
		managed.SetExternalName(b, b.Name)
		b.Finalizers = []string{managed.FinalizerName}
		notes(b, time.Now().Add(time.Hour))
	})
}

func created(b *bucket, at time.Time) {
	setCreate(b, "pending", at)
	setCreate(b, "succeeded", at.Add(time.Second))
}

// After the clock was set back, a note from the future is believed for one grace period.
func TestCreateNotedInTheFutureIsBelievedForTheGrace(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		each(t, func(e *env) {
			ahead(e, created)
			pass(20 * time.Second)
			e.holds(-1) // within the grace
			e.hide(false)
			pass(time.Minute)
			e.holds(1)
			e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
			e.rows(func(b *bucket) { require.False(e, managed.IsCreateIncomplete(b)) })
		}, nil)
	})
	t.Run("pending", func(t *testing.T) {
		each(t, func(e *env) {
			ahead(e, func(b *bucket, at time.Time) { setCreate(b, "pending", at) })
			e.remove()
			pass(20 * time.Second)
			e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
			pass(2 * time.Minute)
			e.gone()
		}, deterministic)
	})
}

// A create is unsure until its result is noted, also if the clock has not moved since the last result.
func TestCreateAtTheTimeOfTheLastFailureIsUnsure(t *testing.T) {
	each(t, func(e *env) {
		e.noAnswer()
		e.want(1, func(b *bucket) { setCreate(b, "failed", time.Now().Add(time.Hour)) }) // which becomes now
		pass(time.Minute)
		e.edit(func(b *bucket) { managed.RequestReconcile(b, "now") })
		pass(time.Minute)
		e.is(managed.ReasonCreateUnsure, "Creating")
		e.holds(1)
	}, nil)
}

// The result of an earlier create does not count for a later one, even if both are in the future.
func TestCreatePendingInTheFutureStaysUnsure(t *testing.T) {
	for name, earlier := range map[string]func(b *bucket, at time.Time){
		"after a failure": func(b *bucket, at time.Time) { setCreate(b, "failed", at) },
		"after a success": func(b *bucket, at time.Time) { setCreate(b, "succeeded", at) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				ahead(e, func(b *bucket, at time.Time) {
					earlier(b, at)
					setCreate(b, "pending", at.Add(time.Second))
				})
				pass(5 * time.Minute)
				e.is(managed.ReasonCreateUnsure, managed.ConditionReason("Creating"))
				e.holds(-1)
			}, nil)
		})
	}
}

// A created resource may be invisible at first. This must not make a deletion end before the resource
// is gone.

// hide makes the buckets of the cloud invisible or visible.
func (e *env) hide(hidden bool) { e.cloud.set(func(c *cloud) { c.blind = hidden }) }

// goesOnlyWhenSeen requires that objects being deleted stay while their buckets are invisible, and go
// with the buckets when these are visible.
func (e *env) goesOnlyWhenSeen() {
	e.Helper()
	pass(5 * time.Second)
	e.holds(1)
	e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
	e.hide(false)
	pass(2 * time.Minute)
	e.gone()
	e.holds(-1)
}

// noAnswer lets creates take effect without an answer.
func (e *env) noAnswer() {
	e.cloud.then("create", func(context.Context, *bucket) error {
		return fmt.Errorf("connection reset: %w", managed.ErrCreateUnsure)
	})
}

// there adds a resource that an earlier process has created.
func (e *env) there() {
	e.cloud.set(func(c *cloud) {
		for _, name := range e.names {
			c.buckets[name] = &stored{name, 1}
		}
	})
}

func TestDeletionWaitsForAResourceThatMayExist(t *testing.T) {
	for name, begin := range map[string]func(e *env){
		"create without an answer": func(e *env) {
			e.noAnswer()
			e.want(1)
			e.holds(1)
		},
		"create that timed out": func(e *env) {
			e.cloud.then("create", func(ctx context.Context, _ *bucket) error {
				<-ctx.Done()
				return ctx.Err()
			})
			e.want(1)
			pass(time.Minute)
			e.cloud.then("create", nil)
		},
		"create interrupted by a crash": func(e *env) {
			e.there()
			e.cloud.fail("observe", errors.New("down"))
			crash(e)
		},
		"of an earlier process": func(e *env) {
			e.there()
			e.cloud.fail("observe", errors.New("down"))
			e.want(1)
		},
		"created in vain": func(e *env) {
			e.there()
			e.cloud.fail("create", errors.New("503"))
			e.want(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(e *env) {
				e.hide(true)
				begin(e)
				e.remove()
				e.cloud.before("observe", nil)
				e.goesOnlyWhenSeen()
			}, deterministic)
		})
	}
}

func TestDeletionWaitsForAResourceThatTheProgramNames(t *testing.T) {
	each(t, func(e *env) {
		e.hide(true)
		e.there()
		e.cloud.fail("connect", errors.New("down"))
		e.want(1, func(b *bucket) { managed.SetExternalName(b, b.Name) })
		e.remove()
		e.cloud.before("connect", nil)
		e.goesOnlyWhenSeen()
	}, nil)
}

func TestFailedCreateDoesNotHideAnEarlierUnsureOne(t *testing.T) {
	each(t, func(e *env) {
		e.hide(true)
		e.noAnswer()
		e.want(1)
		e.holds(1)
		e.cloud.then("create", nil)
		e.cloud.fail("create", errors.New("503"))
		pass(time.Second)
		e.told("Warning CannotCreateExternalResource", "Warning CannotCreateExternalResource")
		e.remove()
		e.goesOnlyWhenSeen()
	}, deterministic)
}

func TestDeletionWaitsAtMostTheGraceForAnUnsureCreate(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.fail("observe", errors.New("down"))
		crash(e)
		e.remove()
		e.cloud.before("observe", nil)
		// The grace begins when the call would have timed out.
		pass(80 * time.Second)
		e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
		// This covers the rest of it and the last backoff.
		pass(time.Minute)
		e.gone()
	}, deterministic)
}

func TestDeletionLongAfterTheStartDoesNotWait(t *testing.T) {
	each(t, func(e *env) {
		pass(time.Minute)
		e.cloud.fail("connect", errors.New("down"))
		e.want(1)
		e.remove()
		e.cloud.before("connect", nil)
		pass(2 * time.Second)
		e.gone()
	}, deterministic)
}
