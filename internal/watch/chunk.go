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

	// members are the waits of the goroutine. The goroutine ends when there are none.
	members []*Wait[T]
	// stale is the number of members that were removed since the goroutine last checked. Until it
	// checks again, it still waits for their channels, and keeps them in memory. It is woken when
	// stale exceeds the number of members, which spreads the cost over the removals.
	stale int
}

// add makes a wait a member. The goroutine sees it after a poke.
func (c *chunk[T]) add(w *Wait[T]) {
	w.chunk, w.index = c, len(c.members)
	c.members = append(c.members, w)
}

func (c *chunk[T]) remove(w *Wait[T]) {
	c.members = remove(c.members, w)
	w.chunk = nil
}

// poke makes the goroutine check its members, now or before it waits again. It never blocks.
func (c *chunk[T]) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run waits for the channels of the members until there are none.
//
// A goroutine may wait for channels of former members. Two goroutines may wait for one channel while
// its member moves between chunks. That is harmless: a goroutine that wakes only checks its members,
// under the lock, and a closed channel stays closed. So no closing is missed, and the first goroutine
// that sees it reports it.
func (c *chunk[T]) run() {
	sel := selection[T]{cases: []reflect.SelectCase{receive(c.wake)}}
	var woke *Wait[T]
	for c.look(&sel, woke) {
		woke = sel.wait()
	}
}

// look reports the members whose channels have closed, and updates the selection to the others. woke
// is the wait whose channel woke the goroutine; nil for another reason. It returns false if the
// goroutine should end.
func (c *chunk[T]) look(sel *selection[T], woke *Wait[T]) bool {
	s := c.set
	s.mu.Lock()
	reported := c.sweep(woke)
	s.merge(c)
	c.stale = 0
	goOn := len(c.members) > 0 && !s.stopped
	if goOn {
		sel.follow(c.members)
	} else {
		s.forget(c)
	}
	s.mu.Unlock()
	if reported {
		s.notify()
	}
	return goOn
}

// sweep reports the members whose channels have closed, and woke, whose channel may have delivered a
// value instead. woke may have become a member of another chunk meanwhile.
func (c *chunk[T]) sweep(woke *Wait[T]) (reported bool) {
	if woke != nil && woke.chunk != nil {
		c.set.detach(woke)
		c.set.report(woke)
		reported = true
	}
	for i := 0; i < len(c.members); {
		w := c.members[i]
		select {
		case <-w.ch:
			c.remove(w) // another member is now at i
			c.set.report(w)
			reported = true
		default:
			i++
		}
	}
	return reported
}

// selection is the list of channels that a goroutine waits for: its wake channel, and those of the
// members when it last checked. It belongs to that goroutine.
type selection[T any] struct {
	cases []reflect.SelectCase
	// waits are the waits of the cases after the first.
	waits []*Wait[T]
}

// follow updates the selection to the members.
func (sel *selection[T]) follow(members []*Wait[T]) {
	for i, w := range members {
		switch {
		case i == len(sel.waits):
			sel.waits = append(sel.waits, w)
			sel.cases = append(sel.cases, receive(w.ch))
		case sel.waits[i] != w:
			sel.waits[i] = w
			sel.cases[i+1] = receive(w.ch)
		}
	}
	n := len(members)
	clear(sel.waits[n:])
	clear(sel.cases[n+1:])
	sel.waits, sel.cases = sel.waits[:n], sel.cases[:n+1]
}

// wait blocks until a channel is ready, and returns its wait; nil for the first channel.
func (sel *selection[T]) wait() *Wait[T] {
	chosen, _, _ := reflect.Select(sel.cases)
	if chosen == 0 {
		return nil
	}
	return sel.waits[chosen-1]
}

func receive(ch <-chan struct{}) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ch)}
}
