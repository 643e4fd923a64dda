// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/problems"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// maxListed bounds the keys that a wait lists.
const maxListed = 100

// calls is what callers have asked a run to do, under Derived.mu.
type calls struct {
	paused bool
	// all: derive all input rows again. compareAll: compare the whole output. again are single rows.
	all, compareAll bool
	again           again
}

// again has the keys of input rows that are derived again, and of output rows that are compared again.
type again struct{ rows, places map[string]bool }

func newAgain() again { return again{rows: map[string]bool{}, places: map[string]bool{}} }

// marked returns a set of keys.
func marked(keys iter.Seq[string]) map[string]bool {
	out := map[string]bool{}
	mark(out, keys)
	return out
}

// mark adds keys to a set.
func mark(set map[string]bool, keys iter.Seq[string]) {
	for key := range keys {
		set[key] = true
	}
}

func (a again) add(b again) {
	maps.Copy(a.rows, b.rows)
	maps.Copy(a.places, b.places)
}

// takeCalls returns what has to be done, which is then done with.
func (d *Derived[In, Out]) takeCalls() calls {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := d.calls
	d.calls = calls{paused: asked.paused, again: newAgain()}
	return asked
}

// ask changes the calls, and wakes the run.
func (d *Derived[In, Out]) ask(change func(*calls)) {
	d.mu.Lock()
	change(&d.calls)
	d.mu.Unlock()
	d.wake.Send()
}

// Retry derives input rows again whose function failed, and compares output rows again that are in error: those with
// the given keys, and those that an input row with one of the keys wants; all if there are no keys. The key TABLE/KEY is
// that of a row of a further input, and stands for the input rows that depend on it. Retry returns their number, and does
// not wait. The error is [inspect.ErrNotFound] for a key that is in no table.
func (d *Derived[In, Out]) Retry(_ context.Context, keys ...string) (n int, err error) {
	found, _, err := d.find(keys)
	d.ask(func(c *calls) {
		if len(keys) == 0 {
			found = again{rows: marked(d.failed.Keys()), places: marked(d.wrong.Keys())}
		}
		maps.DeleteFunc(found.rows, func(key string, _ bool) bool { return d.failed.Of(key) == nil })
		maps.DeleteFunc(found.places, func(key string, _ bool) bool { return d.wrong.Of(key) == nil })
		n = len(found.rows) + len(found.places)
		c.again.add(found)
	})
	return n, err
}

// Refresh derives the input rows with the given keys again, and compares the output rows with them; it
// returns the number of keys that it found. Without keys it derives all rows again, and returns 0. It does
// not wait. The error is that of [Derived.Retry].
func (d *Derived[In, Out]) Refresh(_ context.Context, keys ...string) (n int, err error) {
	found, n, err := d.find(keys)
	d.ask(func(c *calls) {
		c.all = c.all || len(keys) == 0
		c.again.add(found)
	})
	return n, err
}

// find returns the rows of both tables that have one of these texts as their key, with the output rows that
// the input rows want, and the input rows that depend on a row of a further input that one of the texts names. n is the
// number of texts that have a row.
func (d *Derived[In, Out]) find(texts []string) (found again, n int, err error) {
	found = newAgain()
	if len(texts) > inspect.MaxKeys {
		return found, 0, fmt.Errorf("%s: %d keys, at most %d are allowed", d.cfg.Name, len(texts), inspect.MaxKeys)
	}
	txn := d.cfg.DB.ReadTxn()
	var errs []error
	for _, one := range texts {
		row, isInput := d.inputKey(txn, one)
		outKeys := d.out.Keys(one)
		d.mu.Lock()
		if isInput {
			found.rows[row] = true
			for _, x := range d.claims.Of(row) {
				found.places[x.At.Key] = true
			}
		}
		place := d.claims.Named(outKeys)
		if place != nil {
			found.places[place.Key] = true
		}
		d.mu.Unlock()
		if !isInput && place == nil && !d.findJoined(&found, txn, one) {
			errs = append(errs, d.notFound(one))
		}
	}
	return found, len(texts) - len(errs), errors.Join(errs...)
}

// findJoined finds the input rows that depend on the row of a further input with the name TABLE/KEY.
func (d *Derived[In, Out]) findJoined(found *again, txn statedb.ReadTxn, named string) (is bool) {
	for _, one := range d.joins.further {
		_, lookups, _, has := one.named(txn, named)
		is = is || has
		d.mu.Lock()
		for _, what := range lookups {
			for row := range d.joins.edges.Rows(what) {
				found.rows[row] = true
			}
		}
		d.mu.Unlock()
	}
	return is
}

