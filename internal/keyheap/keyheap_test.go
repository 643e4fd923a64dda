// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package keyheap

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// item is an item with the priority that it was added with.
type item struct {
	pos      int
	priority int64
}

func (i *item) HeapPos() int       { return i.pos }
func (i *item) SetHeapPos(pos int) { i.pos = pos }

// requireSound checks that every item has its position and that none is before its parent. It
// compares without require, which would be slow for so many items.
func requireSound(t require.TestingT, h *Heap[*item]) {
	for i, s := range h.slots {
		if s.item.pos != i || s.item.priority != s.priority {
			require.Fail(t, "wrong slot", "item %+v in slot %d with priority %d", *s.item, i, s.priority)
		}
		if parent := (i - 1) / arity; i > 0 && h.slots[parent].priority > s.priority {
			require.Fail(t, "out of order", "%d in slot %d, below %d", s.priority, i, h.slots[parent].priority)
		}
	}
	for _, s := range h.slots[len(h.slots):cap(h.slots)] {
		if s.item != nil {
			require.Fail(t, "the heap still refers to a removed item")
		}
	}
}

// The model is a slice that is sorted before each comparison.
func TestRandomWalkAgreesWithASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Heap[*item]
		var model []*item
		// Few priorities, so that many are equal, and the ends of their range.
		priorities := rapid.OneOf(
			rapid.Int64Range(-3, 3), rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}))
		drop := func(it *item) {
			require.Equal(t, -1, it.pos)
			model = slices.DeleteFunc(model, func(other *item) bool { return other == it })
		}
		push := func(t *rapid.T) {
			it := &item{pos: -1, priority: priorities.Draw(t, "priority")}
			h.Push(it, it.priority)
			model = append(model, it)
		}
		t.Repeat(map[string]func(*rapid.T){
			"push":       push,
			"push again": push,
			"pop": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("empty")
				}
				it := h.Pop()
				require.Equal(t, model[0].priority, it.priority)
				drop(it)
			},
			"remove": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("empty")
				}
				it := model[rapid.IntRange(0, len(model)-1).Draw(t, "which")]
				h.Remove(it)
				drop(it)
			},
			"": func(t *rapid.T) {
				slices.SortFunc(model, func(a, b *item) int { return cmp.Compare(a.priority, b.priority) })
				requireSound(t, &h)
				require.Equal(t, len(model), h.Len())
				first, priority, ok := h.Min()
				require.Equal(t, len(model) > 0, ok)
				if ok {
					require.Equal(t, model[0].priority, priority)
					require.Zero(t, first.pos)
					require.Contains(t, model, first)
				} else {
					require.Nil(t, first)
					require.Zero(t, priority)
				}
				requireCounts(t, &h, model, priorities.Draw(t, "up to"), rapid.IntRange(-1, 9).Draw(t, "limit"))
				requireAscends(t, &h, model, rapid.IntRange(1, 9).Draw(t, "first"))
				requireSound(t, &h)
			},
		})
	})
}

// requireCounts checks the number of items with at most a priority.
func requireCounts(t require.TestingT, h *Heap[*item], model []*item, priority int64, limit int) {
	n := 0
	for _, it := range model {
		if it.priority <= priority {
			n++
		}
	}
	require.Equal(t, n, h.CountUpTo(priority, math.MaxInt), "items up to %d", priority)
	require.Equal(t, max(0, min(n, limit)), h.CountUpTo(priority, limit), "items up to %d, at most %d", priority, limit)
}

// requireAscends checks that AscendFrom yields the first items of the sorted model, in order of priority,
// each once.
func requireAscends(t require.TestingT, h *Heap[*item], model []*item, first int) {
	var priorities, want []int64
	seen := map[*item]bool{}
	h.AscendFrom(math.MinInt64, func(it *item, priority int64) bool {
		require.Equal(t, it.priority, priority)
		require.False(t, seen[it], "yielded twice")
		seen[it] = true
		priorities = append(priorities, priority)
		return true
	})
	for _, it := range model {
		want = append(want, it.priority)
	}
	require.Equal(t, want, priorities)
	n := 0
	h.AscendFrom(math.MinInt64, func(*item, int64) bool {
		n++
		return n < first
	})
	require.Equal(t, min(first, len(model)), n, "yielded items")
	if len(model) == 0 {
		return
	}
	chosen := model[first%len(model)].priority
	for _, from := range []int64{chosen, chosen + 1} {
		var got []int64
		h.AscendFrom(from, func(_ *item, priority int64) bool {
			got = append(got, priority)
			return true
		})
		below, _ := slices.BinarySearch(want, from)
		require.Equal(t, append([]int64(nil), want[below:]...), got, "items from %d on", from)
	}
}

func TestMemoryIsReleasedAfterMostItemsAreRemoved(t *testing.T) {
	const crowd = 100_000
	for name, out := range map[string]func(h *Heap[*item], items []*item){
		"by Pop":    func(h *Heap[*item], _ []*item) { h.Pop() },
		"by Remove": func(h *Heap[*item], items []*item) { h.Remove(items[h.Len()-1]) },
	} {
		t.Run(name, func(t *testing.T) {
			var h Heap[*item]
			items := make([]*item, crowd)
			for i := range items {
				items[i] = &item{pos: -1, priority: int64(-i)}
				h.Push(items[i], items[i].priority)
			}
			for h.Len() > 0 {
				out(&h, items)
				if cap(h.slots) > max(minCap, 4*(h.Len()+1)) {
					require.Fail(t, "memory is kept", "for %d items, with %d left", cap(h.slots), h.Len())
				}
			}
			require.LessOrEqual(t, cap(h.slots), minCap)
		})
	}
}

// Adding and removing a few items around any size must not copy the heap each time.
func TestAddingAndRemovingAFewAllocatesNothing(t *testing.T) {
	for _, size := range []int{0, 1, minCap/4 - 1, minCap / 4, minCap, 5000, 10_000} {
		var h Heap[*item]
		for i := range 4 * size {
			h.Push(&item{priority: int64(-i)}, int64(-i))
		}
		for h.Len() > size {
			h.Pop()
		}
		extra := make([]item, 8)
		bounce := func() {
			for i := range extra {
				extra[i].priority = int64(i)
				h.Push(&extra[i], int64(i))
			}
			for i := range extra {
				h.Remove(&extra[i])
			}
		}
		bounce()
		bounce()
		require.Zero(t, testing.AllocsPerRun(10, bounce), "size %d", size)
	}
}
