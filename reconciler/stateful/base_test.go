// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/stateful"
)

// newBase is generic, as helpers of programs may be.
func newBase[T stateful.StatefulResource](log *slog.Logger) *stateful.BaseStatefulReconciler[T, []string, string] {
	return stateful.NewBaseStatefulReconciler[T, []string, string](log)
}

func TestTheBaseReconcilesWithoutALoop(t *testing.T) {
	log := &testlog.Buffer{}
	r := newBase[*zone](slog.New(slog.NewTextHandler(log, nil)))
	s, z := newServer(), named("web", "a", "b")
	require.NoError(t, r.Reconcile(t.Context(), z, s))
	require.Equal(t, `["a","b"]`, z.Annotations[annotation])

	next := z.Clone()
	next.Records = []string{"b"}
	require.NoError(t, r.Reconcile(t.Context(), next, s))
	require.Equal(t, []changes{adds("a", "b"), removes("a")}, s.take())
	require.Equal(t, `["a","b"]`, z.Annotations[annotation], "the previous version is unchanged")

	other := named("web", "c")
	other.Namespace = "other"
	require.NoError(t, r.Reconcile(t.Context(), other, s))
	require.Equal(t, []changes{adds("c")}, s.take(), "another namespace, so another object")
	require.NoError(t, r.Remove(t.Context(), next, s))
	require.Equal(t, []string{"c"}, s.has("web"))
	require.Equal(t, `["b"]`, next.Annotations[annotation], "a deleted resource is not changed")
	require.Empty(t, log.String())

	for _, r.Logger = range []*slog.Logger{r.Logger, nil} {
		z := named("mail", "a")
		z.SetAnnotation(annotation, "?")
		require.NoError(t, r.Reconcile(t.Context(), z, s))
		require.Equal(t, `["a"]`, z.Annotations[annotation])
		require.Equal(t, 1, strings.Count(log.String(), "treating an annotation"))
		require.NoError(t, r.Remove(t.Context(), z, s))
	}
}

func TestHasStateChanged(t *testing.T) {
	var r stateful.BaseStatefulReconciler[*zone, any, string]
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
			require.Equal(t, test.want, r.HasStateChanged(test.previous, test.current))
		})
	}
}

func TestUpdateAnnotation(t *testing.T) {
	var r stateful.BaseStatefulReconciler[*zone, any, string]
	z := named("web")
	require.NoError(t, r.UpdateAnnotation(z, "key", []string{"a"}))
	require.Equal(t, map[string]string{"key": `["a"]`}, z.Annotations)

	before := z.Annotations
	require.NoError(t, r.UpdateAnnotation(z, "key", []string{"a"}))
	before["probe"] = ""
	require.Contains(t, z.Annotations, "probe", "the map was not copied")

	require.EqualError(t, r.UpdateAnnotation(z, "key", math.NaN()), `annotation "key": json: unsupported value: NaN`)
	require.Equal(t, `["a"]`, z.Annotations["key"])
}

// parts has a map as its state, and a target that keeps the value of an item that is added twice.
type parts[V any] struct {
	fail  error
	calls int
	want  map[string]V
	has   map[string]V
	stateful.MapDiff[string, V]
}

func (*parts[V]) GetStateAnnotationKey() string                     { return annotation }
func (p *parts[V]) ExtractCurrentState(*zone) (map[string]V, error) { return p.want, nil }
func (p *parts[V]) ApplyOperations(
	_ context.Context, _ *zone, ops stateful.StateChangeOperations[map[string]V, stateful.Entry[string, V]],
) error {
	p.calls++
	for _, item := range ops.ItemsToAdd {
		if _, found := p.has[item.Key]; !found {
			p.has[item.Key] = item.Value
		}
	}
	for _, item := range ops.ItemsToUpdate {
		p.has[item.Key] = item.Value
	}
	for _, item := range ops.ItemsToRemove {
		delete(p.has, item.Key)
	}
	return p.fail
}

// An item may have been added with another value: adding it again would keep that.
func TestItemsThatMayExistAreUpdatedToo(t *testing.T) {
	itemsAreUpdated(t, func(n int) int { return n })
	itemsAreUpdated(t, func(n int) []int { return []int{n} }) // cannot be the key of a map
}

func itemsAreUpdated[V any](t *testing.T, v func(n int) V) {
	var r stateful.BaseStatefulReconciler[*zone, map[string]V, stateful.Entry[string, V]]
	p, z := &parts[V]{has: map[string]V{}}, named("web")

	p.fail = errors.New("half way")
	p.want = map[string]V{"a": v(1), "gone": v(1)}
	require.ErrorIs(t, r.Reconcile(t.Context(), z, p), p.fail)
	p.want = map[string]V{"a": v(2), "gone": v(1)}
	require.ErrorIs(t, r.Reconcile(t.Context(), z, p), p.fail)
	p.fail = nil
	p.want = map[string]V{"a": v(3), "b": v(1)}
	require.NoError(t, r.Reconcile(t.Context(), z, p))
	require.Equal(t, p.want, p.has)
	require.NotEmpty(t, z.Annotations[annotation])

	calls := p.calls
	require.NoError(t, r.Reconcile(t.Context(), z, p))
	require.Equal(t, calls, p.calls, "a success clears the tried states")
}

