// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/problems"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// recheckAfter is the time after which outputs in error are compared again: what was wrong with the row of
// another writer, or with what a function of the program reads, may be gone.
const recheckAfter = 10 * time.Second

func (d *Derived[In, Out]) run(ctx context.Context, health cell.Health) error {
	if !d.running.TryLock() {
		return fmt.Errorf("%s: is running already", d.cfg.Name)
	}
	defer d.running.Unlock()
	if d.changes == nil {
		return fmt.Errorf("%s: has been closed", d.cfg.Name)
	}
	d.begin()
	defer d.end()
	d.reported = reported{}
	ctx, cancel := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() { d.keepReporting(ctx, health) })
	defer reports.Wait()
	defer cancel()
	if guard.Returned(func() { d.rounds(ctx, health) }) {
		return nil
	}
	d.report(health)
	return fmt.Errorf("%s: %w", d.cfg.Name, guard.ErrGoexit)
}

// keepReporting tells health of a function of the program that hangs.
func (d *Derived[In, Out]) keepReporting(ctx context.Context, health cell.Health) {
	if health == nil {
		return
	}
	again := time.NewTicker(guard.LongAfter)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			d.report(health)
		case <-ctx.Done():
			return
		}
	}
}

// hangs describes a function of the program that hangs; empty if none does.
func (d *Derived[In, Out]) hangs() string {
	return d.function.LongBy(func(what guard.Function, key string) string {
		if what == guard.Derive || what == guard.Rank {
			return d.in.KeyName([]byte(key))
		}
		return d.out.KeyName([]byte(key))
	})
}

func (d *Derived[In, Out]) rounds(ctx context.Context, health cell.Health) {
	for ctx.Err() == nil {
		more, initialized := d.round(ctx)
		d.report(health)
		if d.recheck == nil && d.wrong.Len() > 0 {
			d.recheck = time.After(recheckAfter)
		}
		select {
		case <-ctx.Done():
		case <-more:
		case <-initialized:
		case <-d.wake:
		case <-d.recheck:
			d.recheck = nil
			d.ask(func(c *calls) { c.again.add(again{places: marked(d.wrong.Keys())}) })
		}
	}
}

func (d *Derived[In, Out]) begin() {
	d.mu.Lock()
	d.progress.condition = inspect.ConditionRunning
	if d.progress.started.IsZero() {
		d.progress.started = time.Now()
	}
	// Another writer may have changed the output since the last run.
	d.calls.compareAll = true
	d.mu.Unlock()
	if d.cfg.Registry != nil {
		d.cfg.Registry.Add(d)
	}
}

func (d *Derived[In, Out]) end() {
	if d.cfg.Registry != nil {
		d.cfg.Registry.Remove(d)
	}
	d.disconnect()
	d.stopped()
}

// stopped ends the waits.
func (d *Derived[In, Out]) stopped() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress.condition = inspect.ConditionStopped
	d.progress.tell()
}

// round derives one snapshot of the input and writes what follows from it. The channels are closed
// when there is more to do: more changes, or the input is initialised.
func (d *Derived[In, Out]) round(ctx context.Context) (more, initialized <-chan struct{}) {
	if d.isPaused() {
		return nil, nil
	}
	txn := d.cfg.DB.ReadTxn()
	changes, more := d.changes.Next(txn)
	for change := range changes {
		d.read = max(d.read, change.Revision)
		d.derive(change.Object, change.Deleted)
		if ctx.Err() != nil {
			return more, nil // the rest is part of the next snapshot
		}
	}
	revision := d.in.Table.Revision(txn)
	if !d.complete {
		// Rows that were deleted before the derivation was made are not read.
		d.complete, d.read = true, max(d.read, revision)
	}
	// A commit is visible before the iterator knows of it. Then read is below the revision of the
	// snapshot, and the next round reads the rest.
	ready, initialized := d.in.Table.Initialized(txn)
	if ready {
		initialized = nil
		ready = revision <= d.read
	}
	asked := d.takeCalls()
	d.deriveAgain(ctx, txn, asked)
	if asked.compareAll {
		d.compareAll()
	}
	d.write(ctx, ready)
	return more, initialized
}

// deriveAgain derives rows that did not change, and has output rows compared, as the calls asked. Rows that the
// iterator has not returned yet, although the snapshot has them, come with the next round.
func (d *Derived[In, Out]) deriveAgain(ctx context.Context, txn statedb.ReadTxn, asked calls) {
	for _, key := range slices.Sorted(maps.Keys(asked.again.places)) {
		if at := d.claims.places[key]; at != nil {
			d.claims.touch(at)
		}
	}
	if asked.all {
		for row, revision := range d.in.Table.All(txn) {
			if ctx.Err() != nil {
				d.ask(func(c *calls) { c.all = true }) // for the next run
				return
			}
			if revision <= d.read {
				d.derive(row, false)
			}
		}
		return
	}
	for key := range asked.again.rows {
		if row, revision, found := d.in.ByKey(txn, []byte(key)); found && revision <= d.read {
			d.derive(row, false)
		}
	}
}

