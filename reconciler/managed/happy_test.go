// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

func TestMissingResourceIsCreatedAndConfirmed(t *testing.T) {
	each(t, func(e *env) {
		e.want(1)
		e.called("connect", "observe", "create")
		e.told("Normal CreatedExternalResource")
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Creating"))
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
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.rows(func(b *bucket) { require.Equal(e, 1, b.Seen, "what Observe sets is kept") })
		e.holds(1)
	}, nil)
}

func TestPollOfAnUpToDateResourceWritesNothing(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		at := e.revision()
		pass(59 * time.Second)
		e.called()
		pass(time.Second)
		e.called("connect", "observe")
		pass(time.Hour)
		require.Len(e, e.cloud.take(e.names[0]), 2*60)
		require.Equal(e, at, e.revision(), "a poll that finds nothing new writes nothing")
		e.told()
	}, nil)
}

func TestResourceThatDiffersIsUpdated(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.want(2)
		e.called("connect", "observe", "update")
		e.told("Normal UpdatedExternalResource")
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.rows(func(b *bucket) {
			require.EqualValues(e, 2, b.Generation)
			require.EqualValues(e, 2, b.GetCondition(managed.TypeSynced).ObservedGeneration)
			require.EqualValues(e, 2, b.GetCondition(managed.TypeReady).ObservedGeneration)
		})
		e.holds(2)
		pass(time.Minute)
		e.called("connect", "observe")
	}, nil)
}

func TestDriftIsRepairedAtThePoll(t *testing.T) {
	each(t, func(e *env) {
		e.settle(1)
		e.cloud.set(func(c *cloud) {
			for _, s := range c.buckets {
				s.size = 7
			}
		})
		pass(time.Minute)
		e.called("connect", "observe", "update")
		e.holds(1)
		pass(time.Minute)
		e.rows(func(b *bucket) {
			require.Equal(e, 1, b.Seen, "a poll writes what has changed")
			require.Equal(e, reconciler.StatusKindDone, b.Status.Kind)
		})
	}, nil)
}

func TestExistingResourceIsTakenOver(t *testing.T) {
	each(t, func(e *env) {
		for _, name := range e.names {
			e.cloud.buckets["old-"+name] = &stored{name, 1}
		}
		e.want(1, func(b *bucket) { managed.SetExternalName(b, "old-"+b.Name) })
		e.called("connect", "observe")
		e.rows(func(b *bucket) { require.Equal(e, []string{managed.FinalizerName}, b.Finalizers) })
		e.is(managed.ConditionReason("ReconcileSuccess"), managed.ConditionReason("Available"))
		e.holds(1)
	}, nil)
}