func TestSetDiff(t *testing.T) {
	for _, test := range []struct {
		name              string
		previous, current []string
		want              changes
	}{
		{"nothing and nothing", nil, nil, changes{}},
		{"nothing and empty", nil, []string{}, changes{}},
		{"first", nil, []string{"b", "a"}, adds("b", "a")},
		{"last", []string{"b", "a"}, nil, removes("b", "a")},
		{"another order", []string{"a", "b"}, []string{"b", "a"}, changes{}},
		{"repeated", []string{"a", "a"}, []string{"b", "b", "b"},
			changes{ItemsToAdd: []string{"b"}, ItemsToRemove: []string{"a"}}},
	} {
		for _, common := range []string{"", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} { // many items are compared in another way
			t.Run(test.name+common, func(t *testing.T) {
				both := strings.Split(common, "")
				ops, err := stateful.SetDiff[string]{}.CompareStates(append(both, test.previous...), append(both, test.current...))
				require.NoError(t, err)
				require.Equal(t, test.want, ops)
				require.Equal(t, test.want.ItemsToAdd == nil && test.want.ItemsToRemove == nil, ops.IsEmpty())
			})
		}
	}
}

func TestMapDiffIsSorted(t *testing.T) {
	type pair struct{ A, B int }
	type name string
	addr := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{n}) }
	requireOrder(t, -2, 1, 10)
	requireOrder[uint8](t, 2, 10, 200)
	requireOrder[name](t, "a", "aa", "b")
	requireOrder(t, pair{1, 2}, pair{1, 3}, pair{2, 0})
	requireOrder(t, addr(3), addr(20), addr(100))
}

func requireOrder[Key comparable](t *testing.T, keys ...Key) {
	t.Helper()
	var none Key
	nothing, state := map[Key]struct{}{none: {}}, map[Key]struct{}{none: {}}
	for _, key := range slices.Backward(keys) {
		state[key] = struct{}{}
	}
	type entry = stateful.Entry[Key, struct{}]
	var entries []entry
	for _, key := range keys {
		entries = append(entries, entry{Key: key})
	}
	ops, err := stateful.MapDiff[Key, struct{}]{}.CompareStates(nothing, state)
	require.NoError(t, err)
	require.Equal(t, stateful.StateChangeOperations[map[Key]struct{}, entry]{ItemsToAdd: entries}, ops)
	ops, err = stateful.MapDiff[Key, struct{}]{}.CompareStates(state, nothing)
	require.NoError(t, err)
	require.Equal(t, stateful.StateChangeOperations[map[Key]struct{}, entry]{ItemsToRemove: entries}, ops)
}

func TestMapDiff(t *testing.T) {
	type entry = stateful.Entry[string, []int]
	previous := map[string][]int{"same": {1}, "changed": {1}, "gone": {2}, "away": {3}}
	current := map[string][]int{"same": {1}, "changed": {2}, "new": {4}, "fresh": nil}

	ops, err := stateful.MapDiff[string, []int]{}.CompareStates(previous, current)
	require.NoError(t, err)
	require.Equal(t, []entry{{"fresh", nil}, {"new", []int{4}}}, ops.ItemsToAdd)
	require.Equal(t, []entry{{"away", []int{3}}, {"gone", []int{2}}}, ops.ItemsToRemove)
	require.Equal(t, []entry{{"changed", []int{2}}}, ops.ItemsToUpdate)
	require.False(t, ops.ContextChanged)

	sameLength := stateful.MapDiff[string, []int]{Equal: func(a, b []int) bool { return len(a) == len(b) }}
	ops, err = sameLength.CompareStates(previous, current)
	require.NoError(t, err)
	require.Empty(t, ops.ItemsToUpdate)
}

func TestChangesAsJSON(t *testing.T) {
	for want, ops := range map[string]changes{
		`{}`: {},
		`{"itemsToAdd":["a"],"itemsToRemove":["b"],"itemsToUpdate":["c"],"contextChanged":true,"previousContext":["d"]}`: {
			ItemsToAdd: []string{"a"}, ItemsToRemove: []string{"b"}, ItemsToUpdate: []string{"c"},
			ContextChanged: true, PreviousContext: []string{"d"},
		},
	} {
		text, err := json.Marshal(ops)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

func TestAnUnchangedStateDoesNotAllocate(t *testing.T) {
	var r base
	s, z, ctx := newServer(), named("web", "a", "b", "c"), t.Context()
	require.NoError(t, r.Reconcile(ctx, z, s))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := r.Reconcile(ctx, z, s); err != nil {
			t.Error(err)
		}
	}))
}
