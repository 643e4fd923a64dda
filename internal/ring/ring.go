// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package ring keeps the latest of a sequence of values.
package ring

// Ring holds the last values that were added, up to its size. Each value has a number,
// counted from zero, that tells its place in the whole sequence. Not safe for
// concurrent use.
type Ring[T any] struct {
	slots []T
	added uint64
}

// New returns a ring of the given size; one of size zero keeps nothing.
func New[T any](size int) *Ring[T] { return &Ring[T]{slots: make([]T, size)} }

// Next makes room for one more value and returns its slot, which still holds the value
// that it displaces; nil if the ring keeps nothing. The slot is to be filled before
// the next call of any method.
func (r *Ring[T]) Next() *T {
	r.added++
	if len(r.slots) == 0 {
		return nil
	}
	return &r.slots[(r.added-1)%uint64(len(r.slots))]
}

// Added returns how many values have been added: the number of the next one.
func (r *Ring[T]) Added() uint64 { return r.added }

// First returns the number of the oldest value that is still held.
func (r *Ring[T]) First() uint64 { return r.added - min(r.added, uint64(len(r.slots))) }

// At returns the value with a number between First and Added.
func (r *Ring[T]) At(number uint64) T { return r.slots[number%uint64(len(r.slots))] }
