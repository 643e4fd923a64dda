// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Config returns the configuration that the loop was made with, with defaults for the fields that
// were not set. Options are returned as they were given; [Loop.Settings] returns the resulting
// settings.
func (l *Loop[Obj]) Config() Config[Obj] { return l.setup.cfg }

// settings holds the current settings of a loop.
type settings struct {
	atomic.Pointer[Settings]
	// changing is held during a call of Reconfigure.
	changing sync.Mutex
}

// Settings returns the current settings. Safe from any goroutine.
func (l *Loop[Obj]) Settings() Settings { return *l.settings.Load() }

// roundLimiter returns the current limiter of rounds.
func (s *settings) roundLimiter() *rate.Limiter { return s.Load().RoundLimiter }

// Reconfigure changes settings before the reconciler runs or while it does. It calls change with a
// copy of the current settings; change modifies the copy, and must not call Reconfigure. Concurrent
// calls happen one after the other.
//
// If the result is invalid, nothing changes; the error names each setting that is wrong and its
// value. New settings apply from the next round on. Running operations are not interrupted. Safe from
// any goroutine.
func (l *Loop[Obj]) Reconfigure(change func(s *Settings)) error {
	l.settings.changing.Lock()
	defer l.settings.changing.Unlock()
	s := l.Settings()
	change(&s)
	if err := s.check(l.setup.cfg.Pruner != nil, l.setup.cfg.Lister != nil); err != nil {
		return fmt.Errorf("reconciler %q: %w", called(l.setup.id), err)
	}
	l.settings.Store(&s)
	l.calls.made.Send()
	return nil
}

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
func (l *Loop[Obj]) Pause() { l.calls.setPause(&pause[Obj]{whole: true}) }

// PauseObjects stops the reconciler from starting anything for the objects for which paused returns
// true. Their status does not change. Their deletions and retries wait, and health reports how many are paused.
// Each of them uses memory while it waits. Prunes go on: they get paused objects as wanted ones, but a prune may carry out a
// deletion that is paused. For waits an object counts as [Attempted] from when its pause begins, whatever it
// waits for; but an operation that runs on that version has to end first, and [Loop.Wait], [Loop.WaitAll] and waits
// for a deletion wait for a change that is not read because no worker is free, or no operation is allowed by
// [Settings].OperationLimiter. A change that has counted as attempted does so also after the pause.
//
// The call replaces every earlier pause; nil is the same as [Loop.Resume]. The goroutine of the loop calls
// paused for each change that it reads and before each operation. When the pause begins, it also calls paused for
// each object that waits or is worked on; if there are many, it does other work in between. paused must return the
// same for an object until the next call. PauseObjects returns at once, before the loop has applied it. Safe from
// any goroutine.
func (l *Loop[Obj]) PauseObjects(paused func(obj Obj) bool) {
	l.calls.setPause(&pause[Obj]{objects: paused})
}

// Resume ends the pause, whether it is one of everything or of objects. What had waited is due at once; if it is
// many objects, the loop makes some due at a time. It returns before the loop has applied it. Safe from any goroutine.
func (l *Loop[Obj]) Resume() { l.calls.setPause(&pause[Obj]{}) }

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
		now := l.calls.pause.Load()
		switch {
		case now.whole:
			return fmt.Errorf("reconciler %q: the whole reconciler is paused: resume it before you pause or resume objects by key", l.setup.id)
		case now.byPredicate():
			return fmt.Errorf("reconciler %q: the program has paused objects with PauseObjects: resume the reconciler before you pause or resume objects by key", l.setup.id)
		case l.calls.pause.CompareAndSwap(now, next):
			l.calls.made.Send()
			return nil
		}
	}
}

