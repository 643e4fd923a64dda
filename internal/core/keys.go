// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"maps"
	"reflect"
	"slices"
	"time"
)

// keySet has the entries: one for every observed key that is not reconciled, or that asked for another run.
type keySet[Obj any] struct {
	of      func(Obj) []byte
	entries map[string]*entry[Obj]
	// peak is the largest size since the map was made: Go maps do not shrink.
	peak int
	// gone are the entries that were removed since the last round began, free those whose memory may be
	// used again.
	gone, free []*entry[Obj]
}

const (
	// maxWalk bounds the entries that a walk visits at a time.
	maxWalk = 1024
	// maxFree bounds the entries whose memory is kept for others.
	maxFree = 1024
	// minPeak is the peak up to which the map of entries is never replaced by a smaller one.
	minPeak = 1024
)

// find returns the entry of an object's key; nil if it has none.
func (k *keySet[Obj]) find(obj Obj) *entry[Obj] {
	if len(k.entries) == 0 {
		return nil
	}
	return k.entries[string(k.of(obj))]
}

// walk is a walk over all entries, some at a time. The zero value has ended.
type walk[Obj any] struct{ rest *reflect.MapIter }

func (w walk[Obj]) goesOn() bool { return w.rest != nil }

// walk begins a walk over the entries that there are now.
func (k *keySet[Obj]) walk() walk[Obj] { return walk[Obj]{reflect.ValueOf(k.entries).MapRange()} }

// some returns the next entries of a walk, at most maxWalk, in the order of byRevision. Of entries that were added since
// the walk began it may return some.
func (k *keySet[Obj]) some(w *walk[Obj]) (entries []*entry[Obj]) {
	for range maxWalk {
		if !w.rest.Next() {
			w.rest = nil
			break
		}
		// A smaller map may have taken the place of the one that is walked over.
		if e := w.rest.Value().Interface().(*entry[Obj]); k.entries[e.key] == e {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, byRevision)
	return entries
}

// add adds an entry for a version of an object whose key has none. It is in no queue and in no index yet.
func (k *keySet[Obj]) add(key string, v *rowVersion[Obj], now time.Duration, why Cause) (e *entry[Obj]) {
	if last := len(k.free) - 1; last >= 0 {
		e = k.free[last]
		k.free[last], k.free = nil, k.free[:last]
	} else {
		e = new(entry[Obj])
	}
	e.key, e.version, e.dueAt, e.from, e.cause, e.past.ended = key, *v, now, Ready, why, noTime
	e.pos, e.indexed.unreconciledPos, e.indexed.untriedPos = -1, -1, -1
	k.entries[key] = e
	k.peak = max(k.peak, len(k.entries))
	return e
}

// remove removes an entry, which is in no queue and in no index.
func (k *keySet[Obj]) remove(e *entry[Obj]) {
	delete(k.entries, e.key)
	if len(k.gone) < maxFree {
		k.gone = append(k.gone, e)
	}
	if k.peak > minPeak && len(k.entries) < k.peak/4 {
		entries := make(map[string]*entry[Obj], len(k.entries))
		maps.Copy(entries, k.entries)
		k.entries, k.peak = entries, len(entries)
	}
}

// freeGone keeps the memory of removed entries for others, because a loop with workers needs an entry
// for each object. It is called when nothing points to them any more: no operation, and not touched.
func (k *keySet[Obj]) freeGone() {
	for _, e := range k.gone {
		if !e.indexed.touched && len(k.free) < maxFree {
			*e = entry[Obj]{}
			k.free = append(k.free, e)
		}
	}
	k.gone = reuse(k.gone)
}

// reuse clears a slice, so that it keeps nothing alive, and returns it with length 0 and its memory.
func reuse[T any](s []T) []T {
	clear(s)
	return s[:0]
}
