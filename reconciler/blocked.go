// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"maps"
	"slices"
	"sync"
)

// blocked watches the channels that blocked keys wait for. Any number of keys on one
// channel cost one goroutine. The maps belong to the goroutine of the loop.
type blocked struct {
	// released receives each channel that closed while somebody waited for it.
	released chan (<-chan struct{})

	watchers map[<-chan struct{}]*watcher
	channels map[string][]<-chan struct{}
	stopped  chan struct{}
	wg       sync.WaitGroup
}

// watcher is a goroutine that waits for one channel.
type watcher struct {
	keys   map[string]struct{}
	cancel chan struct{}
}

func newBlocked() *blocked {
	return &blocked{
		released: make(chan (<-chan struct{})),
		watchers: map[<-chan struct{}]*watcher{},
		channels: map[string][]<-chan struct{}{},
		stopped:  make(chan struct{}),
	}
}

// any reports whether any key waits for a channel.
func (b *blocked) any() bool { return len(b.channels) > 0 }

// settle replaces what a key waits for; without channels it waits for nothing.
func (b *blocked) settle(key string, channels []<-chan struct{}) {
	b.leave(key)
	if len(channels) == 0 {
		return
	}
	b.channels[key] = channels
	for _, ch := range channels {
		w := b.watchers[ch]
		if w == nil {
			w = &watcher{keys: map[string]struct{}{}, cancel: make(chan struct{})}
			b.watchers[ch] = w
			b.wg.Go(func() { b.watch(ch, w.cancel) })
		}
		w.keys[key] = struct{}{}
	}
}

// leave makes a key wait for nothing.
func (b *blocked) leave(key string) {
	for _, ch := range b.channels[key] {
		w := b.watchers[ch]
		if w == nil {
			continue
		}
		delete(w.keys, key)
		if len(w.keys) == 0 {
			close(w.cancel)
			delete(b.watchers, ch)
		}
	}
	delete(b.channels, key)
}

// release calls yield with each key that waited for a channel, and makes them wait for
// nothing.
func (b *blocked) release(ch <-chan struct{}, yield func(key string)) {
	w := b.watchers[ch]
	if w == nil {
		return
	}
	delete(b.watchers, ch)
	for _, key := range slices.Sorted(maps.Keys(w.keys)) {
		b.leave(key)
		yield(key)
	}
}

func (b *blocked) watch(ch, cancel <-chan struct{}) {
	select {
	case <-ch:
	case <-cancel:
		return
	case <-b.stopped:
		return
	}
	select {
	case b.released <- ch:
	case <-cancel:
	case <-b.stopped:
	}
}

// stop ends all goroutines and waits for them.
func (b *blocked) stop() {
	close(b.stopped)
	b.wg.Wait()
}
