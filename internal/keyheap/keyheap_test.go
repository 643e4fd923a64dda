// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package keyheap

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// item is a thing to be put into a heap, with the priority that it was put in with.
type item struct {
	pos      int
	priority int64
}

func (i *item) HeapPos() int       { return i.pos }
func (i *item) SetHeapPos(pos int) { i.pos = pos }

// requireSound checks that every item knows its place and that none is before its parent.
// It compares by hand: there is much to compare.
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
			require.Fail(t, "an item that was taken out is pinned")
		}
	}
}

// The model is a slice that is sorted before every look at it.
func TestRandomWalkAgreesWithASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Heap[*item]
		var model []*item
		// Few priorities, so that many are equal; and the ends of their range.
		priorities := rapid.OneOf(
			rapid.Int64Range(-3, 3), rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}))
		drop := func(it *item) {
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
				require.Equal(t, -1, it.pos)
				require.Equal(t, model[0].priority, it.priority)
				drop(it)
			},
			"remove": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("empty")
				}
				it := model[rapid.IntRange(0, len(model)-1).Draw(t, "which")]
				h.Remove(it)
				require.Equal(t, -1, it.pos)
				drop(it)
			},
			"put in again": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip("empty")
				}
				it := model[rapid.IntRange(0, len(model)-1).Draw(t, "which")]
				h.Remove(it)
				it.priority = priorities.Draw(t, "priority")
				h.Push(it, it.priority)
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
			},
		})
	})
}

// Large enough for many levels, and for memory to be given back on the way.
func TestEverythingComesOutInOrder(t *testing.T) {
	const n = 20_000
	random := rand.New(rand.NewPCG(1, 2))
	var h Heap[*item]
	items := make([]*item, n)
	for i := range items {
		items[i] = &item{pos: -1, priority: random.Int64N(n)}
		h.Push(items[i], items[i].priority)
	}
	requireSound(t, &h)
	random.Shuffle(n, func(i, j int) { items[i], items[j] = items[j], items[i] })
	for i, it := range items[:n/2] {
		h.Remove(it)
		if i%1000 == 0 {
			requireSound(t, &h)
		}
	}
	want := make([]int64, 0, n/2)
	for _, it := range items[n/2:] {
		want = append(want, it.priority)
	}
	slices.Sort(want)
	got := make([]int64, 0, n/2)
	for h.Len() > 0 {
		got = append(got, h.Pop().priority)
		if len(got)%1000 == 0 {
			requireSound(t, &h)
		}
	}
	require.Equal(t, want, got)
}

func TestMemoryIsGivenBackAfterACrowdHasLeft(t *testing.T) {
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

// A crowd that comes and goes around a size must not make every step a copy.
func TestAFewInAndOutAllocateNothing(t *testing.T) {
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

// BenchmarkPopPush is what a retry costs the heap: the first leaves, and comes back as the
// last but a few.
func BenchmarkPopPush(b *testing.B) {
	for _, size := range []int{1000, 100_000, 1_000_000} {
		b.Run(sizes[size], func(b *testing.B) {
			var h Heap[*item]
			for i := range size {
				h.Push(&item{}, int64(i))
			}
			next := int64(size)
			for b.Loop() {
				h.Push(h.Pop(), next)
				next++
			}
		})
	}
}

var sizes = map[int]string{1000: "1k", 100_000: "100k", 1_000_000: "1M"}