// pauseOf returns the pause of the objects that texts name.
func (l *Loop[Obj]) pauseOf(texts []string) *pause[Obj] {
	if len(texts) == 0 {
		return &pause[Obj]{}
	}
	textOf := map[string]string{}
	for _, text := range texts {
		if key := string(l.view.find(text, nil).key); textOf[key] == "" {
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

// setPause replaces the pause.
func (c *calls[Obj]) setPause(p *pause[Obj]) {
	c.pause.Store(p)
	c.made.Send()
}

// applyPause applies the latest pause.
func (r *runner[Obj]) applyPause() {
	p := r.shared.calls.pause.Load()
	if p == r.paused {
		return
	}
	if r.paused.whole && !p.whole && r.resync.Compares() {
		// What was listed before the pause may be long gone.
		r.resync.Adopt(r.life.now())
	}
	r.paused = p
	if p.whole || p.objects != nil {
		r.takeBackQueued()
	}
	r.core.SetPaused(p.objects)
	r.shared.keyWaits.NotePause()
	r.shared.needs.NotePause()
}

// pauses reports whether a single object is paused, but not whether the whole loop is.
func (p *pause[Obj]) pauses(obj Obj) bool { return p.objects != nil && p.objects(obj) }

// acted is how many objects a call with keys acts on, and the errors of the others.
type acted struct {
	n    int
	errs []error
}

func checkKeys(keys []string) error {
	if len(keys) > inspect.MaxKeys {
		return fmt.Errorf("%d keys are too many for one call: at most %d", len(keys), inspect.MaxKeys)
	}
	return nil
}

// notFound returns the error for an unknown key, which may be any text.
func notFound(key string) error {
	return fmt.Errorf("%w: %s", inspect.ErrNotFound, text.Plain(text.Short(key, maxKeyText)))
}

// maxKeyText is the number of bytes of a key that an error has.
const maxKeyText = 256

// Retry makes objects due now that wait for a retry, a requeue, a watch channel or their minimum
// backoff, and retries those that failed for good: the objects with the given keys, or all, if there
// are none. The keys are as for [Loop.Explain]; more than [inspect.MaxKeys] are an error. An open
// breaker still lets only its probes through.
//
// Retry returns how many objects it made due; objects that do not wait are not counted. It waits
// until the loop has applied the call, but not for the operations.
//
// The error joins [inspect.ErrNotFound] for each key that neither the table nor the reconciler has,
// or it is [inspect.ErrNotStarted], [inspect.ErrStopped] or [ErrInOperation]. If ctx ends first, it
// is the error of ctx and, while the loop is busy in a long operation, an [inspect.BusyError] that names it. So give ctx
// a deadline. Safe from any goroutine.
func (l *Loop[Obj]) Retry(ctx context.Context, keys ...string) (int, error) {
	all := make(chan int, 1)
	if err := checkKeys(keys); err != nil {
		return 0, err
	}
	if err := l.mayWait(ctx); err != nil {
		return 0, err
	}
	if !l.life.running.Load() {
		return 0, fmt.Errorf("reconciler %q: %w", l.ID(), inspect.ErrNotStarted)
	}
	told, err := ask(ctx, l.view, func(b *answers[Obj]) (a acted) {
		if len(keys) == 0 {
			b.r.core.RetryAllNow(func(n int) { all <- n })
		}
		for _, key := range keys {
			s := b.facts(key)
			switch {
			case s.info != nil && b.r.core.RetryNow(string(s.key), l.life.now()):
				a.n++
			case s.info == nil && !s.found:
				a.errs = append(a.errs, fmt.Errorf("%w: %s", notFound(key), l.view.absent(&s)))
			}
		}
		return a
	})
	if err == nil && len(keys) == 0 {
		// The loop makes some due at a time, and does other work in between.
		select {
		case told.n = <-all:
		case <-ctx.Done():
			err = ctx.Err()
		case <-l.life.ended:
			err = inspect.ErrStopped
		}
	}
	if err != nil {
		return 0, fmt.Errorf("reconciler %q: %w", l.ID(), err)
	}
	return told.n, errors.Join(told.errs...)
}

// Prune implements [Reconciler].
func (l *Loop[Obj]) Prune() { l.calls.ask(func(a *asked[Obj]) { a.prune = true }) }

// ApproveResync requests a resync now that may delete any number of orphans, whatever [WithOrphanBudget]
// sets. It is for a person who has seen in health that a resync exceeded its budget, and knows why.
//
// It returns false, and does nothing, if the last resync did not exceed its budget. The approval is
// used up by the next listing of the target that works. ApproveResync does not wait for the resync.
// Safe from any goroutine.
func (l *Loop[Obj]) ApproveResync() bool {
	if !l.runner.resync.Refused() {
		return false
	}
	l.calls.ask(func(a *asked[Obj]) { a.approve = true })
	return true
}
