// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"fmt"
	"sync"
)

// pause is what is paused. It belongs to the goroutine of the loop.
type pause[Obj any] struct {
	// whole: nothing is to be started.
	whole bool
	// objects is the predicate of PauseObjects, nil if there is none; keys are those of
	// PauseKey.
	objects func(Obj) bool
	keys    map[string]struct{}
}

// some reports whether single objects are paused.
func (p *pause[Obj]) some() bool { return p.objects != nil || len(p.keys) > 0 }

// pauseCall is a call of Pause, PauseObjects or Resume.
type pauseCall[Obj any] struct {
	whole   bool
	objects func(Obj) bool
	// all: what PauseKey has paused is resumed, too.
	all bool
}

// pausing has the keys of PauseKey, as those see them who pause: the loop has taken them in, or
// is about to.
type pausing struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// Pause stops the reconciler from starting anything: updates, deletions, retries and
// prunes. What is running is finished and its outcome written; what changes meanwhile
// waits in the table, or, if deleted, in its graveyard, and is reconciled after
// [Loop.Resume]. Health says that it is paused. It takes the place of an earlier
// [Loop.PauseObjects]. It returns at once, before the loop has taken it in. Safe from any
// goroutine.
func (l *Loop[Obj]) Pause() {
	l.callPause(pauseCall[Obj]{whole: true})
}

// PauseObjects stops the reconciler from starting anything for the objects of which
// paused returns true: they keep their status, their deletions and retries wait, and
// health says how many are paused. Each costs memory while it waits. The rest goes on,
// prunes too, which are given paused objects as wanted ones; a paused deletion may
// be carried out by a prune. A later call takes the place of an earlier one; nil is as
// [Loop.Resume]. paused is called by the goroutine of the reconciler, whenever an
// object's turn comes, and has to say the same of an object until the next call. It
// returns at once, before the loop has taken it in. Safe from any goroutine.
func (l *Loop[Obj]) PauseObjects(paused func(obj Obj) bool) {
	l.callPause(pauseCall[Obj]{objects: paused, all: paused == nil})
}

// Resume ends every pause: what had waited is due at once. Safe from any goroutine.
func (l *Loop[Obj]) Resume() { l.callPause(pauseCall[Obj]{all: true}) }

// PauseKey pauses one object, which need not exist yet, as [Loop.PauseObjects] does, beside
// those that are paused already. The key is as [Loop.Explain] takes it; the error is that
// it is empty. It returns at once. Safe from any goroutine.
func (l *Loop[Obj]) PauseKey(key string) error {
	raw, err := l.keyFrom(key)
	if err != nil {
		return err
	}
	p := &l.pausing
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		p.keys = map[string]struct{}{}
	}
	p.keys[string(raw)] = struct{}{}
	l.callPauseKey(string(raw), true)
	return nil
}

// ResumeKey ends what [Loop.PauseKey] began. The error is that the object was not paused by
// it. Safe from any goroutine.
func (l *Loop[Obj]) ResumeKey(key string) error {
	raw, err := l.keyFrom(key)
	if err != nil {
		return err
	}
	p := &l.pausing
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, paused := p.keys[string(raw)]; !paused {
		return fmt.Errorf("object %s is not paused by its key", key)
	}
	delete(p.keys, string(raw))
	l.callPauseKey(string(raw), false)
	return nil
}

// callPauseKey is called under the lock of what is paused, so that calls come in order.
func (l *Loop[Obj]) callPauseKey(key string, paused bool) {
	l.calls.ask(func(a *asked[Obj]) {
		if a.pauseKeys == nil {
			a.pauseKeys = map[string]bool{}
		}
		a.pauseKeys[key] = paused
	})
}

func (l *Loop[Obj]) callPause(call pauseCall[Obj]) {
	p := &l.pausing
	p.mu.Lock()
	defer p.mu.Unlock()
	if call.all {
		p.keys = nil
	}
	l.calls.ask(func(a *asked[Obj]) {
		if call.all {
			a.pauseKeys = nil
		} else if a.pause != nil {
			call.all = a.pause.all
		}
		a.pause = &call
	})
}

// applyPause takes in a call, nil if there is none, and the keys that were paused, or resumed,
// after it.
func (l *Loop[Obj]) applyPause(call *pauseCall[Obj], keys map[string]bool) {
	p, was := &l.pause, l.pause.some()
	if call != nil {
		p.whole, p.objects = call.whole, call.objects
		if call.all {
			clear(p.keys)
		}
	}
	var resumed []string
	for key, paused := range keys {
		if paused {
			p.keys[key] = struct{}{}
		} else {
			delete(p.keys, key)
			resumed = append(resumed, key)
		}
	}
	if p.whole || p.some() {
		l.recall()
	}
	if call == nil {
		l.core.Resume(l.now(), resumed...)
	}
	if call != nil || p.some() != was {
		// Costs a walk only if there still is what waits to be resumed.
		l.core.SetPaused(l.now(), l.objectWaits.noting(l, l.paused()))
	}
}

// paused returns what says which objects are paused; nil if none are.
func (l *Loop[Obj]) paused() func(Obj) bool {
	if !l.pause.some() {
		return nil
	}
	keyOf := l.indexer.ObjectToKey
	return func(obj Obj) bool {
		p := &l.pause
		if len(p.keys) > 0 {
			if _, paused := p.keys[string(keyOf(obj))]; paused {
				return true
			}
		}
		return p.objects != nil && p.objects(obj)
	}
}
