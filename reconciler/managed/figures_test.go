// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// counts is a Metrics that stores its calls.
type counts struct {
	mu                                 sync.Mutex
	kinds                              map[string]bool
	reconciled, ready, deleted, drifts []time.Duration
	known, exists, isReady, synced     int
}

func (c *counts) lock(kind string) (unlock func()) {
	c.mu.Lock()
	if c.kinds == nil {
		c.kinds = map[string]bool{}
	}
	c.kinds[kind] = true
	return c.mu.Unlock
}

// soFar returns a copy of what was recorded.
func (c *counts) soFar() *counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &counts{
		kinds: maps.Clone(c.kinds), reconciled: slices.Clone(c.reconciled), ready: slices.Clone(c.ready),
		deleted: slices.Clone(c.deleted), drifts: slices.Clone(c.drifts),
		known: c.known, exists: c.exists, isReady: c.isReady, synced: c.synced,
	}
}

func (c *counts) FirstReconciled(kind string, after time.Duration) {
	defer c.lock(kind)()
	c.reconciled = append(c.reconciled, after.Truncate(time.Second))
}

func (c *counts) FirstReady(kind string, after time.Duration) {
	defer c.lock(kind)()
	c.ready = append(c.ready, after.Truncate(time.Second))
}

func (c *counts) Deleted(kind string, after time.Duration) {
	defer c.lock(kind)()
	c.deleted = append(c.deleted, after.Truncate(time.Second))
}

func (c *counts) Drift(kind string, age time.Duration) {
	defer c.lock(kind)()
	c.drifts = append(c.drifts, age.Truncate(time.Second))
}

func (c *counts) Observed(kind string, was, is managed.State) {
	defer c.lock(kind)()
	add := func(n *int, was, is bool) {
		if was {
			*n--
		}
		if is {
			*n++
		}
	}
	add(&c.known, was.Known, is.Known)
	add(&c.exists, was.Exists, is.Exists)
	add(&c.isReady, was.Ready, is.Ready)
	add(&c.synced, was.Synced, is.Synced)
}

func TestMetricsCountEachObjectOnce(t *testing.T) {
	var c *counts
	each(t, func(e *env) {
		n := len(e.names)
		all := func(d time.Duration) (each []time.Duration) {
			for range n {
				each = append(each, d)
			}
			return each
		}
		e.want(1)
		require.Equal(e, all(0), c.soFar().reconciled)
		require.Empty(e, c.soFar().ready)
		pass(time.Second)
		require.Equal(e, all(time.Second), c.soFar().ready)
		require.Equal(e, []int{n, n, n, n}, []int{c.soFar().known, c.soFar().exists, c.soFar().isReady, c.soFar().synced})

		e.want(2)
		require.Empty(e, c.soFar().drifts, "a change by the program is no drift")
		e.cloud.set(func(c *cloud) {
			for _, s := range c.buckets {
				s.size = 9
			}
		})
		pass(time.Minute)
		require.Len(e, c.soFar().drifts, n)
		require.InDelta(e, 60, c.soFar().drifts[0].Seconds(), 2)

		e.remove()
		require.Equal(e, []int{n, n, 0, n}, []int{c.soFar().known, c.soFar().exists, c.soFar().isReady, c.soFar().synced})
		pass(time.Second)
		e.gone()
		require.Equal(e, all(time.Second), c.soFar().deleted)
		require.Equal(e, []int{0, 0, 0, 0}, []int{c.soFar().known, c.soFar().exists, c.soFar().isReady, c.soFar().synced})
		require.Equal(e, all(0), c.soFar().reconciled)
		require.Equal(e, map[string]bool{"bucket": true}, c.soFar().kinds)

		e.settle(1)
		e.cloud.set(func(c *cloud) { c.sticky = true })
		e.removeDirectly()
		pass(20 * time.Second)
		e.cloud.set(func(c *cloud) { c.sticky = false })
		pass(2 * time.Minute)
		require.Len(e, c.soFar().deleted, 2*n)
		require.Greater(e, c.soFar().deleted[n], 20*time.Second)
		require.Zero(e, c.soFar().known)
	}, func(e *env) []managed.Option {
		c = &counts{}
		return append(noGrace(e), managed.WithMetrics(c), managed.WithKind("bucket"))
	})
}
