// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/claims"
	"github.com/statekeel/statekeel/internal/edges"
	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/internal/inputs"
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
	if d.main.Iterator == nil {
		return fmt.Errorf("%s: has been closed", d.cfg.Name)
	}
	d.begin()
	defer d.end()
	d.reported = reported{}
	ctx, cancel := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() { every(ctx, guard.LongAfter, func() { d.report(health) }) }) // a function that hangs
	if d.cfg.Registry != nil {
		reports.Go(func() { every(ctx, sweepInterval, func() { d.sweep(ctx) }) })
	}
	defer reports.Wait()
	defer cancel()
	if guard.Returned(func() { d.rounds(ctx, health) }) {
		return nil
	}
	d.report(health)
	return fmt.Errorf("%s: %w", d.cfg.Name, guard.ErrGoexit)
}

// every calls f again and again until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			f()
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
		news := d.round(ctx)
		d.report(health)
		if d.recheck == nil && (d.wrong.Len() > 0 || len(d.joins.further) > 0) {
			// With further inputs also so that an old snapshot is not kept for long: it has rows of all tables.
			d.recheck = time.After(recheckAfter)
		}
		cases := []reflect.SelectCase{receive(d.recheck), receive(ctx.Done()), receive(d.wake)}
		waited := true
		for _, closed := range news {
			cases = append(cases, receive(closed))
			select {
			case <-closed:
				waited = false
			default:
			}
		}
		chosen, _, _ := reflect.Select(cases)
		switch {
		case !d.changed.IsZero(): // the changes of then are not read
		case !waited:
			d.changed = d.began
		case chosen > 2: // one of news
			d.changed = time.Now()
		}
		if chosen == 0 {
			d.recheck = nil
			d.ask(func(c *calls) { c.again.add(again{places: marked(d.wrong.Keys())}) })
		}
	}
}

func receive[Value any](from <-chan Value) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(from)}
}

