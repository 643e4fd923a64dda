// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// pause is what is paused. It belongs to the goroutine of the loop.
type pause[Obj any] struct {
	// whole: nothing is to be started.
	whole bool
	// objects is the predicate of PauseObjects, nil if there is none; keys are those of
	// PauseKeys.
	objects func(Obj) bool
	keys    map[string]struct{}
}

// some reports whether single objects are paused.
func (p *pause[Obj]) some() bool { return p.objects != nil || len(p.keys) > 0 }

// pauseCall is a call of Pause, PauseObjects or Resume.
type pauseCall[Obj any] struct {
	whole   bool
	objects func(Obj) bool
	// all: what PauseKeys has paused is resumed, too.
	all bool
}

// pausing has the keys of PauseKeys, as those see them who pause: the loop has taken them in, or
// is about to.
type pausing struct {
	mu   sync.Mutex
	keys map[string]struct{}
	// some: PauseObjects was called, and not Resume since.
	some bool
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

// PauseKeys pauses the objects with the given keys as [Loop.PauseObjects] does, beside those that
// are paused already. The keys, of which there may be [inspect.MaxKeys], are as [Loop.Explain] takes them.
// It returns how many objects it found; the error is [inspect.ErrNotFound] for each of which neither the
// table nor the reconciler knows: that is not paused, also if it comes later. It returns before
// the loop has taken it in; for a key that the table does not have it asks the loop, for 100 ms at
// most, and if that is busy the error says so. Safe from any goroutine.
func (l *Loop[Obj]) PauseKeys(keys ...string) (int, error) {
	if err := checkKeys(keys); err != nil {
		return 0, err
	}
	raw, unknown := l.known(keys)
	slices.Sort(raw)
	raw = slices.Compact(raw)
	p := &l.pausing
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		p.keys = map[string]struct{}{}
	}
	for _, key := range raw {
		p.keys[key] = struct{}{}
	}
	l.callPauseKeys(raw, true)
	return len(raw), errors.Join(unknown...)
}

// known returns the keys of the objects that texts mean, and an error for each that neither the
// table nor the loop knows of.
func (l *Loop[Obj]) known(texts []string) (keys []string, errs []error) {
	var absent []string
	for _, key := range texts {
		if s := l.view.glance(key); s.found {
			keys = append(keys, string(s.key))
		} else {
			absent = append(absent, key)
		}
	}
	if len(absent) == 0 {
		return keys, nil
	}
	looked, err := askBriefly(context.Background(), l, func(*answers[Obj]) []sight[Obj] {
		looked := make([]sight[Obj], len(absent))
		for i, key := range absent {
			looked[i] = l.view.look(key)
		}
		return looked
	})
	busy := (*inspect.BusyError)(nil)
	for i, key := range absent {
		switch {
		case errors.As(err, &busy):
			errs = append(errs, fmt.Errorf("object %s is not in the table, and only the reconciler knows whether its deletion waits: %w",
				text.Plain(text.Short(key, maxKeyText)), busy))
		case err == nil && (looked[i].found || looked[i].info != nil):
			keys = append(keys, string(looked[i].key))
		default:
			errs = append(errs, notFound(key))
		}
	}
	return keys, errs
}

// ResumeKeys ends for the objects with the given keys, of which there may be [inspect.MaxKeys], what
// [Loop.PauseKeys] began. It returns how many that were; the error names those that were not
// paused by it. Safe from any goroutine.
func (l *Loop[Obj]) ResumeKeys(keys ...string) (int, error) {
	if err := checkKeys(keys); err != nil {
		return 0, err
	}
	txn := l.rows.DB.ReadTxn()
	p := &l.pausing
	p.mu.Lock()
	defer p.mu.Unlock()
	var raw []string
	var errs []error
	for _, key := range keys {
		if resumed, ok := l.pausedBy(txn, key); ok {
			raw = append(raw, resumed)
		} else {
			errs = append(errs, fmt.Errorf("object %s is not paused by its key", text.Plain(text.Short(key, maxKeyText))))
		}
	}
	slices.Sort(raw)
	raw = slices.Compact(raw)
	for _, key := range raw {
		delete(p.keys, key)
	}
	l.callPauseKeys(raw, false)
	return len(raw), errors.Join(errs...)
}

// pausedBy returns the key that a text means, and whether it is paused. It is called under the
// lock of what is paused.
func (l *Loop[Obj]) pausedBy(txn statedb.ReadTxn, text string) (string, bool) {
	for _, key := range l.rows.Keys(text) {
		if _, paused := l.pausing.keys[string(key)]; paused {
			return string(key), true
		}
		if _, _, found := l.rows.ByKey(txn, key); found {
			break
		}
	}
	return "", false
}

// callPauseKeys is called under the lock of what is paused, so that calls come in order.
func (l *Loop[Obj]) callPauseKeys(keys []string, paused bool) {
	l.calls.ask(func(a *asked[Obj]) {
		if a.pauseKeys == nil {
			a.pauseKeys = map[string]bool{}
		}
		for _, key := range keys {
			a.pauseKeys[key] = paused
		}
	})
}

func (l *Loop[Obj]) callPause(call pauseCall[Obj]) {
	p := &l.pausing
	p.mu.Lock()
	defer p.mu.Unlock()
	if call.all {
		p.keys = nil
	}
	p.some = call.objects != nil
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
func (r *runner[Obj]) applyPause(call *pauseCall[Obj], keys map[string]bool) {
	p, was := &r.pause, r.pause.some()
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
		r.takeBackQueued()
	}
	if call == nil {
		r.core.Resume(r.now(), resumed...)
	}
	if call != nil || p.some() != was {
		// Costs a walk only if there still is what waits to be resumed.
		r.core.SetPaused(r.now(), r.keyWaits.NotePaused(r.paused()))
	}
}

// paused returns what says which objects are paused; nil if none are.
func (r *runner[Obj]) paused() func(Obj) bool {
	if !r.pause.some() {
		return nil
	}
	keyOf := r.rows.Key
	return func(obj Obj) bool {
		p := &r.pause
		if len(p.keys) > 0 {
			if _, paused := p.keys[string(keyOf(obj))]; paused {
				return true
			}
		}
		return p.objects != nil && p.objects(obj)
	}
}
