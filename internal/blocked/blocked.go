// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package blocked keeps the keys of blocked objects, which wait for channels to close.
//
// The loop's goroutine owns a [Keys], whose state is the channels of each key. The goroutines that
// wait for the channels belong to a [watch.Set]; they only signal that channels have closed. The
// package does not run or retry operations: the loop asks for the released keys with [Keys.Release].
package blocked

import (
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/internal/watch"
)

// Keys is a set of keys that wait for channels. All keys with the same channel share one wait of a
// [watch.Set]. Keys belongs to one goroutine, except for the channel of [Keys.Released].
type Keys struct {
	released signal.Signal

	set *watch.Set[queue]
	// closed are the waits for channels that have closed and have keys that Release has not released.
	closed    []*watch.Wait[queue]
	byChannel shrinking[<-chan struct{}, *watch.Wait[queue]]
	// byKey has the first wait of each key, which links to the others.
	byKey shrinking[string, *keyWait]
}

// maxReleased bounds the keys that one [Keys.Release] releases.
const maxReleased = 1024

// keyWait is the wait of one key for one channel.
type keyWait struct {
	key string
	on  *watch.Wait[queue]
	// next is the same key's wait for another channel; nil if there is none.
	next *keyWait
	// before and after are its neighbours in the queue of the channel.
	before, after *keyWait
}

// queue is the list of the waits for a channel, in the order in which they began.
type queue struct{ first, last *keyWait }

// New returns an empty set. Call [Keys.Stop] at the end.
func New() *Keys {
	k := &Keys{released: signal.New()}
	k.set = watch.New[queue](k.released.Send)
	return k
}

// Released returns a channel that delivers when [Keys.Release] has something to do. It delivers once
// for all channels that have closed since the last time.
func (k *Keys) Released() <-chan struct{} { return k.released }

// Any reports whether any key waits for a channel.
func (k *Keys) Any() bool { return len(k.byKey.entries) > 0 }

// Set replaces the channels that a key waits for. nil channels are ignored. Without channels the key
// does not wait. A key with a closed channel is released by the next [Keys.Release].
func (k *Keys) Set(key string, channels []<-chan struct{}) {
	was := k.byKey.entries[key]
	k.byKey.delete(key)
	for _, ch := range channels {
		if ch != nil {
			k.join(key, ch)
		}
	}
	// Last, so that a channel that the key waited for before keeps its wait.
	k.drop(was)
}

// Remove removes all channels of a key.
func (k *Keys) Remove(key string) { k.Set(key, nil) }

// join adds a channel to a key.
func (k *Keys) join(key string, ch <-chan struct{}) {
	on := k.byChannel.entries[ch]
	if on == nil {
		on = k.set.Add(ch, queue{})
		k.byChannel.put(ch, on)
	}
	w := &keyWait{key: key, on: on, next: k.byKey.entries[key]}
	on.Value.push(w)
	k.byKey.put(key, w)
}

// drop ends a wait and those that follow it.
func (k *Keys) drop(w *keyWait) {
	for ; w != nil; w = w.next {
		w.on.Value.remove(w)
		if w.on.Value.first == nil {
			k.set.Remove(w.on)
			k.unlist(w.on)
		}
	}
}

// unlist removes a wait from byChannel, so that the next key with its channel begins a new one. If
// the wait was taken, byChannel may have a newer wait for the channel, which stays.
func (k *Keys) unlist(on *watch.Wait[queue]) {
	if k.byChannel.entries[on.Channel()] == on {
		k.byChannel.delete(on.Channel())
	}
}

// Release calls yield once with each key that has a closed channel, after it has removed all channels
// of the key; if there are many, with at most 1,024: then Released delivers again. Keys with the same channel come in
// the order in which they began to wait. If yield calls Set for a key, a later call of Release releases it, even if its
// channel is closed.
func (k *Keys) Release(yield func(key string)) {
	closed := k.set.Take()
	for _, on := range closed {
		k.unlist(on)
	}
	k.closed = append(k.closed, closed...)
	for left := maxReleased; len(k.closed) > 0; k.closed = k.closed[1:] {
		for on := k.closed[0]; on.Value.first != nil; left-- {
			if left == 0 {
				k.released.Send()
				return
			}
			key := on.Value.first.key
			k.Remove(key)
			yield(key)
		}
	}
	k.closed = nil
}

// Stop ends all goroutines and waits for them.
func (k *Keys) Stop() { k.set.Stop() }

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

// shrinking is a map that releases memory when most of its entries are deleted; Go maps do not. The
// zero value is empty. Only put and delete change entries.
type shrinking[K comparable, V any] struct {
	entries map[K]V
	peak    int
}

// keptSize is the number of entries up to which the map is never replaced by a smaller one.
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
