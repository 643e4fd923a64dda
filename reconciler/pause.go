// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

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

// Pause stops the reconciler from starting anything: updates, deletions, retries and
// prunes. What is running is finished and its outcome written; what changes meanwhile
// waits in the table, or, if deleted, in its graveyard, and is reconciled after
// [Loop.Resume]. Health says that it is paused. It takes the place of an earlier
// [Loop.PauseObjects]. It returns at once, before the loop has taken it in. Safe from any
// goroutine.
func (l *Loop[Obj]) Pause() { l.callPause(pauseCall[Obj]{whole: true}) }

// PauseObjects stops the reconciler from starting anything for the objects of which
// paused returns true: they keep their status, their deletions and retries wait, and
// health says how many are paused. Each costs memory while it waits. The rest goes on,
// prunes too, which are given paused objects as wanted ones; a paused deletion may
// be carried out by a prune. A later call takes the place of an earlier one; nil is as
// [Loop.Resume]. paused is called by the goroutine of the reconciler, whenever an
// object's turn comes, and has to say the same of an object until the next call. It
// returns at once, before the loop has taken it in. Safe from any goroutine.
func (l *Loop[Obj]) PauseObjects(paused func(obj Obj) bool) {
	l.callPause(pauseCall[Obj]{paused: paused})
}

// Resume ends every pause: what had waited is due at once. Safe from any goroutine.
func (l *Loop[Obj]) Resume() { l.callPause(pauseCall[Obj]{}) }

func (l *Loop[Obj]) callPause(p pauseCall[Obj]) {
	l.calls.ask(func(a *asked[Obj]) { a.pause = &p })
}

func (l *Loop[Obj]) applyPause(p *pauseCall[Obj]) {
	l.pause = pause{whole: p.whole, objects: p.paused != nil}
	if p.whole || p.paused != nil {
		l.recall()
	}
	l.core.SetPaused(l.now(), l.objectWaits.noting(l, p.paused))
}
