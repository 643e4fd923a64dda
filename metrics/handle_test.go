// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/tests/fake"
	"github.com/statekeel/statekeel/metrics"
)

var module = cell.FullModuleID{"agent", "routing"}

// recorder is a Metrics that records its calls.
type recorder struct {
	calls []string
	told  func() // is called before each call; may be nil
}

func (r *recorder) record(format string, args ...any) {
	if r.told != nil {
		r.told()
	}
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

func (r *recorder) ReconciliationDuration(id cell.FullModuleID, name, operation string, d time.Duration) {
	r.record("ReconciliationDuration %v %q %s %v", id, name, operation, d)
}

func (r *recorder) ReconciliationErrors(id cell.FullModuleID, name string, new, current int) {
	r.record("ReconciliationErrors %v %q %d %d", id, name, new, current)
}

func (r *recorder) PruneError(id cell.FullModuleID, name string, err error) {
	r.record("PruneError %v %q %v", id, name, err)
}

func (r *recorder) PruneDuration(id cell.FullModuleID, name string, d time.Duration) {
	r.record("PruneDuration %v %q %v", id, name, d)
}

// binder is a recorder with a handle of its own.
type binder struct {
	recorder
	handle metrics.Handle
}

func (b *binder) Bind(id cell.FullModuleID, name string) metrics.Handle {
	b.record("Bind %v %q", id, name)
	return b.handle
}

func callAll(h metrics.Handle) {
	h.UpdateDuration(time.Second)
	h.DeleteDuration(2 * time.Second)
	h.ReconciliationErrors(3, 4)
	h.PruneError(errors.New("busy"))
	h.PruneError(nil)
	h.PruneDuration(5 * time.Second)
}

var allCalls = []string{
	`ReconciliationDuration agent.routing "v6" update 1s`,
	`ReconciliationDuration agent.routing "v6" delete 2s`,
	`ReconciliationErrors agent.routing "v6" 3 4`,
	`PruneError agent.routing "v6" busy`,
	`PruneError agent.routing "v6" <nil>`,
	`PruneDuration agent.routing "v6" 5s`,
}

func TestBindUsesTheHandleOfABinderOrCallsTheMethods(t *testing.T) {
	r := &recorder{}
	callAll(metrics.Bind(r, module, "v6"))
	assert.Equal(t, allCalls, r.calls)

	own := metrics.Bind(&recorder{}, module, "other")
	b := &binder{handle: own}
	assert.Same(t, own, metrics.Bind(b, module, "v6"))
	assert.Equal(t, []string{`Bind agent.routing "v6"`}, b.calls)

	b = &binder{}
	callAll(metrics.Bind(b, module, "v6"))
	assert.Equal(t, append([]string{`Bind agent.routing "v6"`}, allCalls...), b.calls)
}

func TestBindWithoutMetricsDropsAllFigures(t *testing.T) {
	assert.Equal(t, metrics.Bind(metrics.Discard, module, "v6"), metrics.Bind(nil, module, "v6"))
	for _, m := range []metrics.Metrics{metrics.Discard, struct{ metrics.Metrics }{metrics.Discard}} {
		assert.NotPanics(t, func() { callAll(metrics.Bind(m, module, "v6")) })
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { callNoErrors(metrics.Bind(metrics.Discard, module, "v6")) }))
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// attacher is a recorder that also takes figures.
type attacher struct {
	recorder
	sources []metrics.Source
}

func (a *attacher) Attach(id cell.FullModuleID, name string, source metrics.Source) func() {
	a.record("Attach %v %q", id, name)
	a.sources = append(a.sources, source)
	return func() { a.record("detach") }
}

func TestJoinTellsAllInTheirOrder(t *testing.T) {
	var order []string
	first := &recorder{told: func() { order = append(order, "first") }}
	last := &recorder{told: func() { order = append(order, "last") }}
	joined := metrics.Join(nil, first, nil, last)
	for name, handle := range map[string]metrics.Handle{
		"handles": metrics.Bind(joined, module, "v6"),
		"methods": metrics.Bind(struct{ metrics.Metrics }{joined}, module, "v6"),
	} {
		first.calls, last.calls, order = nil, nil, nil
		callAll(handle)
		assert.Equal(t, allCalls, first.calls, name)
		assert.Equal(t, allCalls, last.calls, name)
		for i, who := range order {
			assert.Equal(t, []string{"first", "last"}[i%2], who, name)
		}
	}
}

func TestJoinUsesTheHandlesOfBinders(t *testing.T) {
	r := &recorder{}
	b := &binder{handle: metrics.Bind(r, module, "v6")}
	other := &recorder{}
	callAll(metrics.Bind(metrics.Join(b, other), module, "v6"))
	assert.Equal(t, []string{`Bind agent.routing "v6"`}, b.calls)
	assert.Equal(t, allCalls, r.calls)
	assert.Equal(t, allCalls, other.calls)
}

func TestJoinAttachesToThoseThatWantIt(t *testing.T) {
	one, two := &attacher{}, &attacher{}
	source := &fake.Source{}
	detach := metrics.Attach(metrics.Join(one, &recorder{}, metrics.Join(two)), module, "v6", source)
	for _, a := range []*attacher{one, two} {
		assert.Equal(t, []string{`Attach agent.routing "v6"`}, a.calls)
		assert.Equal(t, []metrics.Source{source}, a.sources)
	}
	detach()
	for _, a := range []*attacher{one, two} {
		assert.Equal(t, []string{`Attach agent.routing "v6"`, "detach"}, a.calls)
	}
}

func TestAttachingToNothingDoesNothing(t *testing.T) {
	for _, m := range []metrics.Metrics{nil, metrics.Discard, &recorder{}, metrics.Join()} {
		assert.NotPanics(t, func() { metrics.Attach(m, module, "", &fake.Source{})() })
	}
}

// Beside an Attacher that ignores calls, a handle is the same as without it.
func TestJoinCostsNothingForThoseThatWantNoCalls(t *testing.T) {
	own := metrics.Bind(&recorder{}, module, "v6")
	b := &binder{handle: own}
	assert.Same(t, own, metrics.Bind(metrics.Join(metrics.Discard, b, metrics.Discard), module, "v6"))
	discarding := metrics.Bind(metrics.Discard, module, "v6")
	assert.Equal(t, discarding, metrics.Bind(metrics.Join(metrics.Discard, metrics.Join()), module, "v6"))
	assert.Equal(t, discarding, metrics.Bind(metrics.Join(nil, nil), module, "v6"))
}
