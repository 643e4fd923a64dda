// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestFailedCreateIsRetriedWithBackoff(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.fail("create", errors.New("quota"))
		e.want(1)
		e.called("connect", "observe", "create")
		e.told("Warning CannotCreateExternalResource")
		e.is("ReconcileError", "Creating")
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
		e.cloud.fail("create", nil)
		pass(3 * time.Second)
		e.holds(1)
	})
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
		e.is(managed.ReasonCreateUnsure, "Creating")
		e.status(reconciler.StatusKindError)
		pass(time.Hour)
		e.called()
		e.told()

		// Neither another run, nor a change, nor a deletion resolves it.
		e.Stop()
		e.start()
		pass(time.Hour)
		e.called()
		e.is(managed.ReasonCreateUnsure, "Creating")
		e.status(reconciler.StatusKindError)
		e.forget()
		e.want(2)
		e.remove()
		e.called()
		e.is(managed.ReasonCreateUnsure, "Creating")
	})
}

func TestCreateWithoutAnswerIsUnsure(t *testing.T) {
	table(t, map[string]hook{
		"lost": func(context.Context, *bucket) error {
			return fmt.Errorf("connection reset: %w", managed.ErrCreateUnsure)
		},
		"timeout": func(ctx context.Context, _ *bucket) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"panic": func(context.Context, *bucket) error { panic("nil map") },
	}, func(e *env, end hook) {
		e.cloud.then("create", end)
		e.want(1)
		pass(2 * time.Minute)
		e.told("Warning CannotTellIfCreated")
		e.is(managed.ReasonCreateUnsure, "Creating")
		pass(time.Hour)
		e.called("connect", "observe", "create")
		e.holds(1)
	})
}

func TestUnsureCreateTellsAPersonWhatToDo(t *testing.T) {
	each(t, func(e *env) {
		e.noAnswer()
		e.want(1)
		e.rows(func(b *bucket) {
			require.Equal(e, "create: connection reset: the external resource may or may not have been created: "+
				"find out, and note what you find on the row (by the program's command that calls managed.DecideCreate)", b.Status.GetError())
			require.NotEmpty(e, managed.GetExternalName(b), "the name that Create set is kept")
		})
	})
}

// critical is the option of an updater of the critical annotations.
func critical(update hook) managed.ReconcilerOption {
	return managed.WithCriticalAnnotationUpdater(managed.CriticalAnnotationUpdater[*bucket](managed.CriticalAnnotationUpdateFn[*bucket](update)))
}

// If the outside system chooses names, a resource whose name is not written now is leaked.
func TestCriticalAnnotationsAreWrittenWhileTheProgramStops(t *testing.T) {
	each(t, func(e *env) {
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
		for _, name := range e.names {
			if is := e.cloud.exists(name); is != "" {
				require.Contains(e, e.cloud.take(name), "write "+is)
				found++
			}
		}
		require.Equal(e, e.workers, found)
	}, func(e *env) any {
		return critical(func(ctx context.Context, b *bucket) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(9 * time.Second):
				return e.cloud.call(ctx, "write "+managed.GetExternalName(b), b, func() error { return nil })
			}
		})
	})
}

func TestCriticalAnnotationsAreTriedFiveTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		rows := &failing{RWTable: e.Table}
		var u *managed.RetryingCriticalAnnotationUpdater[*bucket] = managed.NewRetryingCriticalAnnotationUpdater(e.DB, rows, (*bucket).Clone)
		e.insert(named("x"))
		noted := named("x")
		managed.SetExternalName(noted, "id-1")
		rows.left = 4
		began := time.Now()
		require.NoError(t, u.UpdateCriticalAnnotations(t.Context(), noted))
		require.Equal(t, 150*time.Millisecond, time.Since(began))
		require.Equal(t, "id-1", managed.GetExternalName(e.get("x")))

		rows.left = 5
		var updater managed.CriticalAnnotationUpdater[*bucket] = u
		require.ErrorContains(t, updater.UpdateCriticalAnnotations(t.Context(), noted), `annotations of "x": no insert`)
		fn := managed.CriticalAnnotationUpdateFn[*bucket](u.UpdateCriticalAnnotations)
		require.ErrorIs(t, fn.UpdateCriticalAnnotations(t.Context(), named("y")), managed.ErrRowGone)
	})
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

