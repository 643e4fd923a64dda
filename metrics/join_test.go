// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics_test

import (
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/metrics"
)

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

// figures is a Source that always returns the same figures.
type figures metrics.Figures

func (f *figures) Figures() metrics.Figures { return metrics.Figures(*f) }

func TestJoinTellsAllInTheirOrder(t *testing.T) {
	shared := &recorder{}
	first, last := &taking{"first", shared}, &taking{"last", shared}
	m := metrics.Join(nil, first, nil, last)

	want := []string{
		`ReconciliationDuration first`, `ReconciliationDuration last`,
		`ReconciliationErrors first`, `ReconciliationErrors last`,
		`PruneError first`, `PruneError last`,
		`PruneDuration first`, `PruneDuration last`,
	}
	m.ReconciliationDuration(module, "", metrics.OpUpdate, time.Second)
	m.ReconciliationErrors(module, "", 1, 1)
	m.PruneError(module, "", nil)
	m.PruneDuration(module, "", time.Second)
	assert.Equal(t, want, shared.calls)

	shared.calls = nil
	h := metrics.Bind(m, module, "")
	h.UpdateDuration(time.Second)
	h.ReconciliationErrors(1, 1)
	h.PruneError(nil)
	h.PruneDuration(time.Second)
	assert.Equal(t, want, shared.calls)
}

// taking is a Metrics that records, under its name, which methods were called.
type taking struct {
	name string
	to   *recorder
}

func (n *taking) ReconciliationDuration(cell.FullModuleID, string, string, time.Duration) {
	n.to.record("ReconciliationDuration %s", n.name)
}
func (n *taking) ReconciliationErrors(cell.FullModuleID, string, int, int) {
	n.to.record("ReconciliationErrors %s", n.name)
}
func (n *taking) PruneError(cell.FullModuleID, string, error) { n.to.record("PruneError %s", n.name) }
func (n *taking) PruneDuration(cell.FullModuleID, string, time.Duration) {
	n.to.record("PruneDuration %s", n.name)
}

func TestJoinPassesEverythingOn(t *testing.T) {
	one, two := &recorder{}, &recorder{}
	callAll(metrics.Bind(metrics.Join(one, two), module, "v6"))
	assert.Equal(t, allCalls, one.calls)
	assert.Equal(t, allCalls, two.calls)

	// Also without a handle.
	one.calls, two.calls = nil, nil
	callAll(metrics.Bind(struct{ metrics.Metrics }{metrics.Join(one, two)}, module, "v6"))
	assert.Equal(t, allCalls, one.calls)
	assert.Equal(t, allCalls, two.calls)
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
	source := &figures{}
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
		assert.NotPanics(t, func() { metrics.Attach(m, module, "", &figures{})() })
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
