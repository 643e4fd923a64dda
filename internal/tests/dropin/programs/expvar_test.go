// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package programs

import (
	"context"
	"expvar"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb/reconciler"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// expVarNames are the names of the variables, in the order of the fields of the struct.
var expVarNames = []string{
	"reconciliation_count",
	"reconciliation_duration",
	"reconciliation_total_errors",
	"reconciliation_current_errors",
	"prune_count",
	"prune_duration",
	"prune_total_errors",
	"prune_current_errors",
}

func expVarFields(m *reconciler.ExpVarMetrics) []*expvar.Map {
	return []*expvar.Map{
		m.ReconciliationCountVar,
		m.ReconciliationDurationVar,
		m.ReconciliationTotalErrorsVar,
		m.ReconciliationCurrentErrorsVar,
		m.PruneCountVar,
		m.PruneDurationVar,
		m.PruneTotalErrorsVar,
		m.PruneCurrentErrorsVar,
	}
}

// slowly makes each operation take d.
func slowly(d time.Duration) func(context.Context, string, *service) {
	return func(context.Context, string, *service) { time.Sleep(d) }
}

func TestExpVarKeysOfAReconciler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := reconciler.NewUnpublishedExpVarMetrics()
		a, plain := newApp(t), newTarget()
		plain.beforeOps = slowly(2 * time.Second)
		a.reconcileServices(plain, withQuickRetry, reconciler.WithMetrics(m))
		others := newSysctls(a, reconciler.WithName("others"), reconciler.WithMetrics(m))
		record := func(when string) {
			for i, v := range expVarFields(m) {
				if expVarNames[i] != "reconciliation_count" { // counts rounds, whose number may differ
					transcript(t, when+expVarNames[i], v.String())
				}
			}
		}
		a.start()
		assert.Equal(t, `{"app": 0, "app/others": 0}`, m.ReconciliationCurrentErrorsVar.String(), "an idle reconciler shows")
		assert.NotNil(t, m.ReconciliationCountVar.Get("app/others"))
		record("idle ")

		a.put(wanted(1, "a"))
		others.put("ip_forward", "1")
		a.awaitKind(reconciler.StatusKindDone, 1)
		a.remove(1)
		eventually(t, func() bool { return plain.has() == "" }, "the deletion")
		others.await("ip_forward 1 Done")
		pass(time.Second)
		assert.Equal(t, `{"app/delete": 2, "app/others/update": 0, "app/update": 2}`, m.ReconciliationDurationVar.String())
		assert.NotEqual(t, "0", m.ReconciliationCountVar.Get("app").String())
		record("")

		plain.fail("no room", 2)
		a.put(wanted(2, "b"))
		eventually(t, func() bool { return m.ReconciliationCurrentErrorsVar.Get("app").String() == "1" }, "a current error")
		assert.NotEqual(t, "0", m.ReconciliationTotalErrorsVar.Get("app").String())
		plain.heal()
		a.awaitKind(reconciler.StatusKindDone, 2)
		eventually(t, func() bool { return m.ReconciliationCurrentErrorsVar.Get("app").String() == "0" }, "no current error")
		assert.NotEqual(t, "0", m.ReconciliationTotalErrorsVar.Get("app").String())
	})
}

// published is called once: in v0.9.4 a second call of NewExpVarMetrics panics, as with -count=2.
var published = sync.OnceValue(reconciler.NewExpVarMetrics)

func TestPublishedExpVarsAreFoundByName(t *testing.T) {
	m := published()
	require.NotNil(t, m.Map())
	var metrics reconciler.Metrics = m
	metrics.ReconciliationErrors(cell.FullModuleID{"published"}, "", 1, 1)
	fields := expVarFields(m)
	for i, name := range expVarNames {
		assert.Same(t, fields[i], expvar.Get(name), name)
	}
	assert.Equal(t, "1", expvar.Get("reconciliation_current_errors").(*expvar.Map).Get("published").String())
}

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
