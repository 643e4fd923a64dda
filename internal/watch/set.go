// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package watch waits for many channels to close, at a low cost. A channel costs less than 500 bytes,
// while a goroutine for each would cost 2,700. Channels that close together are reported together.
//
// A [Set] has goroutines that each wait for up to 31 channels. They call a function of the set's
// owner when channels have closed, and the owner takes the channels when it is ready.
package watch

import (
	"slices"
	"sync"
)

// perChunk is the number of channels that one goroutine waits for. Twice as many would save an eighth
// of the memory and double the time for one closing, which is about 2 us: the goroutine then starts
// over with all its channels. With the channel that wakes the
// goroutine it is a power of two, to which slices grow.
const perChunk = 31

// Set waits for channels to close. Each channel is added with a value of the caller, and is reported
// exactly once when it closes, unless it is removed or the set is stopped before [Set.Take] has
// returned it. A removed channel is never returned. A channel may be added several times: each time
// is a separate wait. A channel that never closes, such as a nil channel, costs its memory until it
// is removed.
//
// A value that is received from a channel counts as its closing. But if it is sent while a wait for
// the channel is removed, other waits for the same channel may miss it.
//
// The methods are safe from any goroutine. Only Stop blocks.
type Set[T any] struct {
	notify   func()
	perChunk int
	wg       sync.WaitGroup

	mu sync.Mutex
	// closed has the waits for Take to return.
	closed []*Wait[T]
	// open is the chunk for new channels; nil if there is none. All other chunks are more than a
	// quarter full.
	open    *chunk[T]
	chunks  map[*chunk[T]]struct{}
	stopped bool
}

// Wait is the wait for one channel of a set, until it is taken or removed.
type Wait[T any] struct {
	// Value is the value that the channel was added with. The set does not use it.
	Value T

	ch <-chan struct{}
	// chunk is the chunk that waits for the channel; nil if none does. closed: the wait is in Set.closed.
	chunk  *chunk[T]
	closed bool
}

// Channel returns the channel. It is safe from any goroutine.
func (w *Wait[T]) Channel() <-chan struct{} { return w.ch }

// New returns a set without channels. It has no goroutine until a channel is added. Goroutines of the
// set call notify when there is something to take, one or more times for channels that close
// together. notify must not block and must not call Stop. It may be called late, when nothing is left
// to take.
func New[T any](notify func()) *Set[T] {
	return &Set[T]{notify: notify, perChunk: perChunk, chunks: map[*chunk[T]]struct{}{}}
}

// Add begins to wait for a channel, which may already be closed. After Stop, the wait is never
// reported.
func (s *Set[T]) Add(ch <-chan struct{}, value T) *Wait[T] {
	w := &Wait[T]{Value: value, ch: ch}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return w
	}
	if s.open == nil || len(s.open.members) == s.perChunk {
		s.open = &chunk[T]{set: s, wake: make(chan struct{}, 1)}
		s.chunks[s.open] = struct{}{}
		s.wg.Go(s.open.run)
	}
	s.open.add(w)
	return w
}

// Remove ends a wait. It does nothing if the wait was taken or removed before.
func (s *Set[T]) Remove(w *Wait[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.closed = false
	if w.chunk != nil {
		w.chunk.remove(w)
	}
}

// Take returns the waits whose channels have closed, in no particular order, and ends
// them. It returns nil if there are none.
func (s *Set[T]) Take() []*Wait[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := slices.DeleteFunc(s.closed, func(w *Wait[T]) bool { return !w.closed })
	s.closed = nil
	if len(taken) == 0 {
		return nil
	}
	for _, w := range taken {
		w.closed = false
	}
	return taken
}

// Stop ends the goroutines of the set, and waits for them. Channels that close later are not
// reported. It may be called again.
func (s *Set[T]) Stop() {
	s.mu.Lock()
	s.stopped = true
	for c := range s.chunks {
		c.poke()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// few reports whether so few channels of a chunk are left that it may have to give them to another.
func (s *Set[T]) few(live int) bool { return 4*live <= s.perChunk }

// merge bounds the number of goroutines. A chunk with few channels gives them to the open chunk, and merge
// returns true. If they do not fit, it becomes the open chunk. So n channels need at most 1 + 4n/perChunk
// goroutines, whichever of them close. The caller holds mu, and the chunk has no removed members.
func (s *Set[T]) merge(c *chunk[T]) bool {
	switch {
	case c == s.open || !s.few(c.live):
		return false
	case s.open == nil || len(s.open.members)+c.live > s.perChunk:
		s.open = c
		return false
	}
	for _, w := range c.members {
		s.open.add(w)
	}
	return true
}
