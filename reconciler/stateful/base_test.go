// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/object"
	"github.com/statekeel/statekeel/reconciler/stateful"
)

func named(name string, records ...string) *zone {
	return &zone{Meta: object.Meta{Name: name}, Records: records}
}

func TestTheBaseReconcilesWithoutALoop(t *testing.T) {
	log := &testlog.Buffer{}
	base := stateful.NewBaseStatefulReconciler[*zone, []string, string](slog.New(slog.NewTextHandler(log, nil)))
	s, z := newServer(), named("web", "a", "b")
	require.NoError(t, base.Reconcile(t.Context(), z, s))
	require.Equal(t, `["a","b"]`, z.Annotations[annotation])

	next := z.Clone()
	next.Records = []string{"b"}
	require.NoError(t, base.Reconcile(t.Context(), next, s))
	require.Equal(t, []changes{adds("a", "b"), removes("a")}, s.take())
	require.Equal(t, `["a","b"]`, z.Annotations[annotation], "the previous version is unchanged")

	require.NoError(t, base.Remove(t.Context(), next, s))
	require.Empty(t, s.has("web"))
	require.Equal(t, `["b"]`, next.Annotations[annotation], "a deleted resource is not changed")
	require.Empty(t, log.String())
}

func TestHasStateChanged(t *testing.T) {
	var base stateful.BaseStatefulReconciler[*zone, any, string]
	for _, test := range []struct {
		name              string
		previous, current any
		want              bool
	}{
		{"nothing", nil, nil, false},
		{"the same", []string{"a"}, []string{"a"}, false},
		{"another", []string{"a"}, []string{"b"}, true},
		{"another order", []string{"a", "b"}, []string{"b", "a"}, true},
		{"the same when written", map[string]any{"a": 1}, map[string]any{"a": 1.0}, false},
		{"previous is not JSON", math.NaN(), 1, true},
		{"current is not JSON", 1, math.NaN(), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, base.HasStateChanged(test.previous, test.current))
		})
	}
}

func TestUpdateAnnotation(t *testing.T) {
	var base stateful.BaseStatefulReconciler[*zone, []string, string]
	z := named("web")
	require.NoError(t, base.UpdateAnnotation(z, "key", []string{"a"}))
	require.Equal(t, map[string]string{"key": `["a"]`}, z.Annotations)

	before := z.Annotations
	require.NoError(t, base.UpdateAnnotation(z, "key", []string{"a"}))
	before["probe"] = ""
	require.Contains(t, z.Annotations, "probe", "the map was not copied")

	var numbers stateful.BaseStatefulReconciler[*zone, float64, string]
	require.ErrorContains(t, numbers.UpdateAnnotation(z, "key", math.NaN()), `annotation "key": json: unsupported value: NaN`)
	require.Equal(t, `["a"]`, z.Annotations["key"])
}

// gauge has a state that JSON cannot encode.
type gauge struct{ applied int }

func (*gauge) GetStateAnnotationKey() string              { return annotation }
func (*gauge) ExtractCurrentState(*zone) (float64, error) { return math.Inf(1), nil }
func (g *gauge) CompareStates(_, _ float64) (gaugeChanges, error) {
	return gaugeChanges{ItemsToUpdate: []int{1}}, nil
}
func (g *gauge) ApplyOperations(context.Context, *zone, gaugeChanges) error {
	g.applied++
	return nil
}

type gaugeChanges = stateful.StateChangeOperations[float64, int]

func TestAStateThatCannotBeEncodedIsNotApplied(t *testing.T) {
	var base stateful.BaseStatefulReconciler[*zone, float64, int]
	g := &gauge{}
	err := base.Reconcile(t.Context(), named("web"), g)
	require.EqualError(t, err, `annotation "example.org/records": json: unsupported value: +Inf`)
	require.Zero(t, g.applied)
}

// parts has items that cannot be keys of a map.
type parts struct {
	fail error
	seen []stateful.StateChangeOperations[map[string][]int, stateful.Entry[string, []int]]
	want map[string][]int
	stateful.MapDiff[string, []int]
}

func (*parts) GetStateAnnotationKey() string                         { return annotation }
func (p *parts) ExtractCurrentState(*zone) (map[string][]int, error) { return p.want, nil }
func (p *parts) ApplyOperations(_ context.Context, _ *zone, ops stateful.StateChangeOperations[map[string][]int, stateful.Entry[string, []int]]) error {
	p.seen = append(p.seen, ops)
	return p.fail
}

func TestItemsThatMayExistAreUpdatedInsteadOfAdded(t *testing.T) {
	type entry = stateful.Entry[string, []int]
	var base stateful.BaseStatefulReconciler[*zone, map[string][]int, entry]
	p, z := &parts{}, named("web")

	p.fail = errors.New("half way")
	p.want = map[string][]int{"a": {1}, "gone": {1}}
	require.ErrorIs(t, base.Reconcile(t.Context(), z, p), p.fail)
	p.want = map[string][]int{"a": {2}, "gone": {1}}
	require.ErrorIs(t, base.Reconcile(t.Context(), z, p), p.fail)
	p.fail, p.seen = nil, nil
	p.want = map[string][]int{"a": {3}, "b": {1}}
	require.NoError(t, base.Reconcile(t.Context(), z, p))
	require.Equal(t, []entry{{"b", []int{1}}}, p.seen[0].ItemsToAdd)
	require.Equal(t, []entry{{"a", []int{3}}}, p.seen[0].ItemsToUpdate)
	require.Equal(t, []entry{{"gone", []int{1}}}, p.seen[0].ItemsToRemove)
	require.Equal(t, `{"a":[3],"b":[1]}`, z.Annotations[annotation])

	p.seen = nil
	require.NoError(t, base.Reconcile(t.Context(), z, p))
	require.Empty(t, p.seen, "a success clears the tried states")
}
