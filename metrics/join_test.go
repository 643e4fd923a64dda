// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics_test

import (
	"testing"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/internal/tests/fake"
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