func TestAnnotationsSetInCreateSurviveOtherWrites(t *testing.T) {
	const hint = "example.com/hint"
	hinted := func(b *bucket) { b.SetAnnotation(hint, "north") }
	each(t, func(e *env) {
		hasZone := func(when string) {
			e.Helper()
			pass(time.Second)
			e.rows(func(b *bucket) {
				require.Equal(e, "north-1", b.Annotations[zone], "%s: %v", when, b.Annotations)
				require.NotEmpty(e, managed.GetExternalName(b), when)
				require.Contains(e, b.Annotations[managed.AnnotationPrefix+"external-create-changes"], zone, when)
			})
		}
		e.cloud.then("create", func(_ context.Context, b *bucket) error {
			b.SetAnnotation(zone, "north-1")
			b.RemoveAnnotation(hint)
			e.editOne(b.Name, func(b *bucket) { b.Size = 2 })
			return nil
		})
		e.want(1, hinted)
		hasZone("edited during the create")
		e.rows(func(b *bucket) { require.NotContains(e, b.Annotations, hint) })
		e.holds(2)
		e.want(1, hinted)
		hasZone("applied again")
		e.want(2)
		hasZone("applied without the hint")
		e.replace(3)
		hasZone("replaced by a plain insert")
		e.holds(3)
		e.want(2, func(b *bucket) { b.SetAnnotation(zone, "south-1") })
		pass(time.Minute)
		e.rows(func(b *bucket) { require.Equal(e, "south-1", b.Annotations[zone], "the program's latest value") })
		e.edit(func(b *bucket) { b.RemoveAnnotation(zone) })
		pass(time.Minute)
		e.rows(func(b *bucket) { require.NotContains(e, b.Annotations, zone, "a person removed it") })
	})
}

func TestMergeLeavesConditionsOfOthersAlone(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, func(b *bucket) { b.SetConditions(managed.Condition{Type: "Backup", Status: managed.ConditionFalse}) })
		e.cloud.then("update", func(_ context.Context, b *bucket) error {
			next := e.get(b.Name).Clone()
			next.SetConditions(managed.Condition{Type: "Backup", Status: managed.ConditionTrue})
			e.Insert(next)
			return nil
		})
		e.want(2)
		pass(time.Second)
		e.rows(func(b *bucket) {
			require.Equal(e, managed.ConditionTrue, b.GetCondition("Backup").Status, "%+v", b.Conditions)
			require.True(e, managed.IsSynced(b))
		})
	})
}

// A create is unsure until its result is noted, even if the clock has not moved since the last result.
func TestCreateAtTheTimeOfTheLastFailureIsUnsure(t *testing.T) {
	each(t, func(e *env) {
		e.noAnswer()
		e.want(1, func(b *bucket) { setCreate(b, "failed", time.Now().Add(time.Hour)) }) // which becomes now
		pass(time.Minute)
		e.edit(func(b *bucket) { managed.RequestReconcile(b, "now") })
		pass(time.Minute)
		e.is(managed.ReasonCreateUnsure, "Creating")
		e.holds(1)
	})
}

// A created resource may be invisible at first. This must not make a deletion end before the resource
// is gone.

// goesOnlyWhenSeen requires that objects being deleted stay while their buckets are invisible, and go
// with the buckets when these are visible.
func (e *env) goesOnlyWhenSeen() {
	e.Helper()
	pass(5 * time.Second)
	e.holds(1)
	e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
	e.hide(false)
	pass(2 * time.Minute)
	e.gone(-1)
}

// noAnswer lets creates take effect without an answer.
func (e *env) noAnswer() {
	e.cloud.then("create", func(context.Context, *bucket) error {
		return fmt.Errorf("connection reset: %w", managed.ErrCreateUnsure)
	})
}

func TestDeletionWaitsForAResourceThatTheProgramNames(t *testing.T) {
	each(t, func(e *env) {
		e.hide(true)
		e.there("", 1)
		e.cloud.fail("connect", errDown)
		e.want(1, func(b *bucket) { managed.SetExternalName(b, b.Name) })
		e.remove()
		e.cloud.fail("connect", nil)
		e.goesOnlyWhenSeen()
	})
}

func TestDeletionWaitsAtMostTheGraceForAnUnsureCreate(t *testing.T) {
	each(t, func(e *env) {
		e.cloud.fail("observe", errDown)
		crash(e)
		e.remove()
		e.cloud.fail("observe", nil)
		// The grace begins when the call would have timed out.
		pass(80 * time.Second)
		e.rows(func(b *bucket) { require.True(e, managed.WasDeleted(b)) })
		// This covers the rest of it and the last backoff.
		pass(time.Minute)
		e.gone(-1)
	}, deterministic)
}

func TestDeletionLongAfterTheStartDoesNotWait(t *testing.T) {
	each(t, func(e *env) {
		pass(time.Minute)
		e.cloud.fail("connect", errDown)
		e.want(1)
		e.remove()
		e.cloud.fail("connect", nil)
		pass(2 * time.Second)
		e.gone(-1)
	}, deterministic)
}