func (d *Derived[In, Out]) begin() {
	d.mu.Lock()
	d.progress.condition = inspect.ConditionRunning
	d.progress.started = cmp.Or(d.progress.started, time.Now())
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

// round derives one snapshot of the inputs and writes what follows from it. When one of the channels is closed there is
// more to do: more changes, or an input is initialised.
func (d *Derived[In, Out]) round(ctx context.Context) (news []<-chan struct{}) {
	d.inRound <- struct{}{}
	defer func() { <-d.inRound }()
	d.mu.Lock()
	paused := d.calls.paused
	d.mu.Unlock()
	if paused {
		return nil
	}
	d.began = time.Now()
	txn := d.cfg.DB.ReadTxn()
	ready, partial := true, false
	d.at = 0
	origin := d.origin(txn)
	for i, table := range d.tables {
		d.read[i] = table.Revision(txn)
		d.at += d.read[i]
		if ok, initialized := table.Initialized(txn); !ok {
			ready, partial, news = false, partial || i > 0, append(news, initialized)
		}
	}
	if partial && d.joins.last == nil {
		for i := 0; i < len(d.followed) && d.changed.IsZero(); i++ {
			news = append(news, d.followed[i].More(txn)) // since when changes wait
		}
		return news // a look-up would miss rows
	}
	if !d.gather(ctx, txn) {
		return nil
	}
	d.changed = time.Time{}
	for change := range d.main.Next(txn) {
		d.derive(txn, change.Object, change.Deleted, nil)
		if ctx.Err() != nil {
			return nil // the rest is part of the next snapshot
		}
	}
	asked := d.takeCalls()
	if d.deriveAgain(ctx, txn, asked); ctx.Err() != nil {
		return nil // the next run compares the whole output, and derives the rest
	}
	if asked.compareAll {
		d.compareAll()
	}
	d.claim.Origins().Note(d.output.Revision(txn), origin)
	d.write(ctx, ready)
	for _, table := range d.followed {
		news = append(news, table.More(txn))
	}
	return news
}

// origin returns when the oldest of the changes was made that a snapshot has and no round has read: in a table
// that is derived, too, what its row follows from, and else when the run woke, or the round before it began.
func (d *Derived[In, Out]) origin(txn statedb.ReadTxn) time.Time {
	at := cmp.Or(d.changed, d.began)
	for i, table := range d.tables {
		read := d.progress.read[i]
		if table.Revision(txn) == read {
			continue
		}
		if made, known := inputs.OriginsOf(d.cfg.DB, txn, table.Name()).Of(read + 1); known && made.Before(at) {
			at = made
		}
	}
	return at
}

// gather waits until all iterators know of a snapshot, and then has input rows derived again that have looked up what
// has changed since the last one. It returns false if ctx has ended before.
func (d *Derived[In, Out]) gather(ctx context.Context, txn statedb.ReadTxn) bool {
	for _, table := range d.followed {
		if !table.Await(ctx, txn) {
			return false
		}
	}
	d.settled = false
	d.joins.round++
	failed := map[string]bool{} // of a row that several further inputs have
	defer d.function.End()
	for _, one := range d.joins.further {
		d.function.Begin(guard.Index, one.meta().Name())
		one.gather(txn, d.cfg.Log, func(key string, err error) {
			if err == nil && d.joined.Len() == 0 {
				return
			}
			name := one.name(key)
			d.mu.Lock()
			defer d.mu.Unlock()
			if err == nil && !failed[name] {
				d.joined.Forget(name)
			} else if err != nil {
				failed[name] = true
				d.joined.Keep(name, fmt.Errorf("row %s: %w; all rows that look up in the table are derived again", name, err), time.Now())
			}
		})
	}
	if len(d.joins.further) > 0 {
		d.mu.Lock()
		d.joins.last = txn
		d.mu.Unlock()
	}
	return true
}

// deriveAgain derives rows that did not change: those whose look-ups did, and as the calls asked. It also has output
// rows compared, as the calls asked.
func (d *Derived[In, Out]) deriveAgain(ctx context.Context, txn statedb.ReadTxn, asked calls) {
	for _, key := range slices.Sorted(maps.Keys(asked.again.places)) {
		if at := d.claims.Places[key]; at != nil {
			d.claims.Touch(at)
		}
	}
	for key := range asked.again.rows {
		d.joins.again[key] = byOperator
	}
	if asked.all {
		for row := range d.in.Table.All(txn) {
			if ctx.Err() != nil {
				d.ask(func(c *calls) { c.all = true }) // for the next run
				return
			}
			d.derive(txn, row, false, byOperator)
		}
		clear(d.joins.again)
	}
	for key, by := range d.joins.again {
		if ctx.Err() != nil {
			return
		}
		row, _, found := d.in.ByKey(txn, []byte(key))
		if delete(d.joins.again, key); found {
			d.derive(txn, row, false, by)
		}
	}
}

// byOperator is the cause of a call that an operator asked for.
var byOperator = &edges.Cause{}

// derive takes over the new version of an input row, or its deletion, or calls the function again because of by.
func (d *Derived[In, Out]) derive(txn statedb.ReadTxn, row In, deleted bool, by *edges.Cause) {
	key, err := d.keyOf(row)
	if err != nil {
		// The table has the row by a key, so its index is not a function of the row.
		d.cfg.Log.Error("primary index of the input failed", "error", err)
		return
	}
	delete(d.joins.again, key)
	if deleted {
		d.take(key, row, true, nil, nil, nil, nil, nil, nil)
		return
	}
	var (
		wants   []claims.Wanted[Out]
		rank    claims.Rank
		keyless error
	)
	r := &Reader{of: &d.joins, key: key, txn: txn}
	d.mu.Lock()
	d.late = false
	d.mu.Unlock()
	// Deferred, so that the row is in error even if the function ends the goroutine.
	fail := guard.ErrGoexit
	defer func() { d.take(key, row, false, wants, rank, keyless, cmp.Or(r.end(), fail), r, by) }()
	wants, rank, keyless, fail = d.call(key, row, r)
}

var errLate = errors.New("a reader was used after the call of the function that it was for: look rows up before the function returns")

// usedLate has the input row of a reader in error that was used after its call, and the row whose function is called.
func (d *Derived[In, Out]) usedLate(key string) {
	_, _, found := d.in.ByKey(d.cfg.DB.ReadTxn(), []byte(key))
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.late = true; found {
		d.keep(key, errLate)
	}
	d.wake.Send()
}

// take takes over what was derived of an input row, or why it could not be, and what was looked up because of by.
func (d *Derived[In, Out]) take(
	key string, row In, deleted bool, wants []claims.Wanted[Out], rank claims.Rank, keyless, fail error, r *Reader, by *edges.Cause,
) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.losePairs(key, d.pairsOf(key))
	switch {
	case deleted:
		d.joins.edges.Drop(key)
	case by == nil:
		d.progress.calls[0]++
	case by != byOperator:
		d.progress.calls[d.tableOf(d.joins.further[by.Input])]++
	}
	if r != nil {
		if d.late {
			fail = errLate
		}
		d.joins.edges.Put(key, r.what, fail != nil, by)
	}
	if fail != nil {
		d.keep(key, fail) // what was derived before stays
		return
	}
	d.progress.derived++
	d.claims.Put(key, row, rank, wants)
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
func (d *Derived[In, Out]) call(key string, row In, r *Reader) (wants []claims.Wanted[Out], rank claims.Rank, keyless, err error) {
	d.function.Begin(guard.Derive, key)
	defer d.function.End()
	defer d.catch(&err, key, d.failed.Of(key) != nil)
	outs, err := d.f(r, row)
	if err != nil {
		return nil, nil, nil, errors.New(text.Cut(outcome.TextOf(err), reconciler.MaxErrorText))
	}
	wants = make([]claims.Wanted[Out], 0, len(outs))
	for i, out := range outs {
		if made, err := d.out.KeyOf(out); err == nil {
			wants = append(wants, claims.Wanted[Out]{Key: string(made), Row: out})
		} else if keyless == nil {
			keyless = fmt.Errorf("row %d of %d that the function returned is left out: %w", i, len(outs), err)
		}
	}
	if err := twice(wants); err != nil || d.rank == nil || len(wants) == 0 {
		return wants, nil, keyless, err
	}
	d.function.Next(guard.Rank)
	rank, err = d.rank(r, row)
	return wants, rank, keyless, err
}

// twice returns an error if two rows have one key.
func twice[Out any](wants []claims.Wanted[Out]) error {
	if len(wants) < 2 {
		return nil
	}
	seen := make(map[string]bool, len(wants))
	for _, w := range wants {
		if seen[w.Key] {
			return fmt.Errorf("the function returned two rows with the key %s", text.Name(w.Key))
		}
		seen[w.Key] = true
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

// numErrors returns the number of rows of the inputs and of the output that are in error. It is called with
// mu held, as errorOf is.
func (d *Derived[In, Out]) numErrors() int { return d.failed.Len() + d.wrong.Len() + d.joined.Len() }

// errorVersion changes whenever an error does. It is called with mu held.
func (d *Derived[In, Out]) errorVersion() uint64 {
	return d.failed.Version() + d.wrong.Version() + d.joined.Version()
}

// errorOf returns the error of an input row, or of the first output row that it wants and that has one;
// nil if there is none.
func (d *Derived[In, Out]) errorOf(key string) *problems.Problem {
	if p := d.failed.Of(key); p != nil || d.wrong.Len() == 0 {
		return p
	}
	for _, x := range d.claims.Of(key) {
		if p := d.wrong.Of(x.At.Key); p != nil {
			return p
		}
	}
	return nil
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
		errs = problems.Joined(&d.failed, &d.wrong, &d.joined)
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
	from := strings.Join(d.names, `", "`)
	health.OK(fmt.Sprintf(`OK, deriving table %q from table "%s"%s`, d.output.Name(), from, paused))
}
