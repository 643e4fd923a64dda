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

// pause holds what is paused, as the loop has applied it. It belongs to the goroutine of the loop.
type pause[Obj any] struct {
	// whole: nothing is started.
	whole bool
	// objects is the predicate of PauseObjects, nil if there is none; keys are those of PauseKeys.
	objects func(Obj) bool
	keys    map[string]struct{}
}

// some reports whether single objects are paused.
func (p *pause[Obj]) some() bool { return p.objects != nil || len(p.keys) > 0 }

// pauseCall is a call of Pause, PauseObjects or Resume.
type pauseCall[Obj any] struct {
	whole   bool
	objects func(Obj) bool
	// all: the keys of PauseKeys are resumed, too.
	all bool
}

// pausing holds what is paused, as the callers see it: the loop has applied it, or is about to.
type pausing struct {
	mu   sync.Mutex
	keys map[string]struct{}
	// some: PauseObjects was called, and not Resume since.
	some bool
}

// Pause stops the reconciler from starting anything: updates, deletions, retries and prunes. Running
// operations finish, and their outcomes are written. Changes made meanwhile wait in the table,
// deletions in its graveyard, and are reconciled after [Loop.Resume]. Health reports the pause.
//
// Pause replaces an earlier [Loop.PauseObjects]. It returns at once, before the loop has applied it.
// Safe from any goroutine.
func (l *Loop[Obj]) Pause() {
	l.callPause(pauseCall[Obj]{whole: true})
}

// PauseObjects stops the reconciler from starting anything for the objects for which paused returns
// true. Their status does not change, their deletions and retries wait, and health reports how many
// are paused. Each of them uses memory while it waits. Other objects are not affected. Prunes go on:
// they get paused objects as wanted ones, but a prune may carry out a deletion that is paused.
//
// A later call replaces an earlier one, and an earlier [Loop.Pause]. nil is the same as
// [Loop.Resume]. The goroutine of the loop calls paused when the turn of an object comes; it must
// return the same for an object until the next call of PauseObjects. PauseObjects returns at once,
// before the loop has applied it. Safe from any goroutine.
func (l *Loop[Obj]) PauseObjects(paused func(obj Obj) bool) {
	l.callPause(pauseCall[Obj]{objects: paused, all: paused == nil})
}

// Resume ends every pause, also those of [Loop.PauseObjects] and [Loop.PauseKeys]. What had waited is
// due at once. It returns before the loop has applied it. Safe from any goroutine.
func (l *Loop[Obj]) Resume() { l.callPause(pauseCall[Obj]{all: true}) }

// PauseKeys pauses the objects with the given keys as [Loop.PauseObjects] does, in addition to those
// that are paused already. The keys are as for [Loop.Explain]; more than [inspect.MaxKeys] are an
// error.
//
// It returns how many objects it found. The error joins one for each of the other keys:
// [inspect.ErrNotFound] if neither the table nor the reconciler has the key. Such a key is not
// paused, also if an object with it is inserted later. For a key that is not in the table, PauseKeys
// asks the loop, which may have its deletion, for at most 100 ms; if the loop does not answer, the
// error wraps an *[inspect.BusyError].
//
// It returns before the loop has applied the pause. Safe from any goroutine.
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

// known returns the keys of the objects that texts name, and an error for each text for which neither
// the table nor the loop has an object.
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

// ResumeKeys ends the pause of [Loop.PauseKeys] for the objects with the given keys; more than
// [inspect.MaxKeys] are an error. It returns how many it resumed. The error names the keys that
// PauseKeys had not paused. Safe from any goroutine.
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

// pausedBy returns the key that a text names, and whether it is paused. The caller holds the lock of
// pausing.
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

// callPauseKeys hands keys to the loop. The caller holds the lock of pausing, so that calls keep
// their order.
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

// applyPause applies a call, nil if there is none, and then the keys that were paused (true) or
// resumed (false) after it.
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
		// This walks over the entries only if some still wait to be resumed.
		r.core.SetPaused(r.now(), r.keyWaits.NotePaused(r.paused()))
	}
}

// paused returns the predicate for paused objects; nil if none are paused.
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