func (d *Derived[In, Out]) notFound(key string) error {
	return fmt.Errorf("%s: %s: %w", d.cfg.Name, text.Name(key), inspect.ErrNotFound)
}

// inputKey returns the key of an input row with a text.
func (d *Derived[In, Out]) inputKey(txn statedb.ReadTxn, named string) (key string, found bool) {
	for _, key := range d.in.Keys(named) {
		if _, _, found := d.in.ByKey(txn, key); found {
			return string(key), true
		}
	}
	return "", false
}

// Prune compares the whole output with what the input derives, writes what differs, and deletes what does not follow
// from it, once the derivation may delete what is not its own: see the package. It does not wait.
func (d *Derived[In, Out]) Prune() { d.ask(func(c *calls) { c.compareAll = true }) }

// Pause stops the derivation until [Derived.Resume]: the output stays as it is.
func (d *Derived[In, Out]) Pause() { d.ask(func(c *calls) { c.paused = true }) }

// Resume ends a pause.
func (d *Derived[In, Out]) Resume() { d.ask(func(c *calls) { c.paused = false }) }

// condition returns the condition to show. It is called with mu held.
func (d *Derived[In, Out]) condition() inspect.Condition {
	if d.calls.paused && d.progress.condition == inspect.ConditionRunning {
		return inspect.ConditionPaused
	}
	return d.progress.condition
}

// WaitAll waits until everything that is in the inputs now is derived and written. With the milestone
// applied it also waits until no row of the inputs and none of the output is in error. Those that are in
// error are in the result, each with its own key. m is reconciler.Attempted or reconciler.Applied. The error
// is that of ctx, or [inspect.ErrStopped] if the derivation has stopped.
func (d *Derived[In, Out]) WaitAll(ctx context.Context, m progress.Milestone) (inspect.Unapplied, error) {
	return d.await(ctx, m, func() (rest inspect.Unapplied) {
		for _, all := range []*problems.Set{&d.failed, &d.wrong, &d.joined} {
			for _, p := range all.First(maxListed - len(rest.Keys)) {
				rest.Keys = append(rest.Keys, unreconciled(p))
			}
		}
		rest.More = d.numErrors() - len(rest.Keys)
		return rest
	})
}

// WaitKey is like [Derived.WaitAll] for one row of the input and the output rows that it wants. The error
// is also [inspect.ErrNotFound] if there is no such row.
func (d *Derived[In, Out]) WaitKey(ctx context.Context, key string, m progress.Milestone) (inspect.Unapplied, error) {
	found, ok := d.inputKey(d.cfg.DB.ReadTxn(), key)
	if !ok {
		return inspect.Unapplied{}, d.notFound(key)
	}
	return d.await(ctx, m, func() (rest inspect.Unapplied) {
		if p := d.errorOf(found); p != nil {
			rest.Keys = append(rest.Keys, unreconciled(p))
		}
		return rest
	})
}

func unreconciled(p *problems.Problem) inspect.Unreconciled {
	return inspect.Unreconciled{Key: []byte(p.Key), State: inspect.StateTerminal, Attempts: 1, Err: p.Err}
}

// sum returns the sum of the revisions of the inputs.
func (d *Derived[In, Out]) sum(txn statedb.ReadTxn) (sum statedb.Revision) {
	for _, table := range d.tables {
		sum += table.Revision(txn)
	}
	return sum
}

// behind returns the number of changes of the inputs that are not derived and written yet. It is called with mu held.
func (d *Derived[In, Out]) behind(txn statedb.ReadTxn) int {
	sum := d.sum(txn)
	return int(sum - min(sum, d.progress.at))
}

// await waits for what is in the inputs now. rest returns the rows that fail; it is called with mu held.
func (d *Derived[In, Out]) await(ctx context.Context, m progress.Milestone, rest func() inspect.Unapplied) (inspect.Unapplied, error) {
	until := d.sum(d.cfg.DB.ReadTxn())
	for {
		d.mu.Lock()
		failing, changed, condition := rest(), d.progress.changed, d.progress.condition
		reached := d.progress.at >= until
		d.mu.Unlock()
		switch {
		case reached && (m == progress.Attempted || len(failing.Keys) == 0):
			return failing, nil
		case condition == inspect.ConditionStopped:
			return failing, fmt.Errorf("%s: %w", d.cfg.Name, inspect.ErrStopped)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return failing, fmt.Errorf("%s: %w", d.cfg.Name, ctx.Err())
		}
	}
}
