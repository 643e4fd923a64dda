// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"fmt"
	"maps"
	"sync"
)

// pause is what is paused.
type pause struct {
	// whole: nothing is to be started.
	whole bool
	// objects: some may be paused, by a predicate.
	objects bool
}

// pauseCall is a call of Pause, PauseObjects or Resume.
type pauseCall[Obj any] struct {
	whole  bool
	paused func(Obj) bool
}

// pausing is what is paused, as those see it who pause: the loop has taken in all of it, or
// is about to.
type pausing[Obj any] struct {
	mu    sync.Mutex
	whole bool
	// objects is the predicate of PauseObjects, nil if there is none; keys are those of
	// PauseKey.
	objects func(Obj) bool
	keys    map[string]struct{}
}

// Pause stops the reconciler from starting anything: updates, deletions, retries and
// prunes. What is running is finished and its outcome written; what changes meanwhile
// waits in the table, or, if deleted, in its graveyard, and is reconciled after
// [Loop.Resume]. Health says that it is paused. It takes the place of an earlier
// [Loop.PauseObjects]. It returns at once, before the loop has taken it in. Safe from any
// goroutine.
func (l *Loop[Obj]) Pause() {
	l.callPause(func(p *pausing[Obj]) { p.whole, p.objects = true, nil })
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
	l.callPause(func(p *pausing[Obj]) {
		p.whole, p.objects = false, paused
		if paused == nil {
			p.keys = nil
		}
	})
}

// Resume ends every pause: what had waited is due at once. Safe from any goroutine.
func (l *Loop[Obj]) Resume() {
	l.callPause(func(p *pausing[Obj]) { p.whole, p.objects, p.keys = false, nil, nil })
}

// PauseKey pauses one object, which need not exist yet, as [Loop.PauseObjects] does, beside
// those that are paused already. The key is as [Loop.Explain] takes it; the error is that
// it is empty. It returns at once. Safe from any goroutine.
func (l *Loop[Obj]) PauseKey(key string) error {
	raw, err := l.keyFrom(key)
	if err != nil {
		return err
	}
	l.callPause(func(p *pausing[Obj]) {
		keys := map[string]struct{}{string(raw): {}}
		maps.Copy(keys, p.keys)
		p.keys = keys
	})
	return nil
}

// ResumeKey ends what [Loop.PauseKey] began. The error is that the object was not paused by
// it. Safe from any goroutine.
func (l *Loop[Obj]) ResumeKey(key string) error {
	raw, err := l.keyFrom(key)
	if err != nil {
		return err
	}
	found := false
	l.callPause(func(p *pausing[Obj]) {
		_, found = p.keys[string(raw)]
		keys := maps.Clone(p.keys)
		delete(keys, string(raw))
		p.keys = keys
	})
	if !found {
		return fmt.Errorf("object %s is not paused by its key", key)
	}
	return nil
}

// callPause changes what is paused, and tells the loop. The sets of keys that the loop is
// handed do not change any more.
func (l *Loop[Obj]) callPause(change func(*pausing[Obj])) {
	p := &l.pausing
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
	call := pauseCall[Obj]{whole: p.whole, paused: p.objects}
	if keys, objects := p.keys, p.objects; len(keys) > 0 && !p.whole {
		keyOf := l.indexer.ObjectToKey
		call.paused = func(obj Obj) bool {
			if _, paused := keys[string(keyOf(obj))]; paused {
				return true
			}
			return objects != nil && objects(obj)
		}
	}
	l.calls.ask(func(a *asked[Obj]) { a.pause = &call })
}

func (l *Loop[Obj]) applyPause(p *pauseCall[Obj]) {
	l.pause = pause{whole: p.whole, objects: p.paused != nil}
	if p.whole || p.paused != nil {
		l.recall()
	}
	l.core.SetPaused(l.now(), l.objectWaits.noting(l, p.paused))
}
