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

func TestResourceIsCreatedConfirmedUpdatedAndRepaired(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.called("connect", "observe", "create")
		e.told("Normal CreatedExternalResource")
		e.is("ReconcileSuccess", "Creating")
		e.status(reconciler.StatusKindDone)
		e.rows(func(b *bucket) {
			require.Equal(e, []string{managed.FinalizerName}, b.Finalizers)
			require.NotEmpty(e, managed.GetExternalName(b))
			require.False(e, managed.IsCreateIncomplete(b))
			require.Zero(e, b.Seen, "only annotations that Create sets are kept")
			require.EqualValues(e, 1, b.GetCondition(managed.TypeSynced).ObservedGeneration)
		})
		pass(time.Second)
		e.called("connect", "observe")
		e.told()
		e.is("ReconcileSuccess", "Available")
		e.rows(func(b *bucket) { require.Equal(e, 1, b.Seen, "what Observe sets is kept") })
		e.holds(1)

		at := e.revision()
		pass(59 * time.Second)
		e.called()
		pass(time.Second)
		e.called("connect", "observe")
		pass(time.Hour)
		e.polled(60)
		require.Equal(e, at, e.revision(), "a poll that finds nothing new writes nothing")
		e.told()

		e.want(2)
		e.called("connect", "observe", "update")
		e.told("Normal UpdatedExternalResource")
		e.is("ReconcileSuccess", "Available")
		e.rows(func(b *bucket) {
			require.EqualValues(e, 2, b.Generation)
			require.EqualValues(e, 2, b.GetCondition(managed.TypeSynced).ObservedGeneration)
			require.EqualValues(e, 2, b.GetCondition(managed.TypeReady).ObservedGeneration)
		})
		e.holds(2)
		pass(time.Minute)
		e.called("connect", "observe")

		e.drift(7)
		pass(time.Minute)
		e.called("connect", "observe", "update")
		e.holds(2)
		pass(time.Minute)
		e.rows(func(b *bucket) { require.Equal(e, 2, b.Seen, "a poll writes what has changed") })
		e.status(reconciler.StatusKindDone)
	})
}

func TestExistingResourceIsTakenOver(t *testing.T) {
	each(t, func(e *env) {
		e.there("old-", 7)
		e.cloud.before("update", func(_ context.Context, b *bucket) error {
			require.Equal(e, []string{managed.FinalizerName}, e.get(b.Name).Finalizers, "in the table before the update")
			return nil
		})
		e.want(1, func(b *bucket) { managed.SetExternalName(b, "old-"+b.Name) })
		e.called("connect", "observe", "update")
		e.is("ReconcileSuccess", "Available")
		e.holds(1)
	})
}

// polled requires that each object was observed about so often since the last check.
func (e *env) polled(n float64) {
	e.Helper()
	for _, name := range e.names {
		require.InDelta(e, 2*n, len(e.cloud.take(name)), 2, "connect and observe")
	}
}

func TestPollIntervalIsThatOfTheOption(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		pass(100 * time.Second)
		e.polled(10)
	}, managed.WithPollInterval(10*time.Second))
	each(t, func(e *env) {
		e.settle(1)
		pass(24 * time.Hour)
		e.called()
	}, managed.WithPollInterval(0))
}

func TestObjectMayHaveItsOwnPollInterval(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1, func(b *bucket) { managed.SetPollInterval(b, 5*time.Second) })
		pass(100 * time.Second)
		e.polled(20)
		e.edit(func(b *bucket) { b.SetAnnotation(managed.AnnotationPrefix+"poll-interval", "soon") })
		e.told("Warning InvalidPollInterval")
		e.forget()
		pass(50 * time.Second)
		e.called()
		e.edit(func(b *bucket) { managed.SetPollInterval(b, 0) })
		e.rows(func(b *bucket) { require.NotContains(e, b.Annotations, managed.AnnotationPrefix+"poll-interval") })
		e.told()
	})
}

func TestLastPollHookApplies(t *testing.T) {
	var hourly managed.PollIntervalHook[*bucket] = func(*bucket, time.Duration) time.Duration { return time.Hour }
	hour := managed.WithPollIntervalHook(hourly)
	double := managed.WithPollIntervalHook(func(b *bucket, interval time.Duration) time.Duration {
		if b.Size == 0 {
			return 0
		}
		return 2 * interval
	})
	each(t, func(e *env) {
		e.settle(1)
		pass(119 * time.Second)
		e.called()
		pass(time.Second)
		e.called("connect", "observe")
		e.want(0)
		e.forget()
		pass(24 * time.Hour)
		e.called()
	}, hour, managed.WithPollJitterHook(time.Second), double)
	each(t, func(e *env) {
		e.settle(1)
		pass(61 * time.Second)
		e.called("connect", "observe")
	}, hour, managed.WithPollJitterHook(time.Millisecond))
}

func TestJitterSpreadsPollsWithinItsBounds(t *testing.T) {
	for _, test := range []struct{ jitter, shortest, longest time.Duration }{
		{20 * time.Second, 40 * time.Second, 80 * time.Second},
		{3 * time.Minute, time.Second, 4 * time.Minute}, // longer than the interval
	} {
		each(t, func(e *env) {
			var at []time.Time
			e.settle(1)
			e.cloud.before("observe", func(_ context.Context, b *bucket) error {
				if b.Name == e.names[0] {
					at = append(at, time.Now())
				}
				return nil
			})
			pass(3 * time.Hour)
			late := 0
			for i := 1; i < len(at); i++ {
				between := at[i].Sub(at[i-1])
				require.GreaterOrEqual(e, between, test.shortest)
				require.LessOrEqual(e, between, test.longest+time.Second)
				if between > time.Minute {
					late++
				}
			}
			require.Greater(e, late, 20)
			require.Greater(e, len(at)-late, 20)
		}, managed.WithPollJitterHook(test.jitter))
	}
}
