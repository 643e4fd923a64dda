// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/resync"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Readiness is a part of a program that has something to take over when it starts: a [Loop], a table that is filled
// ([Filled]), or one of the program's own. Ready blocks until that is over, and returns what could not be applied; or it
// returns an error, with what it waits for, when ctx ends. It is safe from any goroutine.
type Readiness interface {
	Ready(ctx context.Context) (inspect.Unapplied, error)
}

// Ready blocks until all parts of a program are ready, and returns what each returns, in their order. The error joins those
// of the parts that are not, when ctx ends or one of them cannot be any more, such as a loop that has stopped. It is nil
// although objects fail: see [Loop.Ready]. Without parts it returns at once; a nil one is an error. Safe from any goroutine.
//
// Loops suffice where each table that matters is that of a loop: its sources and derivations are waited for.
func Ready(ctx context.Context, parts ...Readiness) ([]inspect.Unapplied, error) {
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rest, errs := make([]inspect.Unapplied, len(parts)), make([]error, len(parts))
	for i, part := range parts {
		if v := reflect.ValueOf(part); part == nil || v.Kind() == reflect.Pointer && v.IsNil() {
			errs[i] = fmt.Errorf("part %d of %d to wait for is nil", i+1, len(parts))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return rest, err
	}
	var running sync.WaitGroup
	var first sync.Once
	gaveUp := -1
	for i, part := range parts {
		running.Go(func() {
			if rest[i], errs[i] = part.Ready(within); errs[i] != nil && within.Err() == nil {
				first.Do(func() { gaveUp = i; cancel(errGaveUp) })
			}
		})
	}
	running.Wait()
	for i, err := range errs {
		// These have ended for that one only.
		if gaveUp >= 0 && i != gaveUp && (errors.Is(err, errGaveUp) || errors.Is(err, context.Canceled)) {
			errs[i] = nil
		}
	}
	return rest, errors.Join(errs...)
}

// errGaveUp is the cause of the end of the context of the other parts when one cannot be ready.
var errGaveUp = errors.New("another part cannot be ready")

// Filled returns a part for [Ready] that is ready when a table is initialised: when all sources and derivations that fill it
// are complete. It has nothing to apply.
func Filled[Obj any](db *statedb.DB, table statedb.Table[Obj]) Readiness {
	return filled[Obj]{db, table}
}

type filled[Obj any] struct {
	db    *statedb.DB
	table statedb.Table[Obj]
}

// Ready implements [Readiness].
func (f filled[Obj]) Ready(ctx context.Context) (inspect.Unapplied, error) {
	if err := f.await(ctx, nil); err != nil {
		return inspect.Unapplied{}, fmt.Errorf("table %q: not ready: %w", f.table.Name(), err)
	}
	return inspect.Unapplied{}, nil
}

// await blocks until the table is initialised, or ended is closed.
func (f filled[Obj]) await(ctx context.Context, ended <-chan struct{}) error {
	for {
		txn := f.db.ReadTxn()
		initialized, changed := f.table.Initialized(txn)
		if initialized {
			return nil
		}
		select {
		case <-changed:
		case <-ended:
			return inspect.ErrStopped
		case <-ctx.Done():
			return fmt.Errorf("the table is not initialised, it waits for %s: %w",
				strings.Join(f.table.PendingInitializers(txn), ", "), context.Cause(ctx))
		}
	}
}

// Ready blocks until the loop has taken over the target: the table is initialised, so what fills it is complete; every row
// that it had then was attempted at least once; the first prune or resync is over, if the loop makes any by itself; and so
// are the first attempts at the deletions and repairs that the resync has asked for. Then a program says that it is ready:
// to a probe, with a file, or with a message to a neighbour. It returns the objects of these rows that are not in the
// target: failing, blocked and paused ones, which hold up nothing. Rows that are written after the first call of Ready on a
// table that is initialised are not waited for: a loop that was ready stays so. A loop that is in an operation, without
// workers, has 100 ms to list the objects.
//
// If a table is derived, or fed by a source, its initialisers end when these are complete. So Ready covers the sources and
// derivations before the loop. The function [Ready] waits for several loops at once.
//
// When ctx ends first, the error wraps that of ctx, and says what is waited for: initialisers, rows, the first prune or
// resync and why it failed, or what that has found. After the loop has stopped the error is [inspect.ErrStopped]; in an
// operation of this reconciler [ErrInOperation]. Before the reconciler runs, Ready waits for it to start. Safe from any
// goroutine.
func (l *Loop[Obj]) Ready(ctx context.Context) (inspect.Unapplied, error) {
	if err := l.mayWait(ctx); err != nil {
		return inspect.Unapplied{}, err
	}
	if err := l.awaitInitialized(ctx); err != nil {
		return inspect.Unapplied{}, fmt.Errorf("reconciler %q: not ready: %w", called(l.setup.id), err)
	}
	// Of the first call: what is written after it holds up no other.
	revision := l.rows.Revision()
	if !l.life.complete.CompareAndSwap(nil, &revision) {
		revision = *l.life.complete.Load()
	}
	if attempted, _ := l.progress.Now(); attempted < revision {
		if rest, err := l.Wait(ctx, revision, Attempted); err != nil {
			return rest, err
		}
	}
	if l.looksByItself() {
		select {
		case <-l.life.tookOver:
		case <-l.life.ended:
			return inspect.Unapplied{}, inspect.ErrStopped
		case <-ctx.Done():
			return inspect.Unapplied{}, fmt.Errorf("reconciler %q: not ready: %s: %w", called(l.setup.id), l.awaitsLook(ctx), context.Cause(ctx))
		}
	}
	// It is ready even if the loop is in an operation and cannot answer.
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	rest, err := l.Wait(ctx, revision, Attempted)
	if errors.Is(err, inspect.ErrStopped) {
		return rest, err
	}
	return rest, nil
}

// looksByItself reports whether the loop prunes or resyncs without being asked.
func (l *shared[Obj]) looksByItself() bool {
	cfg := &l.setup.cfg
	return cfg.Lister != nil || cfg.Pruner != nil && l.settings.Load().PruneInterval > 0
}

// awaitsLook says why the first prune or resync is not over.
func (l *Loop[Obj]) awaitsLook(ctx context.Context) string {
	look := "prune"
	if l.setup.cfg.Lister != nil {
		look = "resync"
	}
	switch s := l.Snapshot(ctx); {
	case l.Figures().Paused:
		return "the reconciler is paused"
	case l.stats.state.Load().hasLooked:
		return "what the first resync has found is not deleted or repaired yet"
	case s.PruneFailure != "":
		return "the first " + look + " has failed: " + s.PruneFailure
	}
	return "the first " + look + " is not over"
}

// noteLook notes that a prune or resync is over.
func (r *runner[Obj]) noteLook(err error) {
	if resync.IsJudged(err) && r.left.upTo == 0 {
		// The deletions of orphans come after what the table has.
		r.left.upTo = r.shared.rows.Revision() + 1
	}
}

// endTakeover notes that what the first look has found was attempted.
func (r *runner[Obj]) endTakeover() {
	if r.left.upTo > 0 && !watch.IsClosed(r.life.tookOver) && !r.hasFound() {
		close(r.life.tookOver)
	}
}

// hasFound reports whether an operation is to come that a resync has asked for.
func (r *runner[Obj]) hasFound() bool {
	return r.shared.refresher.Repairing() || r.core.Index.Figures().Found > 0
}
