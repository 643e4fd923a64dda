// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// pause is what is paused: everything, some objects, or nothing. A pause never changes: the next one
// replaces it as a whole.
type pause[Obj any] struct {
	// whole: nothing is started.
	whole bool
	// objects reports whether an object is paused; nil if no single objects are.
	objects func(Obj) bool
	// keys are the texts of PauseOnly, in the order of their keys; nil if objects is the predicate of
	// PauseObjects.
	keys []string
}

// byPredicate reports whether the objects of PauseObjects are paused.
func (p *pause[Obj]) byPredicate() bool { return p.objects != nil && p.keys == nil }

// Pause stops the reconciler from starting anything: updates, deletions, retries and prunes. Running
// operations finish, and their outcomes are written. Changes made meanwhile wait in the table,
// deletions in its graveyard, and are reconciled after [Loop.Resume]. Health reports the pause.
//
// Pause replaces an earlier pause of objects. It returns at once, before the loop has applied it. Safe
// from any goroutine.
func (l *Loop[Obj]) Pause() { l.setPause(&pause[Obj]{whole: true}) }

// PauseObjects stops the reconciler from starting anything for the objects for which paused returns
// true. Their status does not change, except that where the rows carry it a refresh marks those that are Done
// as Refreshing. Their deletions and retries wait, and health reports how many are paused. Each of them uses
// memory while it waits. Other objects are not affected. Prunes go on: they get paused objects as wanted ones,
// but a prune may carry out a deletion that is paused. For waits an object counts as [Attempted] from when its
// pause begins, whatever it waits for; but an operation that runs has to end first, and [Loop.Wait] and
// [Loop.WaitAll] wait for a change that is not read because no worker is free.
//
// A later call replaces an earlier one, and an earlier [Loop.Pause] or [Loop.PauseOnly]. nil is the
// same as [Loop.Resume]. The goroutine of the loop calls paused for each object that waits or is
// worked on when the pause begins, and later for each change that it reads; it must return the same for an
// object until the next call of PauseObjects. PauseObjects returns at once, before the
// loop has applied it. Safe from any goroutine.
func (l *Loop[Obj]) PauseObjects(paused func(obj Obj) bool) {
	l.setPause(&pause[Obj]{objects: paused})
}

// Resume ends the pause, whether it is one of everything or of objects. What had waited is due at once.
// It returns before the loop has applied it. Safe from any goroutine.
func (l *Loop[Obj]) Resume() { l.setPause(&pause[Obj]{}) }

// PauseOnly is [Loop.PauseObjects] for callers that have no type of objects, such as the commands of an
// operator: it pauses exactly the objects with the given keys, and ends the pause of others that an
// earlier call of PauseOnly paused. The keys are as for [Loop.Explain]; an object need not exist yet.
// Snapshot lists them.
//
// The error is that of more than [inspect.MaxKeys] keys, or that everything is paused, or that
// [Loop.PauseObjects] is in force: a call with keys does not end such a pause, use [Loop.Resume]. Safe
// from any goroutine.
func (l *Loop[Obj]) PauseOnly(keys ...string) error {
	if err := checkKeys(keys); err != nil {
		return err
	}
	next := l.pauseOf(keys)
	for {
		now := l.pause.Load()
		switch {
		case now.whole:
			return fmt.Errorf("reconciler %q: %w", l.ID(), errPausedWhole)
		case now.byPredicate():
			return fmt.Errorf("reconciler %q: %w", l.ID(), errPausedObjects)
		}
		if l.pause.CompareAndSwap(now, next) {
			l.calls.made.Send()
			return nil
		}
	}
}

var (
	errPausedWhole   = errors.New("the whole reconciler is paused: resume it before you pause or resume objects by key")
	errPausedObjects = errors.New("the program has paused objects with PauseObjects: resume the reconciler before you pause or resume objects by key")
)

// pauseOf returns the pause of the objects that texts name.
func (l *Loop[Obj]) pauseOf(texts []string) *pause[Obj] {
	if len(texts) == 0 {
		return &pause[Obj]{}
	}
	textOf := map[string]string{}
	for _, text := range texts {
		if key := string(l.view.glance(text, nil).key); textOf[key] == "" {
			textOf[key] = text
		}
	}
	p := &pause[Obj]{objects: func(obj Obj) bool {
		_, paused := textOf[string(l.rows.Key(obj))]
		return paused
	}}
	for _, key := range slices.Sorted(maps.Keys(textOf)) {
		p.keys = append(p.keys, textOf[key])
	}
	return p
}

func (l *Loop[Obj]) setPause(p *pause[Obj]) {
	l.pause.Store(p)
	l.calls.made.Send()
}

// applyPause applies the latest pause.
func (r *runner[Obj]) applyPause() {
	p := r.pause.Load()
	if p == r.paused {
		return
	}
	r.paused = p
	if p.whole || p.objects != nil {
		r.takeBackQueued()
	}
	r.core.SetPaused(r.now(), p.objects)
	r.keyWaits.NotePause()
}

// isPaused reports whether an object is paused, but not whether the whole loop is.
func (r *runner[Obj]) isPaused(obj Obj) bool { return r.paused.objects != nil && r.paused.objects(obj) }
