// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package watch waits for many channels to close, at a low cost. A channel costs less than 500 bytes,
// while a goroutine for each would cost 2,700. Channels that close together are reported together.
//
// A [Set] has goroutines that each wait for up to 31 channels. They call a function of the set's
// owner when channels have closed, and the owner takes the channels when it is ready.
package watch

import "sync"

// perChunk is the number of channels that one goroutine waits for. Twice as many would save an eighth
// of the memory and double the time for one closing, which is about 2 us: the goroutine then starts
// over with all its channels. BenchmarkChunkSizes measures this. With the channel that wakes the
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
	// chunk is the chunk that has the wait as a member, at index. If it is nil, the wait is in
	// Set.closed at index, or has ended if index is negative.
	chunk *chunk[T]
	index int
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
	w := &Wait[T]{Value: value, ch: ch, index: -1}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return w
	}
	if s.open == nil || len(s.open.members) == s.perChunk {
		s.start()
	}
	s.open.add(w)
	s.open.poke()
	return w
}

// start creates a chunk for new channels.
func (s *Set[T]) start() {
	c := &chunk[T]{set: s, wake: make(chan struct{}, 1)}
	s.open = c
	s.chunks[c] = struct{}{}
	s.wg.Go(c.run)
}

// Remove ends a wait. It does nothing if the wait was taken or removed before.
func (s *Set[T]) Remove(w *Wait[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.chunk != nil:
		s.detach(w)
	case w.index >= 0:
		s.closed = remove(s.closed, w)
	}
}

// Take returns the waits whose channels have closed, in no particular order, and ends
// them. It returns nil if there are none.
func (s *Set[T]) Take() []*Wait[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Removals may have emptied the list and left it in place.
	if len(s.closed) == 0 {
		return nil
	}
	taken := s.closed
	s.closed = nil
	for _, w := range taken {
		w.index = -1
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

// detach removes a wait from its chunk, whose goroutine is waiting. The caller holds mu.
func (s *Set[T]) detach(w *Wait[T]) {
	c := w.chunk
	c.remove(w)
	c.stale++
	s.merge(c)
	if c.stale > len(c.members) {
		c.poke()
	}
}

// report moves a wait that is no longer a member of a chunk to the list for Take. The caller holds
// mu.
func (s *Set[T]) report(w *Wait[T]) {
	w.index = len(s.closed)
	s.closed = append(s.closed, w)
}

// merge bounds the number of goroutines. A chunk that is at most a quarter full gives its channels to
// the open chunk. If they do not fit, it becomes the open chunk. So n channels need at most 1 +
// 4n/perChunk goroutines, whichever of them close. The caller holds mu, and makes the goroutine of c
// check its members.
func (s *Set[T]) merge(c *chunk[T]) {
	switch {
	case c == s.open || len(c.members) == 0 || 4*len(c.members) > s.perChunk:
	case s.open == nil || len(s.open.members)+len(c.members) > s.perChunk:
		s.open = c
	default:
		for _, w := range c.members {
			s.open.add(w)
		}
		c.members = nil
		s.open.poke()
	}
}

// forget removes a chunk from the set. The caller holds mu.
func (s *Set[T]) forget(c *chunk[T]) {
	delete(s.chunks, c)
	if s.open == c {
		s.open = nil
	}
}

// remove removes a wait from the list that has it at its index. The last wait of the list takes its
// place.
func remove[T any](list []*Wait[T], w *Wait[T]) []*Wait[T] {
	last := len(list) - 1
	list[w.index] = list[last]
	list[w.index].index = w.index
	list[last] = nil
	w.index = -1
	return list[:last]
}
