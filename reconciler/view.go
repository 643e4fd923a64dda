// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"
	"context"
	"sync/atomic"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/journal"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/metrics"
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
	progress *progress.Progress[remainder[Obj]]
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
	// paused returns what says which objects are paused, nil if none are; recordState notes where the loop
	// stands, observed returns up to which revision it has looked.
	paused      func() func(Obj) bool
	recordState func(*loopState)
	observed    func() statedb.Revision
}

// newView returns the view of a loop.
func newView[Obj comparable](l *Loop[Obj]) *view[Obj] {
	return &view[Obj]{
		life: &l.life, identity: l.ID(), rows: l.rows, journal: l.journal, stats: &l.stats, workers: l.workers, progress: &l.progress,
		sharing: &l.sharing, pausing: &l.pausing, tally: &l.execute.Tally, settings: &l.settings.Pointer, scope: &l.scope,
		ask: func(ctx context.Context, answer func()) error {
			_, err := askBriefly(ctx, l, func(*answers[Obj]) struct{} { answer(); return struct{}{} })
			return err
		},
		core: l.runner.core, pause: &l.runner.pause, paused: l.runner.paused, recordState: l.runner.recordState,
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

// ID says which reconciler this is. It implements [inspect.Inspector].
func (l *Loop[Obj]) ID() inspect.ID { return l.cfg.id(&l.opts) }

// Explain says why an object is, or is not, reconciled: in which state it is and since
// when, how often it failed and with what, when it is tried again or what it waits for,
// what is ahead of it, and what its last operations came back with.
//
// The key is a text in quotes, or bytes in hexadecimal after "0x", or else what the table's
// primary index makes of the text, as with the commands of statedb, or the text as it is: the
// first of these of which there is an object. What the reconciler shows as a key, in
// [inspect.Explanation], [inspect.ObjectLine] and [inspect.Event], means that object alone; a program that has an object
// passes "0x" and the key in hexadecimal. What has been deleted, too, is told of as long as
// the reconciler has it to do.
//
// The cost does not grow with the table. The reconciler is asked between two rounds; one
// that is stuck in an operation is given 100 ms, and then named with what it does, while
// the rest is told from the row. Safe from any goroutine.
func (l *Loop[Obj]) Explain(ctx context.Context, key string) inspect.Explanation {
	return l.view.explain(ctx, key)
}

// Objects lists objects, a page at a time, the longest unwritten first; deletions that are
// not carried out in the order in which they came, up to the first 1000. The cost of a page
// is that of the rows that are looked at for it, 20,000 at the most. A page ends early at 768 KiB
// of keys and reasons. Safe from any goroutine.
func (l *Loop[Obj]) Objects(ctx context.Context, q inspect.ObjectQuery) (inspect.ObjectPage, error) {
	return l.view.objects(ctx, q)
}

// Keys returns the texts of up to limit keys that begin with a prefix, in the order of the
// table. It looks at the first 20,000 rows. Safe from any goroutine.
func (l *Loop[Obj]) Keys(prefix string, limit int) []string { return l.view.keys(prefix, limit) }

// Events returns what the journal has of operations, the oldest first. An event that is
// older than the journal reaches is not among them; [WithJournal] says how far that is. It
// reaches further for failures, so that what came after one of them may be missing.
// The key is as [Loop.Explain] takes it. Safe from any goroutine; it does not wait for a
// running operation.
func (l *Loop[Obj]) Events(q inspect.EventQuery) []inspect.Event { return l.view.events(q) }

// Journal returns the latest rounds that had something to do, the oldest first: as
// many as [WithJournal] keeps. Safe from any goroutine; it does not wait for a running
// operation. The cost is that of what it returns.
func (l *Loop[Obj]) Journal() []inspect.Round { return l.journal.Rounds() }

// Snapshot says how the reconciler does as a whole. What it says of the loop is as of one
// moment between two rounds, or as of the end of the last round if the loop does not answer
// within 100 ms, being stuck in an operation; Busy says in which. The cost does not grow with
// the number of objects. Safe from any goroutine.
func (l *Loop[Obj]) Snapshot(ctx context.Context) inspect.Snapshot { return l.view.snapshot(ctx) }

// Figures returns what the loop has counted, and how it stands. It implements
// [metrics.Source].
func (l *Loop[Obj]) Figures() metrics.Figures { return l.view.figures() }

// Timeline returns how the loop stood in each of the last ten minutes' seconds, the oldest
// first; fewer if it has not run for so long, none before it runs.
func (l *Loop[Obj]) Timeline() []inspect.Sample { return l.view.timeline() }

// events is [Loop.Events].
func (v *view[Obj]) events(q inspect.EventQuery) []inspect.Event {
	if q.Key == "" {
		events, _ := v.eventsOf(nil, q)
		return events
	}
	txn := v.rows.DB.ReadTxn()
	for _, key := range v.rows.Keys(q.Key) {
		events, _ := v.eventsOf(&key, q)
		if _, _, found := v.rows.ByKey(txn, key); found || len(events) > 0 {
			return events
		}
	}
	return nil
}

// eventsOf returns the events of the object with a key, of all objects if that is nil, that a
// query asks for besides. latest: the last of them is the last operation there was on these objects.
func (v *view[Obj]) eventsOf(key *index.Key, q inspect.EventQuery) (events []inspect.Event, latest bool) {
	if key == nil {
		return v.journal.Events(nil, q.Since, q.Limit)
	}
	return v.journal.Events(func(obj Obj) bool { return bytes.Equal(v.rows.Key(obj), *key) }, q.Since, q.Limit)
}
