// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package watch

import "reflect"

// chunk is a goroutine that waits for up to perChunk channels of a set.
type chunk[T any] struct {
	set *Set[T]
	// wake makes the goroutine check its members again.
	wake chan struct{}

	// The rest is guarded by the set's mu.

	// members are the waits of the goroutine, which ends when there are none. Those that were removed since it
	// last checked are still among them: live is the number of the others.
	members []*Wait[T]
	live    int
}

// add makes a wait a member, and wakes the goroutine, which begins to wait for it.
func (c *chunk[T]) add(w *Wait[T]) {
	w.chunk = c
	c.members = append(c.members, w)
	c.live++
	c.poke()
}

// remove removes a member. The goroutine still waits for its channel, and keeps that in memory, until it checks
// its members. It is woken when half of them are removed, which spreads the cost over the removals, and when so
// few are left that they may belong into another chunk.
func (c *chunk[T]) remove(w *Wait[T]) {
	w.chunk = nil
	c.live--
	if 2*c.live <= len(c.members) || c.set.few(c.live) {
		c.poke()
	}
}

// poke makes the goroutine check its members, now or before it waits again. It never blocks.
func (c *chunk[T]) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run waits for the channels of the members until there are none. It may wait for channels of former
// members. That is harmless: when it wakes, it only checks its members.
func (c *chunk[T]) run() {
	var waits []*Wait[T]
	var cases []reflect.SelectCase
	var woke *Wait[T]
	for {
		clear(waits)
		clear(cases)
		if waits = c.check(woke, waits[:0]); len(waits) == 0 {
			return
		}
		cases = append(cases[:0], receive(c.wake))
		for _, w := range waits {
			cases = append(cases, receive(w.ch))
		}
		woke = nil
		if chosen, _, _ := reflect.Select(cases); chosen > 0 {
			woke = waits[chosen-1]
		}
	}
}

// check reports the members whose channels have closed, and woke, whose channel may have delivered a value
// instead: it is the member whose channel woke the goroutine, or nil. It appends the others to waits. If there
// are none, the goroutine must end.
func (c *chunk[T]) check(woke *Wait[T], waits []*Wait[T]) []*Wait[T] {
	s := c.set
	s.mu.Lock()
	before := c.live
	for _, w := range c.members {
		switch {
		case w.chunk != c:
			// It was removed.
		case w == woke || IsClosed(w.ch):
			w.chunk, w.closed = nil, true
			s.closed = append(s.closed, w)
		default:
			waits = append(waits, w)
		}
	}
	clear(c.members)
	c.members, c.live = append(c.members[:0], waits...), len(waits)
	reported := c.live < before
	if s.stopped || len(waits) == 0 || s.merge(c) {
		delete(s.chunks, c)
		if s.open == c {
			s.open = nil
		}
		waits = nil
	}
	s.mu.Unlock()
	if reported {
		s.notify()
	}
	return waits
}

func receive(ch <-chan struct{}) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ch)}
}
