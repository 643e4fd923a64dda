// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package keyheap is a priority queue whose items store their positions, so that any item can be
// removed, not only the first.
package keyheap

// Item is an element of a Heap. The heap sets its position; -1 means that the item is in no heap.
type Item interface {
	comparable
	HeapPos() int
	SetHeapPos(int)
}

// Heap is a 4-ary min-heap. A slot has the priority beside the item, so that comparisons do not
// follow pointers. The zero Heap is empty and ready for use. It is not safe for concurrent use.
//
// Push, Remove and Pop are O(log n), Min is O(1).
type Heap[T Item] struct {
	slots []slot[T]
}

type slot[T Item] struct {
	priority int64
	item     T
}

const (
	arity = 4
	// minCap is the capacity up to which memory is never released.
	minCap = 1024
)

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.slots) }

// Min returns the lowest priority and its item; ok is false if the heap is empty.
func (h *Heap[T]) Min() (item T, priority int64, ok bool) {
	if len(h.slots) == 0 {
		return item, 0, false
	}
	return h.slots[0].item, h.slots[0].priority, true
}

// CountUpTo returns the number of items with a priority of at most priority, but no more than limit.
// It is O(limit).
func (h *Heap[T]) CountUpTo(priority int64, limit int) int {
	return h.count(0, priority, limit)
}

func (h *Heap[T]) count(at int, priority int64, limit int) int {
	if limit <= 0 || at >= len(h.slots) || h.slots[at].priority > priority {
		return 0
	}
	n := 1
	for child := at*arity + 1; child <= at*arity+arity && n < limit; child++ {
		n += h.count(child, priority, limit-n)
	}
	return n
}

// AscendFrom calls yield with the items that have at least a priority, the lowest first, until yield returns
// false. The heap must not change meanwhile. It is O(k log k) for the first k items, and compares the priority of each item
// below, which takes some nanoseconds.
func (h *Heap[T]) AscendFrom(priority int64, yield func(item T, priority int64) bool) {
	var next Heap[cursor]
	h.pushFrom(&next, 0, priority)
	for next.Len() > 0 {
		at := int(next.Pop())
		if !yield(h.slots[at].item, h.slots[at].priority) {
			return
		}
		for child := at*arity + 1; child <= at*arity+arity && child < len(h.slots); child++ {
			next.Push(cursor(child), h.slots[child].priority)
		}
	}
}

// pushFrom pushes the first slot at or below the one at a position, on each way down, that has at least the
// given priority.
func (h *Heap[T]) pushFrom(next *Heap[cursor], at int, priority int64) {
	if at >= len(h.slots) {
		return
	}
	if p := h.slots[at].priority; p >= priority {
		next.Push(cursor(at), p)
		return
	}
	for child := at*arity + 1; child <= at*arity+arity; child++ {
		h.pushFrom(next, child, priority)
	}
}

// cursor is the position of a slot that AscendFrom has not visited yet. Only the first of a heap of cursors
// is removed, so they need not know their positions in it.
type cursor int

func (cursor) HeapPos() int   { return 0 }
func (cursor) SetHeapPos(int) {}

// Push adds an item that is in no heap.
func (h *Heap[T]) Push(item T, priority int64) {
	h.slots = append(h.slots, slot[T]{priority, item})
	h.up(len(h.slots) - 1)
}

// Pop removes and returns the item with the lowest priority. The heap must not be empty.
func (h *Heap[T]) Pop() T {
	item := h.slots[0].item
	h.Remove(item)
	return item
}

// Remove removes an item, which must be in this heap.
func (h *Heap[T]) Remove(item T) {
	i, last := item.HeapPos(), len(h.slots)-1
	moved := h.slots[last]
	h.slots[last] = slot[T]{}
	h.slots = h.slots[:last]
	item.SetHeapPos(-1)
	if i != last {
		h.slots[i] = moved
		if !h.up(i) {
			h.down(i)
		}
	}
	h.shrink()
}

// shrink releases memory after most items were removed.
func (h *Heap[T]) shrink() {
	if cap(h.slots) > minCap && len(h.slots) < cap(h.slots)/4 {
		h.slots = append(make([]slot[T], 0, cap(h.slots)/2), h.slots...)
	}
}

// up moves the slot at i towards the root and reports whether it moved.
func (h *Heap[T]) up(i int) bool {
	s, start := h.slots[i], i
	for i > 0 {
		parent := (i - 1) / arity
		if h.slots[parent].priority <= s.priority {
			break
		}
		h.place(i, h.slots[parent])
		i = parent
	}
	h.place(i, s)
	return i != start
}

func (h *Heap[T]) down(i int) {
	s := h.slots[i]
	for {
		first := i*arity + 1
		if first >= len(h.slots) {
			break
		}
		least := first
		for c := first + 1; c < min(first+arity, len(h.slots)); c++ {
			if h.slots[c].priority < h.slots[least].priority {
				least = c
			}
		}
		if h.slots[least].priority >= s.priority {
			break
		}
		h.place(i, h.slots[least])
		i = least
	}
	h.place(i, s)
}

func (h *Heap[T]) place(i int, s slot[T]) {
	h.slots[i] = s
	s.item.SetHeapPos(i)
}
