// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"sync/atomic"
	"time"

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
	identity inspect.ID
	rows     *rows.Rows[Obj]
	journal  *journal.Journal[Obj]
	book     *book[Obj]
	pool     *pool[Obj]
	progress *progress.Progress[account[Obj]]
	sharing  *sharing[Obj]
	pausing  *pausing
	tally    *execute.Tally
	settings *atomic.Pointer[configuration]
	scope    *atomic.Pointer[execute.Scope[Obj]]
	running  *atomic.Bool
	ended    <-chan struct{}
	// started is the zero of the loop's clock; set when it runs.
	started *time.Time
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
		identity: l.ID(), rows: l.rows, journal: l.journal, book: &l.book, pool: l.pool, progress: &l.progress,
		sharing: &l.sharing, pausing: &l.pausing, tally: &l.calling.Tally, settings: &l.settings, scope: &l.scope, running: &l.running,
		ended: l.ended, started: &l.started,
		ask: func(ctx context.Context, answer func()) error {
			_, err := askBriefly(ctx, l, func(*books[Obj]) struct{} { answer(); return struct{}{} })
			return err
		},
		core: l.core, pause: &l.pause, paused: l.paused, stand: l.stand,
		observed: func() statedb.Revision { return l.observer.Revision() },
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

// now is the loop's clock.
func (v *view[Obj]) now() time.Duration { return time.Since(*v.started) }

// timeOf returns what the wall clock shows at a time of the loop's clock.
func (v *view[Obj]) timeOf(at time.Duration) time.Time { return v.started.Add(at) }

// stopped reports whether the loop has come to its end.
func (v *view[Obj]) stopped() bool {
	select {
	case <-v.ended:
		return true
	default:
		return false
	}
}

// busy says what the loop itself is running; empty if nothing.
func (l *Loop[Obj]) busy() string { return l.view.busy() }
