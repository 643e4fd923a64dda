// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler"
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
		{"repeated", []string{"a", "a"}, []string{"b", "b", "b"}, changes{ItemsToAdd: []string{"b"}, ItemsToRemove: []string{"a"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ops, err := stateful.SetDiff[string]{}.CompareStates(test.previous, test.current)
			require.NoError(t, err)
			require.Equal(t, test.want, ops)
			require.Equal(t, test.want.ItemsToAdd == nil && test.want.ItemsToRemove == nil, ops.IsEmpty())
		})
	}
}

func TestKeyDiffIsSorted(t *testing.T) {
	type keys = map[netip.Addr]struct{}
	addr := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{n}) }
	ops, err := stateful.KeyDiff[netip.Addr]{}.CompareStates(
		keys{addr(9): {}, addr(100): {}, addr(1): {}},
		keys{addr(1): {}, addr(20): {}, addr(3): {}})
	require.NoError(t, err)
	require.Equal(t, []netip.Addr{addr(3), addr(20)}, ops.ItemsToAdd)
	require.Equal(t, []netip.Addr{addr(9), addr(100)}, ops.ItemsToRemove)
	require.Empty(t, ops.ItemsToUpdate)
}

func TestKeysOfEveryKindAreSorted(t *testing.T) {
	type pair struct{ A, B int }
	type name string
	requireOrder(t, -2, 1, 10)
	requireOrder[uint8](t, 2, 10, 200)
	requireOrder[name](t, "a", "aa", "b")
	requireOrder(t, pair{1, 2}, pair{1, 3}, pair{2, 0})
}

func requireOrder[Key comparable](t *testing.T, keys ...Key) {
	t.Helper()
	state := map[Key]struct{}{}
	for _, key := range slices.Backward(keys) {
		state[key] = struct{}{}
	}
	ops, err := stateful.KeyDiff[Key]{}.CompareStates(nil, state)
	require.NoError(t, err)
	require.Equal(t, keys, ops.ItemsToAdd)
	ops, err = stateful.KeyDiff[Key]{}.CompareStates(state, nil)
	require.NoError(t, err)
	require.Equal(t, keys, ops.ItemsToRemove)
}

func TestMapDiff(t *testing.T) {
	type entry = stateful.Entry[string, []int]
	previous := map[string][]int{"same": {1}, "changed": {1}, "gone": {2}, "away": {3}}
	current := map[string][]int{"same": {1}, "changed": {1, 2}, "new": {4}, "fresh": nil}

	ops, err := stateful.MapDiff[string, []int]{}.CompareStates(previous, current)
	require.NoError(t, err)
	require.Equal(t, []entry{{"fresh", nil}, {"new", []int{4}}}, ops.ItemsToAdd)
	require.Equal(t, []entry{{"away", []int{3}}, {"gone", []int{2}}}, ops.ItemsToRemove)
	require.Equal(t, []entry{{"changed", []int{1, 2}}}, ops.ItemsToUpdate)
	require.False(t, ops.ContextChanged)
}

func TestMapDiffComparesWithEqual(t *testing.T) {
	sameLength := stateful.MapDiff[string, []int]{Equal: func(a, b []int) bool { return len(a) == len(b) }}
	ops, err := sameLength.CompareStates(map[string][]int{"a": {1}, "b": {1}}, map[string][]int{"a": {2}, "b": {1, 2}})
	require.NoError(t, err)
	require.Equal(t, []stateful.Entry[string, []int]{{"b", []int{1, 2}}}, ops.ItemsToUpdate)
}

func TestChangesAsJSON(t *testing.T) {
	text, err := json.Marshal(changes{})
	require.NoError(t, err)
	require.Equal(t, "{}", string(text))
	text, err = json.Marshal(changes{
		ItemsToAdd: []string{"a"}, ItemsToRemove: []string{"b"}, ItemsToUpdate: []string{"c"},
		ContextChanged: true, PreviousContext: []string{"d"},
	})
	require.NoError(t, err)
	require.Equal(t, `{"itemsToAdd":["a"],"itemsToRemove":["b"],"itemsToUpdate":["c"],"contextChanged":true,"previousContext":["d"]}`, string(text))
}

