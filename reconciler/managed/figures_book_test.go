// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// counted runs a test as each does, with a Book as the metrics.
func counted(t *testing.T, test func(e *env, figures func() managed.KindFigures), opts ...managed.Option) {
	t.Helper()
	var book *managed.Book
	each(t, func(e *env) {
		test(e, func() managed.KindFigures { return book.Figures()["buckets"] })
	}, func(*env) []managed.Option {
		book = &managed.Book{}
		return append([]managed.Option{managed.WithMetrics(book)}, opts...)
	})
}

// counts requires the numbers of objects that are known, exist, are ready and are synced.
func (e *env) counts(f managed.KindFigures, objects, existing, ready, synced int) {
	e.Helper()
	require.Equal(e, [4]int{objects, existing, ready, synced}, [4]int{f.Objects, f.Existing, f.Ready, f.Synced})
}

// times requires one value of about this duration for each object.
func (e *env) times(h metrics.Histogram, want time.Duration) {
	e.Helper()
	require.EqualValues(e, len(e.names), h.Count)
	require.InDelta(e, want.Seconds()*float64(len(e.names)), h.Sum, slack.Seconds()*float64(len(e.names)))
}

func TestTimesToReconcileAndToReadinessAreMeasuredOnce(t *testing.T) {
	counted(t, func(e *env, figures func() managed.KindFigures) {
		at := time.Now()
		e.cloud.before("create", func(context.Context, *bucket) error {
			time.Sleep(3 * time.Second)
			return nil
		})
		e.want(1)
		pass(time.Hour)
		f := figures()
		require.InDelta(e, 0, f.Since.Sub(at).Seconds(), 10)
		require.EqualValues(e, len(e.names), f.FirstReconcile.Count)
		require.EqualValues(e, len(e.names), f.FirstReady.Count)
		// With 8 workers some objects have to wait for a worker.
		require.GreaterOrEqual(e, f.FirstReconcile.Sum, 3.0*float64(len(e.names)))
		require.GreaterOrEqual(e, f.FirstReady.Sum, f.FirstReconcile.Sum)
		if e.workers == 1 {
			e.times(f.FirstReconcile, 3*time.Second)
			e.times(f.FirstReady, 4*time.Second)
		}

		e.cloud.before("create", nil)
		e.want(2)
		e.cloud.set(func(c *cloud) { clear(c.buckets) })
		pass(time.Hour)
		e.holds(2)
		require.Equal(e, f.FirstReconcile, figures().FirstReconcile, "measured only once")
		require.Equal(e, f.FirstReady, figures().FirstReady, "measured only once")
	})
}

func TestExistingReadyAndSyncedObjectsAreCounted(t *testing.T) {
	counted(t, func(e *env, figures func() managed.KindFigures) {
		n := len(e.names)
		e.counts(figures(), 0, 0, 0, 0)
		e.want(1)
		e.counts(figures(), n, 0, 0, n)
		pass(time.Second)
		e.counts(figures(), n, n, n, n)

		e.cloud.fail("observe", errors.New("no answer"))
		e.want(2)
		e.counts(figures(), n, n, n, 0)
		e.cloud.fail("observe", nil)
		pass(time.Minute)
		e.counts(figures(), n, n, n, n)

		e.remove()
		e.counts(figures(), n, n, 0, n)
		pass(time.Second)
		e.gone()
		e.counts(figures(), 0, 0, 0, 0)
	})
}

func TestDeletionTimeEndsWhenTheObjectIsGone(t *testing.T) {
	counted(t, func(e *env, figures func() managed.KindFigures) {
		e.settle(1)
		pass(time.Minute) // the creation grace is over
		e.cloud.set(func(c *cloud) { c.sticky = true })
		e.remove()
		pass(time.Second)
		require.Zero(e, figures().Deletion.Count)
		e.cloud.set(func(c *cloud) { c.sticky = false })
		pass(time.Hour)
		e.gone()
		// The deletion is requested again after 1 s and 3 s; after 7 s the resource is gone.
		e.times(figures().Deletion, 7*time.Second)
	})
}

func TestRemovedRowIsTimedFromItsFirstDeletionAttempt(t *testing.T) {
	counted(t, func(e *env, figures func() managed.KindFigures) {
		e.settle(1)
		pass(time.Minute) // the creation grace is over
		e.removeDirectly()
		pass(time.Hour)
		e.holds(-1)
		e.times(figures().Deletion, time.Second)
		e.counts(figures(), 0, 0, 0, 0)
	})
}

func TestDriftAgeIsTheTimeSinceTheLastGoodObservation(t *testing.T) {
	counted(t, func(e *env, figures func() managed.KindFigures) {
		e.settle(1)
		e.want(2)
		pass(2 * time.Minute)
		require.Zero(e, figures().Drift.Count, "a change of the desired state is no drift")
		drift := func() {
			e.cloud.set(func(c *cloud) {
				for _, s := range c.buckets {
					s.size = 7
				}
			})
		}
		drift()
		pass(time.Minute)
		e.holds(2)
		e.times(figures().Drift, time.Minute)
		pass(3 * time.Minute)
		drift()
		pass(time.Minute)
		require.EqualValues(e, 2*len(e.names), figures().Drift.Count)
	})
}

func TestPausedObjectIsCountedButNotTimed(t *testing.T) {
	counted(t, func(e *env, figures func() managed.KindFigures) {
		n := len(e.names)
		e.want(1, func(b *bucket) { managed.SetPaused(b, true) })
		pass(time.Hour - 2*slack)
		require.Zero(e, figures().FirstReconcile.Count)
		e.counts(figures(), n, 0, 0, 0)

		e.edit(func(b *bucket) { managed.SetPaused(b, false) })
		pass(time.Second)
		e.times(figures().FirstReconcile, time.Hour)
		e.counts(figures(), n, n, n, n)

		e.edit(func(b *bucket) { managed.SetPaused(b, true) })
		e.counts(figures(), n, n, n, 0)
		require.EqualValues(e, n, figures().FirstReconcile.Count)
	})
}

func TestKindIsThatOfTheOption(t *testing.T) {
	var book *managed.Book
	each(t, func(e *env) {
		e.want(1)
		pass(time.Second)
		require.NotContains(e, book.Figures(), "buckets")
		e.counts(book.Figures()["Bucket"], len(e.names), len(e.names), len(e.names), len(e.names))
	}, func(*env) []managed.Option {
		book = &managed.Book{}
		return []managed.Option{managed.WithMetrics(book), managed.WithKind("Bucket")}
	})
}
