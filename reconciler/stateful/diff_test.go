// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stateful_test

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/stateful"
)

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
