// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/internal/resync"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Ready blocks until the loop has taken over the target: the table is initialised, so what fills it is complete; every
// row that it had then was attempted at least once; and the first prune or resync after that is over, if the loop makes
// any by itself. Then a program says that it is ready: to a probe, with a file, or with a message to a neighbour. It
// returns the objects of these rows that are not in the target: failing, blocked and paused ones, which hold up nothing.
// Rows that are written after the first call of Ready on a table that is initialised are not waited for: a loop that was
// ready stays so. A loop that is in an operation, without workers, has 100 ms to list the objects.
//
// If a table is derived, or fed by a source, its initialisers end when these are complete. So Ready of each loop in turn
// covers sources and derivations.
//
// When ctx ends first, the error wraps that of ctx, and says what is waited for: initialisers, rows, or the first prune or
// resync and why it failed. After the loop has stopped the error is [inspect.ErrStopped]; in an operation of this
// reconciler [ErrInOperation]. Before the reconciler runs, Ready waits for it to start. Safe from any goroutine.
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
		case <-l.life.looked:
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
	if l.Figures().Paused {
		return "the reconciler is paused"
	}
	if failure := l.Snapshot(ctx).PruneFailure; failure != "" {
		return "the first " + look + " has failed: " + failure
	}
	return "the first " + look + " is not over"
}

// noteLook notes that a prune or resync is over.
func (r *runner[Obj]) noteLook(err error) {
	// Objects that are left alone have no usable key. All others were judged.
	over := err == nil || errors.Is(err, resync.ErrLeftAlone)
	if over && !r.hasLooked {
		// The deletions of orphans come after what the table has.
		r.hasLooked, r.left.upTo = true, r.shared.rows.Revision()+1
		close(r.shared.life.looked)
	}
}
