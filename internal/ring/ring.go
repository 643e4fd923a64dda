// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package ring keeps the latest of a sequence of values.
package ring

// Ring holds the last values that were added, up to its size. The number of a value is its place in
// the whole sequence, counted from zero. It is not safe for concurrent use.
type Ring[T any] struct {
	slots []T
	added uint64
}

// New returns a ring of a size. A ring of size zero keeps nothing.
func New[T any](size int) *Ring[T] { return &Ring[T]{slots: make([]T, size)} }

// Next adds a value and returns its slot, for the caller to fill before the next call of any method.
// The slot still holds the value that it replaces. Next returns nil if the ring keeps nothing.
func (r *Ring[T]) Next() *T {
	r.added++
	if len(r.slots) == 0 {
		return nil
	}
	return &r.slots[(r.added-1)%uint64(len(r.slots))]
}

// Added returns how many values were added, which is the number of the next one.
func (r *Ring[T]) Added() uint64 { return r.added }

// First returns the number of the oldest value that the ring holds; the number of the next value if
// it holds none.
func (r *Ring[T]) First() uint64 { return r.added - min(r.added, uint64(len(r.slots))) }

// At returns the value with a number, from First to below Added.
func (r *Ring[T]) At(number uint64) T { return r.slots[number%uint64(len(r.slots))] }