// derive takes over the new version of an input row, or its deletion.
func (d *Derived[In, Out]) derive(row In, deleted bool) {
	key, err := d.keyOf(row)
	if err != nil {
		// The table has the row by a key, so its index is not a function of the row.
		d.cfg.Log.Error("primary index of the input failed", "error", err)
		return
	}
	if deleted {
		d.take(key, row, true, nil, nil, nil, nil)
		return
	}
	var (
		wants   []wanted[Out]
		rank    rank
		keyless error
	)
	// Deferred, so that the row is in error also if the function ends the goroutine.
	fail := guard.ErrGoexit
	defer func() { d.take(key, row, false, wants, rank, keyless, fail) }()
	wants, rank, keyless, fail = d.call(key, row)
}

// take takes over what was derived of an input row, or why it could not be.
func (d *Derived[In, Out]) take(key string, row In, deleted bool, wants []wanted[Out], rank rank, keyless, fail error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if fail != nil {
		d.keep(key, fail) // what was derived before stays
		return
	}
	d.progress.derived++
	d.claims.set(key, row, rank, wants)
	if deleted || len(wants) > 0 {
		delete(d.nothing, key)
	} else if !d.pruned {
		d.nothing[key] = struct{}{}
	}
	if keyless != nil {
		d.keep(key, keyless)
	} else if d.failed.Of(key) != nil {
		d.healed[key] = struct{}{}
	}
}

func (d *Derived[In, Out]) keyOf(row In) (key string, err error) {
	defer d.catch(&err, "", true)
	return string(d.in.Key(row)), nil
}

// catch is deferred around the functions of the program: it sets err if one has panicked, and logs the stack
// if that is news of the row with this key.
func (d *Derived[In, Out]) catch(err *error, key string, known bool) {
	if r := recover(); r != nil {
		log := d.cfg.Log
		if known {
			log = nil
		}
		*err = fmt.Errorf("panic: %s", guard.Panicked(r, log, "function of a derivation panicked", "key", text.Name(key)))
	}
}

// call calls the functions of the program. keyless is an error if rows without a key were returned, which
// are left out.
func (d *Derived[In, Out]) call(key string, row In) (wants []wanted[Out], rank rank, keyless, err error) {
	d.function.Begin(guard.Derive, key)
	defer d.function.End()
	defer d.catch(&err, key, d.failed.Of(key) != nil)
	outs, err := d.f(row)
	if err != nil {
		return nil, nil, nil, errors.New(text.Cut(outcome.TextOf(err), reconciler.MaxErrorText))
	}
	wants = make([]wanted[Out], 0, len(outs))
	for i, out := range outs {
		if made, err := d.out.KeyOf(out); err == nil {
			wants = append(wants, wanted[Out]{string(made), out})
		} else if keyless == nil {
			keyless = fmt.Errorf("row %d of %d that the function returned is left out: %w", i, len(outs), err)
		}
	}
	if err := twice(wants); err != nil || d.rank == nil || len(wants) == 0 {
		return wants, nil, keyless, err
	}
	d.function.Next(guard.Rank)
	rank, err = d.rank(row)
	return wants, rank, keyless, err
}

// twice returns an error if two rows have one key.
func twice[Out any](wants []wanted[Out]) error {
	if len(wants) < 2 {
		return nil
	}
	seen := make(map[string]bool, len(wants))
	for _, w := range wants {
		if seen[w.key] {
			return fmt.Errorf("the function returned two rows with the key %s", text.Name(w.key))
		}
		seen[w.key] = true
	}
	return nil
}

// keep keeps an error of an input. The caller holds mu.
func (d *Derived[In, Out]) keep(key string, err error) {
	d.progress.failed++
	delete(d.healed, key)
	err = fmt.Errorf("row %s of table %q: %w", d.in.KeyName([]byte(key)), d.in.Table.Name(), err)
	if d.failed.Keep(key, err, time.Now()) {
		d.cfg.Log.Warn("row is not derived", "key", text.Name(key), "error", err)
	}
}

// reported is what health was told, if told is true.
type reported struct {
	told, paused bool
	errors       uint64
	hangs        string
}

// report tells health about the errors, and about a function that hangs, if that has changed.
func (d *Derived[In, Out]) report(health cell.Health) {
	d.reporting.Lock()
	defer d.reporting.Unlock()
	hangs := d.hangs()
	d.mu.Lock()
	now, n, errs := reported{true, d.calls.paused, d.errorVersion(), hangs}, d.numErrors(), error(nil)
	news := now != d.reported
	if n > 0 && news {
		errs = problems.Joined(&d.failed, &d.wrong)
	}
	d.mu.Unlock()
	if health == nil || !news {
		return
	}
	d.reported = now
	paused := ""
	if now.paused {
		paused = ", paused"
	}
	if hangs != "" {
		errs = errors.Join(errors.New(hangs), errs)
		n++
	}
	if n > 0 {
		health.Degraded(fmt.Sprintf("%d error(s)%s", n, paused), errs)
		return
	}
	health.OK(fmt.Sprintf("OK, deriving table %q from table %q%s", d.output.Name(), d.in.Table.Name(), paused))
}
