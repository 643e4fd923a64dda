// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/follow"
	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/statusid"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// maxChanges bounds the changes of the source that are read but not processed. The others stay in the
// source, where several changes of a row become one.
const maxChanges = 1000

// Trigger reconciles objects again when rows of another table, the source, change: a route when its
// device changes, or a policy when one of its groups does. [reconciler.Blocked] is for an object that
// cannot be reconciled yet; a trigger is for one that was reconciled. If an object uses both a
// trigger and [reconciler.Need] on the same source, a change of the source row may run its operation
// twice.
//
// A change is any write of a source row, or its deletion. The trigger calls a function with it, which
// returns queries on the reconciler's table. The rows that these find are handed to the reconciler, as
// [reconciler.Loop.Reapply] does: nothing is written. So Done objects are refreshed, failed and blocked ones are due,
// the success of an operation that started before the change does not count, and rows without a status are left
// alone. An object that keeps failing is tried no more often than its minimum backoff allows, however often the source
// changes.
// A row that the reconciler has not read before its dependency changes is compared with the first listing of
// [reconciler.Config].Lister, as any other.
//
// A trigger works in the background. No wait ([reconciler.Loop.Wait], for example) covers the change of the source:
// such a wait may return while the target has what followed from the old source row.
//
// The function may get several changes of a source row as one, the last, and does not get the
// previous version of the row. So let objects depend on what never changes in a source row, such as
// its key.
//
// If the trigger is made while the reconciler runs, the rows that the source has then count as changed, because objects
// may have been reconciled with older versions. If it is made before, each operation sees them, and only rows that are
// Done already, from an earlier reconciler, are applied again.
//
// A source row with a status changes whenever the status is written: return no query if a change does
// not matter. The source may be the reconciler's own table, but objects that depend on each other in
// a circle are then reconciled forever.
type Trigger[Obj any, Source any] struct {
	loop       *reconciler.Loop[Obj]
	cfg        reconciler.Config[Obj]
	source     statedb.Table[Source]
	dependents func(change statedb.Change[Source]) []statedb.Query[Obj]
	verify     bool
	name       string
	log        *slog.Logger
	start      start

	// mu is held by a run. The fields below outlive a run, so that no change is lost when the trigger
	// is run again.
	mu sync.Mutex
	// rows are the rows of the source. They include the changes that are kept because their
	// dependents could not be found; backoff computes when these are tried again.
	rows    *follow.Table[Source]
	backoff backoff.Exponential
	// read are the changes that were read and are not processed, the oldest first.
	read []statedb.Change[Source]
}

// Config is the configuration of a trigger. Every field is required, except Verify.
type Config[Obj any, Source any] struct {
	// Loop reconciles the objects that depend on the source.
	Loop *reconciler.Loop[Obj]
	// Source is the table whose changes matter. It may be the table of the loop.
	Source statedb.Table[Source]
	// Dependents returns the queries that find the objects in the table of the loop which depend on the changed row; no
	// queries mean that none does. It is called by one goroutine at a time, with no table locked, and may be called
	// again for the same change.
	Dependents func(change statedb.Change[Source]) []statedb.Query[Obj]
	// Verify is for a source that shows what the target has, such as a table of observed devices or routes: the rows are
	// handed to [reconciler.Loop.Verify] instead, 100 ms after the first change of a burst, so that a burst costs one look. The
	// reconciler needs a Lister, and must not set OrphansOnly. Optional.
	Verify bool
}

