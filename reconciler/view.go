// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"sync/atomic"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/journal"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// view tells how a loop and its objects are. Its methods are safe from any goroutine, but for those
// that say that they belong to the goroutine of the loop; the others ask that one for what they
// need of it.
type view[Obj comparable] struct {
	*life
	identity inspect.ID
	rows     *rows.Rows[Obj]
	journal  *journal.Journal[Obj]
	stats    *stats[Obj]
	workers  *workers[Obj]
	progress *progress.Progress[account[Obj]]
	sharing  *sharing[Obj]
	pausing  *pausing
	tally    *execute.Tally
	settings *atomic.Pointer[configuration]
	scope    *atomic.Pointer[execute.Scope[Obj]]
	// ask has the goroutine of the loop call answer, or says why it did not: see askBriefly.
	ask func(ctx context.Context, answer func()) error

	// The rest belongs to the goroutine of the loop.

	core  *core.Core[Obj]
	pause *pause[Obj]
	// paused returns what says which objects are paused, nil if none are; stand notes where the loop
	// stands, observed returns up to which revision it has looked.
	paused   func() func(Obj) bool
	stand    func(*roundStanding)
	observed func() statedb.Revision
}

// newView returns the view of a loop.
func newView[Obj comparable](l *Loop[Obj]) *view[Obj] {
	return &view[Obj]{
		life: &l.life, identity: l.ID(), rows: l.rows, journal: l.journal, stats: &l.stats, workers: l.workers, progress: &l.progress,
		sharing: &l.sharing, pausing: &l.pausing, tally: &l.execute.Tally, settings: &l.settings.Pointer, scope: &l.scope,
		ask: func(ctx context.Context, answer func()) error {
			_, err := askBriefly(ctx, l, func(*books[Obj]) struct{} { answer(); return struct{}{} })
			return err
		},
		core: l.runner.core, pause: &l.runner.pause, paused: l.runner.paused, stand: l.runner.stand,
		observed: func() statedb.Revision { return l.runner.observer.Revision() },
	}
}

// told returns what the goroutine of the loop answers; the error is that of askBriefly. An answer
// that comes too late is dropped.
func told[Obj comparable, T any](ctx context.Context, v *view[Obj], answer func() T) (T, error) {
	answers := make(chan T, 1)
	if err := v.ask(ctx, func() { answers <- answer() }); err != nil {
		var none T
		return none, err
	}
	return <-answers, nil
}

// busy says what the loop itself is running; empty if nothing.
func (l *Loop[Obj]) busy() string { return l.view.busy() }
