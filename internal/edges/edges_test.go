// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package edges_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/edges"
	"github.com/statekeel/statekeel/internal/tests/long"
)

// model is what a set has to know: the look-ups of the last call of each row that did not fail, and of one since.
type model struct {
	good, failed map[string]map[edges.Lookup]bool
}

func (m *model) reads(row string) map[edges.Lookup]bool {
	all := maps.Clone(m.good[row])
	if all == nil {
		all = map[edges.Lookup]bool{}
	}
	maps.Copy(all, m.failed[row])
	return all
}

func TestSetFindsTheRowsOfEachLookup(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, m := edges.New(), model{map[string]map[edges.Lookup]bool{}, map[string]map[edges.Lookup]bool{}}
	var all []edges.Lookup
	for i := range 3 {
		all = append(all, edges.Everything(i), edges.ByKey(i, ""), edges.ByKey(i, "a"), edges.ByKey(i, "b"))
	}
	for range 2000 {
		row := fmt.Sprint(random.IntN(6))
		var what []edges.Lookup
		for range random.IntN(6) {
			what = append(what, all[random.IntN(len(all))])
		}
		set := map[edges.Lookup]bool{}
		for _, one := range what {
			set[one] = true
		}
		switch random.IntN(5) {
		case 0:
			s.Drop(row)
			delete(m.good, row)
			delete(m.failed, row)
		case 1, 2:
			s.Put(row, what, true, nil)
			m.failed[row] = set
		default:
			s.Put(row, what, false, nil)
			m.good[row] = set
			delete(m.failed, row)
		}
		n, whole := 0, 0
		for _, one := range all {
			var want []string
			for r := range 6 {
				if key := fmt.Sprint(r); m.reads(key)[one] {
					want = append(want, key)
				}
			}
			require.Equal(t, want, slices.Sorted(s.Rows(one)))
			n += len(want)
			if _, byKey := one.Key(); !byKey {
				whole += len(want)
			}
		}
		gotN, gotWhole := s.Len()
		require.Equal(t, []int{n, whole}, []int{gotN, gotWhole})
		if r := s.Of(row); r != nil {
			require.Equal(t, len(m.reads(row)), r.Len())
			require.Len(t, r.Lookups(2), min(2, r.Len()))
		} else {
			require.Empty(t, m.reads(row))
		}
	}
}

func TestLookupHasItsInputAndItsKey(t *testing.T) {
	key, is := edges.ByKey(255, "k").Key()
	require.Equal(t, []any{255, "k", true}, []any{edges.ByKey(255, "k").Input(), key, is})
	_, is = edges.Everything(7).Key()
	require.False(t, is)
	require.NotEqual(t, edges.Everything(7), edges.ByKey(7, ""))
	s := edges.New()
	s.Put("x", []edges.Lookup{edges.ByKey(1, "a"), edges.ByKey(2, "a"), edges.Everything(1)}, false, &edges.Cause{Input: 2, Key: "k"})
	s.Put("y", []edges.Lookup{edges.ByKey(2, "a")}, false, nil)
	require.Equal(t, []string{"x", "x"}, slices.Collect(s.RowsOf(1)))
	require.Equal(t, []string{"x", "y"}, slices.Sorted(s.RowsOf(2)))
	require.Equal(t, &edges.Cause{Input: 2, Key: "k"}, s.Of("x").By)
}

// bytes returns the bytes for each of 100,000 rows with a number of look-ups, of which so many rows share each.
func bytes(lookups, share int) float64 {
	const rows = 100_000
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		return float64(mem.HeapAlloc)
	}
	keys := make([]string, rows)
	for i := range keys {
		keys[i] = fmt.Sprintf("%08d", i)
	}
	before := heap()
	s := edges.New()
	for i, key := range keys {
		what := make([]edges.Lookup, 0, lookups)
		for n := range lookups {
			what = append(what, edges.ByKey(n, keys[i/share]))
		}
		s.Put(key, what, false, nil)
	}
	used := (heap() - before) / rows
	runtime.KeepAlive(keys)
	runtime.KeepAlive(s)
	return used
}

func TestLookupCostsAtMostAHundredBytes(t *testing.T) {
	long.Only(t)
	for _, share := range []int{1, 2, 10} {
		one, four := bytes(1, share), bytes(4, share)
		lookup := (four - one) / 3
		t.Logf("%d rows share a look-up: %.0f bytes a look-up, %.0f bytes a row more", share, lookup, one-lookup)
		require.LessOrEqual(t, lookup, 100.0)
		require.LessOrEqual(t, one-lookup, 120.0)
	}
}