func (c *Config[Obj, Source]) check() error {
	var errs []error
	missing := func(isNil bool, field string) {
		if isNil {
			errs = append(errs, fmt.Errorf("%s is nil", field))
		}
	}
	missing(c.Loop == nil, "Config.Loop")
	missing(c.Source == nil, "Config.Source")
	missing(c.Dependents == nil, "Config.Dependents")
	if c.Verify && c.Loop != nil && c.Loop.Config().Lister == nil {
		errs = append(errs, errors.New("Config.Verify is true, but the Lister of the reconciler is nil"))
	}
	if c.Verify && c.Loop != nil && c.Loop.Config().OrphansOnly {
		errs = append(errs, errors.New("Config.Verify is true, but OrphansOnly of the reconciler is set"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("trigger: %w", errors.Join(errs...))
	}
	return nil
}

// New returns a trigger that does nothing until [Trigger.Run] is called. It is for programs without a
// hive. The trigger gets every change of the source from now on and, if the loop runs already, what the source has
// now. [Trigger.Close] releases the source.
//
// The name of a trigger is made from its source and its reconciler, so there should be only one
// trigger for a pair. New locks the source for a moment: the caller must not hold a write transaction
// of it. The error names the fields that are missing.
func New[Obj any, Source any](cfg Config[Obj, Source]) (*Trigger[Obj, Source], error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	loop, source, id := cfg.Loop, cfg.Source, cfg.Loop.ID()
	t := &Trigger[Obj, Source]{
		loop: loop, cfg: loop.Config(), source: source, dependents: cfg.Dependents, verify: cfg.Verify,
		name:    "trigger-" + source.Name(),
		backoff: backoff.Exponential{Rand: rand.New(rand.NewPCG(rand.Uint64(), 0))},
	}
	called := id.String()
	if id.Name != "" {
		t.name, called = t.name+"-"+id.Name, id.Name
	}
	t.log = t.cfg.Log.With("reconciler", called, "trigger", t.name)
	var err error
	if t.rows, err = follow.New(t.cfg.DB, source); err != nil {
		return nil, fmt.Errorf("%s: observing table %q: %w", t.name, source.Name(), err)
	}
	t.start = startOf(loop, &t.cfg, source)
	return t, nil
}

// Register makes a trigger and adds its job to the hive. The job is named "trigger-" and the name of
// the source table, with "-" and the reconciler's name appended if it has one. See [Trigger] for what
// a trigger does. Register may be called before and after the hive has started. The error is that of [New].
func Register[Obj any, Source any](params reconciler.Params, cfg Config[Obj, Source]) error {
	t, err := New(cfg)
	if err != nil {
		return err
	}
	params.JobGroup.Add(job.OneShot(t.name, func(ctx context.Context, health cell.Health) error {
		err := t.run(ctx, health)
		if errors.Is(err, guard.ErrGoexit) {
			// A hive drops the health of a job that has ended, and this health has to stay visible.
			<-ctx.Done()
		}
		if ctx.Err() != nil {
			t.Close()
		}
		return err
	}))
	return nil
}

// Run applies the dependents of changes again until ctx ends, and returns nil then. It may be called again
// after that, and continues with the changes that it had not finished and those made meanwhile. It
// returns an error if the trigger is running already, or after [Trigger.Close]. Before the reconciler runs, it waits
// for that. If it finds that the reconciler has stopped, it closes the trigger, and waits for the end of ctx.
//
// If the dependents function panics, the log and health report it with the key of the source row;
// health is Config.Health, or that of the job. The change is kept, and tried again with the backoff
// of [reconciler.WithRetry] or when the row changes again. Other changes are processed as usual. With
// Config.PanicPropagation the panic ends the program. If the function calls runtime.Goexit, health reports it, and
// Run closes the trigger and returns an error.
func (t *Trigger[Obj, Source]) Run(ctx context.Context) error {
	health := t.cfg.Health
	if health != nil {
		health = health.NewScope(t.name)
	}
	return t.run(ctx, health)
}

// Close releases the source. Until then the source keeps deleted rows in memory which the trigger has
// not read. The trigger cannot be run again. Close waits for a running Run, so end its context first;
// it must not be called by the dependents function. A trigger made by [Register] closes itself.
func (t *Trigger[Obj, Source]) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows.Close()
}

func (t *Trigger[Obj, Source]) run(ctx context.Context, health cell.Health) error {
	if !t.mu.TryLock() {
		return fmt.Errorf("%s: is running already", t.name)
	}
	defer t.mu.Unlock()
	if t.rows.Closed() {
		return fmt.Errorf("%s: has been closed", t.name)
	}
	t.rows.SetHealth(health)
	if guard.Returned(func() { t.follow(ctx) }) {
		return nil
	}
	t.rows.Close()
	t.rows.End(guard.ErrGoexit)
	return fmt.Errorf("%s: %w", t.name, guard.ErrGoexit)
}

// follow applies the dependents of changes again until ctx ends.
func (t *Trigger[Obj, Source]) follow(ctx context.Context) {
	for ctx.Err() == nil {
		watch := t.look()
		if t.verify && len(t.read) > 0 {
			pause(ctx, settle)
			watch = t.look()
		}
		outrun, stopped := t.round(ctx)
		t.rows.Report()
		if stopped {
			// The source keeps no deleted rows for it.
			t.rows.Close()
			<-ctx.Done()
			return
		}
		if outrun {
			pause(ctx, maxPause)
		}
		if len(t.read) == 0 {
			t.rows.Wait(ctx, watch)
		}
	}
}

// pause waits. It gives running operations time to end: without it, if the source changes faster than its dependents can be
// reconciled, each change would void the result of the last operation. It also lets a burst settle.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// look reads as many changes as there is room for, starting with kept ones that are due. The returned
// channel is closed when there may be more.
func (t *Trigger[Obj, Source]) look() <-chan struct{} {
	room := maxChanges - len(t.read)
	if again := t.rows.TakeDue(t.rows.Now(), room); len(again) > 0 {
		t.read = slices.Insert(t.read, 0, again...)
		room -= len(again)
	}
	if room == 0 {
		return watch.Closed
	}
	changes, more := t.rows.Next()
	for change := range changes {
		if t.rows.Len() > 0 && t.rows.Supersede(t.rows.Key(change.Object), change, t.loop.Settings().MinBackoff) {
			continue
		}
		t.read = append(t.read, change)
		if room--; room == 0 {
			break
		}
	}
	return more
}

// round hands the dependents of the oldest changes to the loop. The changes stay in read until the loop has all of
// these, so that a round which ctx cuts short is repeated as a whole. outrun is as for marking.hand; stopped: the loop
// has ended, and takes no more objects.
func (t *Trigger[Obj, Source]) round(ctx context.Context) (outrun, stopped bool) {
	m := &marking[Obj]{txn: t.cfg.DB.ReadTxn()}
	dealt := 0
	for dealt < len(t.read) && len(m.rows) < maxRows && ctx.Err() == nil {
		change := t.read[dealt]
		dealt++
		if err := t.find(m, change); err != nil {
			t.keep(change, err)
		}
	}
	outrun, err := m.hand(ctx, t.loop, t.verify)
	if err != nil && ctx.Err() != nil || errors.Is(err, inspect.ErrStopped) {
		return false, ctx.Err() == nil
	}
	if t.rows.Len() > 0 {
		for _, change := range t.read[:dealt] {
			t.rows.Forget(t.rows.Key(change.Object), change.Revision)
		}
	}
	t.read = slices.Delete(t.read, 0, dealt)
	return outrun, false
}

// find adds the rows that depend on a change to those that will be applied again. Each operation of the loop sees what
// the source had before the loop ran: that concerns only rows that were Done before.
func (t *Trigger[Obj, Source]) find(m *marking[Obj], change statedb.Change[Source]) error {
	old := change.Revision <= t.start.source
	if old && t.loop.Outcomes() != nil {
		return nil
	}
	lists, err := t.lists(m.txn, change)
	for _, rows := range lists {
		for object, revision := range rows {
			if !old || t.wasDone(object, revision) {
				m.rows = append(m.rows, dependent[Obj]{object, revision})
			}
		}
	}
	return err
}

// wasDone reports whether a row is Done from an earlier loop: it was there when the trigger was made, or came with the
// status of another process, as when a program restores its rows.
func (t *Trigger[Obj, Source]) wasDone(row Obj, revision statedb.Revision) bool {
	s := t.cfg.GetStatus(row)
	return s.Kind == reconciler.StatusKindDone && (revision <= t.start.table || !statusid.IsOwn(s.ID))
}

// lists returns the rows that the queries of a change find. The error is a panic of the dependents
// function or of a query, such as one with an index that the table does not have.
func (t *Trigger[Obj, Source]) lists(txn statedb.ReadTxn, change statedb.Change[Source]) (lists []iter.Seq2[Obj, statedb.Revision], err error) {
	if !t.cfg.PanicPropagation {
		defer func() {
			if r := recover(); r != nil {
				key, table := t.rows.Key(change.Object), t.source.Name()
				said := guard.Panicked(r, t.log, "dependents function panicked", "table", table, "key", key)
				lists, err = nil, fmt.Errorf("dependents of key %q of table %q: panic: %s", key, table, said)
			}
		}()
	}
	for _, query := range t.dependents(change) {
		lists = append(lists, t.cfg.Table.List(txn, query))
	}
	return lists, nil
}

// keep keeps a change whose dependents could not be found, for another try.
func (t *Trigger[Obj, Source]) keep(change statedb.Change[Source], err error) {
	set := t.loop.Settings()
	t.backoff.Min, t.backoff.Max, t.backoff.Jitter = set.MinBackoff, set.MaxBackoff, set.Jitter
	key, now := t.rows.Key(change.Object), t.rows.Now()
	t.rows.Keep(key, change, err, now, follow.After(now, t.backoff.Delay(t.rows.Failures(key)+1)))
}
