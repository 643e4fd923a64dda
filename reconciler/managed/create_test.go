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

func TestDeterministicNamesMakeNoCreateUnsure(t *testing.T) {
	each(t, func(e *env) {
		for _, name := range e.names {
			e.cloud.buckets[name] = &stored{name, 1}
		}
		crash(e)
		e.holds(1)
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.called("connect", "observe")
		e.rows(func(b *bucket) { require.Equal(e, b.Name, managed.GetExternalName(b)) })
	}, deterministic)
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
