// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import "github.com/statekeel/statekeel/internal/watch"

// blocked knows which keys wait for which channels. Any number of keys on one channel
// are one wait of the set. All but what released delivers belongs to the goroutine of
// the loop.
type blocked struct {
	// released delivers when there is something for release to do: once, for however
	// many channels that closed since the last time.
	released signal

	set   *watch.Set[queue]
	waits shrinking[<-chan struct{}, *watch.Wait[queue]]
	// keys has the first wait of each key that waits; the others follow it.
	keys shrinking[string, *keyWait]
}

// keyWait is the wait of one key for one channel.
type keyWait struct {
	key string
	on  *watch.Wait[queue]
	// next is the same key's wait for another channel, nil if there is none.
	next *keyWait
	// before and after are its neighbours in the queue of the channel.
	before, after *keyWait
}

// queue is who waits for a channel, in the order in which they came.
type queue struct{ first, last *keyWait }

func newBlocked() *blocked {
	b := &blocked{released: newSignal()}
	b.set = watch.New[queue](b.released.signal)
	return b
}

// any reports whether any key waits for a channel.
func (b *blocked) any() bool { return len(b.keys.entries) > 0 }

// settle replaces what a key waits for; without channels it waits for nothing.
func (b *blocked) settle(key string, channels []<-chan struct{}) {
	was := b.keys.entries[key]
	b.keys.delete(key)
	for _, ch := range channels {
		if ch != nil {
			b.join(key, ch)
		}
	}
	// Only now, so that what is waited for still is not begun anew.
	b.drop(was)
}

// leave makes a key wait for nothing.
func (b *blocked) leave(key string) { b.settle(key, nil) }

// join makes a key wait for one more channel.
func (b *blocked) join(key string, ch <-chan struct{}) {
	on := b.waits.entries[ch]
	if on == nil {
		on = b.set.Add(ch, queue{})
		b.waits.put(ch, on)
	}
	w := &keyWait{key: key, on: on, next: b.keys.entries[key]}
	on.Value.push(w)
	b.keys.put(key, w)
}

// drop ends a wait and those that follow it.
func (b *blocked) drop(w *keyWait) {
	for ; w != nil; w = w.next {
		w.on.Value.remove(w)
		if w.on.Value.first == nil {
			b.set.Remove(w.on)
			b.unlist(w.on)
		}
	}
}

// unlist makes the next key that waits for a channel begin a new wait of the set. The
// channel may have one already, if this one was taken.
func (b *blocked) unlist(on *watch.Wait[queue]) {
	if b.waits.entries[on.Channel()] == on {
		b.waits.delete(on.Channel())
	}
}

// release calls yield once with each key of which a channel has closed, and makes it
// wait for nothing. Keys of one channel come in the order in which they began to wait.
// A key that yield makes wait again is one for the next call, whatever it waits for.
func (b *blocked) release(yield func(key string)) {
	taken := b.set.Take()
	for _, on := range taken {
		b.unlist(on)
	}
	for _, on := range taken {
		for on.Value.first != nil {
			key := on.Value.first.key
			b.leave(key)
			yield(key)
		}
	}
}

// stop ends all goroutines and waits for them.
func (b *blocked) stop() { b.set.Stop() }

func (q *queue) push(w *keyWait) {
	w.before = q.last
	if q.last == nil {
		q.first = w
	} else {
		q.last.after = w
	}
	q.last = w
}

func (q *queue) remove(w *keyWait) {
	if w.before == nil {
		q.first = w.after
	} else {
		w.before.after = w.after
	}
	if w.after == nil {
		q.last = w.before
	} else {
		w.after.before = w.before
	}
}

// shrinking is a map that gives its memory back when few are left of many, which a map
// by itself does not. The zero value is empty. Only put and delete may change entries.
type shrinking[K comparable, V any] struct {
	entries map[K]V
	peak    int
}

// keptSize is how many entries a map may have had and stay as large.
const keptSize = 1024

func (m *shrinking[K, V]) put(key K, value V) {
	if m.entries == nil {
		m.entries = map[K]V{}
	}
	m.entries[key] = value
	m.peak = max(m.peak, len(m.entries))
}

func (m *shrinking[K, V]) delete(key K) {
	delete(m.entries, key)
	if m.peak <= keptSize || len(m.entries) >= m.peak/4 {
		return
	}
	entries := make(map[K]V, len(m.entries))
	for k, v := range m.entries {
		entries[k] = v
	}
	m.entries, m.peak = entries, len(entries)
}
