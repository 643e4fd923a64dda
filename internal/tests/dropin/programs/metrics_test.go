// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorder is a Metrics of the program.
type recorder struct {
	mu        sync.Mutex
	ids       []string        // "module/name" of each call
	durations []time.Duration // of each operation
	ops       []string        // of each operation
	failed    int             // sum of new errors
	current   int             // latest number of current errors
	prunes    []time.Duration
	pruneErrs []error
}

var _ reconciler.Metrics = (*recorder)(nil)

func (m *recorder) ReconciliationDuration(moduleID cell.FullModuleID, name, operation string, duration time.Duration) {
	defer m.call(moduleID, name)()
	m.ops = append(m.ops, operation)
	m.durations = append(m.durations, duration)
}

func (m *recorder) ReconciliationErrors(moduleID cell.FullModuleID, name string, new, current int) {
	defer m.call(moduleID, name)()
	m.failed += new
	m.current = current
}

func (m *recorder) PruneError(moduleID cell.FullModuleID, name string, err error) {
	defer m.call(moduleID, name)()
	m.pruneErrs = append(m.pruneErrs, err)
}

func (m *recorder) PruneDuration(moduleID cell.FullModuleID, name string, duration time.Duration) {
	defer m.call(moduleID, name)()
	m.prunes = append(m.prunes, duration)
}

func (m *recorder) call(moduleID cell.FullModuleID, name string) (unlock func()) {
	m.mu.Lock()
	m.ids = append(m.ids, moduleID.String()+"/"+name)
	return m.mu.Unlock
}

// look reads the recorder under its lock.
func look[T any](m *recorder, get func() T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return get()
}

func TestCustomMetricsReceiveEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &recorder{}
		a, ops := newApp(t), newTarget()
		r := a.reconcileServices(ops, withQuickRetry,
			reconciler.WithName("services"), reconciler.WithMetrics(m), reconciler.WithoutPruning())
		a.start()

		a.put(wanted(1, "a"), wanted(2, "b"))
		a.awaitKind(reconciler.StatusKindDone, 1, 2)
		assert.Equal(t, []string{reconciler.OpUpdate, reconciler.OpUpdate}, look(m, func() []string { return m.ops }))
		assert.Zero(t, look(m, func() int { return m.failed + m.current }))

		ops.fail("in use", 1)
		a.remove(1)
		eventually(t, func() bool { return look(m, func() int { return m.current }) == 1 }, "one current error")
		eventually(t, func() bool { return look(m, func() bool { return slices.Contains(m.ops, reconciler.OpDelete) }) }, "a delete")
		ops.heal()
		eventually(t, func() bool { return look(m, func() int { return m.current }) == 0 }, "no current error")

		ops.fail("no room", 2)
		a.put(wanted(2, "c"))
		eventually(t, func() bool { return look(m, func() int { return m.current }) == 1 }, "one current error")
		assert.Positive(t, look(m, func() int { return m.failed }), "new errors")
		ops.heal()
		a.awaitKind(reconciler.StatusKindDone, 2)
		eventually(t, func() bool { return look(m, func() int { return m.current }) == 0 }, "no current error")

		ops.failPrunes("no permission")
		r.Prune()
		eventually(t, func() bool { return look(m, func() int { return len(m.pruneErrs) }) > 0 }, "a prune")
		assert.ErrorIs(t, look(m, func() error { return m.pruneErrs[0] }), ops.pruneErr)
		ops.heal()
		r.Prune()
		eventually(t, func() bool { return look(m, func() error { return m.pruneErrs[len(m.pruneErrs)-1] }) == nil }, "a prune without error")
		assert.Len(t, look(m, func() []time.Duration { return m.prunes }), len(look(m, func() []error { return m.pruneErrs })))

		assert.Equal(t, []string{"app/services"}, slices.Compact(look(m, func() []string { return m.ids })))
	})
}

func TestMetricsAreThoseOfTheOptionOrOfTheHive(t *testing.T) {
	for name, own := range map[string]*recorder{"of the option": {}, "of the hive": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provided := &recorder{}
				a, used := newApp(t, cell.Provide(func() reconciler.Metrics { return provided })), provided
				require.Same(t, provided, a.params.DefaultMetrics)
				if own != nil {
					used = own
					a.reconcileServices(newTarget(), reconciler.WithMetrics(own))
				} else {
					a.reconcileServices(newTarget())
				}
				a.start()
				a.put(wanted(1, "a"))
				a.awaitKind(reconciler.StatusKindDone, 1)
				assert.Equal(t, []string{reconciler.OpUpdate}, look(used, func() []string { return used.ops }))
				assert.Equal(t, own == nil, len(look(provided, func() []string { return provided.ids })) > 0)
			})
		})
	}
}