// BenchmarkOverhead measures the cost of an update without the costs of extracting and applying,
// for a new object, one with a changed state, and one with the same state.
func BenchmarkOverhead(b *testing.B) {
	records := func(n int) [][]string {
		out := make([][]string, 2)
		for i := range n {
			out[0] = append(out[0], fmt.Sprintf("192.0.2.%d", i))
			out[1] = append(out[1], fmt.Sprintf("192.0.2.%d", i+1))
		}
		return out
	}
	for _, n := range []int{1, 3, 30} {
		states := records(n)
		b.Run(fmt.Sprintf("new/items=%d", n), func(b *testing.B) {
			bare := newBare(b)
			zones := make([]*zone, b.N)
			for i := range zones {
				zones[i] = named(fmt.Sprintf("zone%d", i), states[0]...)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for _, z := range zones {
				if err := bare.Update(b.Context(), nil, 0, z); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("changed/items=%d", n), func(b *testing.B) {
			bare, z := newBare(b), named("web")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				z.Records = states[i%2]
				if err := bare.Update(b.Context(), nil, 0, z); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("same/items=%d", n), func(b *testing.B) {
			bare, z := newBare(b), named("web", states[0]...)
			b.ReportAllocs()
			for b.Loop() {
				if err := bare.Update(b.Context(), nil, 0, z); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAnUnchangedStateDoesNotAllocate(t *testing.T) {
	ops, z := newBare(t), named("web", "a", "b", "c")
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := ops.Update(ctx, nil, 0, z); err != nil {
			t.Error(err)
		}
	}))
}

func newBare(tb testing.TB) reconciler.Operations[*zone] {
	cfg, err := stateful.Configure(reconciler.Config[*zone]{
		Clone: (*zone).Clone, SetStatus: (*zone).SetStatus, GetStatus: (*zone).GetStatus,
	}, bare{})
	require.NoError(tb, err)
	return cfg.Operations
}

// bare has a target that already has everything.
type bare struct{ stateful.SetDiff[string] }

func (bare) GetStateAnnotationKey() string                         { return annotation }
func (bare) ExtractCurrentState(z *zone) ([]string, error)         { return z.Records, nil }
func (bare) ApplyOperations(context.Context, *zone, changes) error { return nil }

func TestTheBaseLogsUnreadableAnnotations(t *testing.T) {
	log := &testlog.Buffer{}
	for _, logger := range []*slog.Logger{nil, slog.New(slog.NewTextHandler(log, nil))} {
		base := stateful.BaseStatefulReconciler[*zone, []string, string]{Logger: logger}
		s, z := newServer(), named("web", "a")
		z.SetAnnotation(annotation, "?")
		require.NoError(t, base.Reconcile(t.Context(), z, s))
		require.Equal(t, []changes{adds("a")}, s.take())
		require.Equal(t, `["a"]`, z.Annotations[annotation])
		require.Equal(t, logger != nil, log.String() != "")
	}
}

// reconciled is a generic helper as a program may have it, for any resource type.
func reconciled[T stateful.StatefulResource, State, Item any](ctx context.Context, resource T, impl stateful.StatefulReconciler[T, State, Item]) (string, error) {
	err := stateful.NewBaseStatefulReconciler[T, State, Item](nil).Reconcile(ctx, resource, impl)
	return resource.GetAnnotations()[impl.GetStateAnnotationKey()], err
}

func TestGenericHelpersCompile(t *testing.T) {
	text, err := reconciled(t.Context(), named("web", "a"), impl(newServer()))
	require.NoError(t, err)
	require.Equal(t, `["a"]`, text)
}

func TestObjectsInDifferentNamespacesAreDistinct(t *testing.T) {
	var base stateful.BaseStatefulReconciler[*zone, []string, string]
	s := newServer()
	for _, namespace := range []string{"one", "two"} {
		z := named("web", "a")
		z.Namespace = namespace
		require.NoError(t, base.Reconcile(t.Context(), z, s))
	}
	require.Equal(t, []changes{adds("a"), adds("a")}, s.take())
}
