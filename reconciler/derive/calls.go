// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// maxListed bounds the keys that a wait lists.
const maxListed = 100

// calls is what callers have asked a run to do, under Derived.mu.
type calls struct {
	paused bool
	// all: derive all rows again; again has the keys of single ones. compareAll: compare the whole output.
	all, compareAll bool
	again           map[string]struct{}
}

func (d *Derived[In, Out]) isPaused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls.paused
}

// takeCalls returns what has to be done, which is then done with.
func (d *Derived[In, Out]) takeCalls() calls {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := d.calls
	d.calls = calls{paused: asked.paused}
	return asked
}

// ask changes the calls, and wakes the run.
func (d *Derived[In, Out]) ask(change func(*calls)) {
	d.mu.Lock()
	change(&d.calls)
	d.mu.Unlock()
	d.wake.Send()
}

// Retry derives input rows again whose function failed: those with the given keys, or all if there are
// none. It returns their number, and does not wait. The error is [inspect.ErrNotFound] for a key that
// is not in the input.
func (d *Derived[In, Out]) Retry(_ context.Context, keys ...string) (int, error) {
	found, err := d.keysOf(keys)
	n := 0
	d.ask(func(c *calls) {
		if len(keys) == 0 {
			for key := range d.failed.byKey {
				found = append(found, key)
			}
		}
		for _, key := range found {
			if d.failed.of(key) != nil {
				c.add(key)
				n++
			}
		}
	})
	return n, err
}

// Refresh derives the input rows with the given keys again, and returns their number; without keys it
// derives all rows again, and returns 0. It does not wait. The error is that of [Derived.Retry].
func (d *Derived[In, Out]) Refresh(_ context.Context, keys ...string) (int, error) {
	found, err := d.keysOf(keys)
	d.ask(func(c *calls) {
		c.all = c.all || len(keys) == 0
		for _, key := range found {
			c.add(key)
		}
	})
	return len(found), err
}

func (c *calls) add(key string) {
	if c.again == nil {
		c.again = map[string]struct{}{}
	}
	c.again[key] = struct{}{}
}

// keysOf returns the keys of the input rows with these texts.
func (d *Derived[In, Out]) keysOf(texts []string) (found []string, err error) {
	if len(texts) > inspect.MaxKeys {
		return nil, fmt.Errorf("%s: %d keys, at most %d are allowed", d.cfg.Name, len(texts), inspect.MaxKeys)
	}
	txn := d.cfg.DB.ReadTxn()
	var errs []error
	for _, one := range texts {
		if key, ok := d.inputKey(txn, one); ok {
			found = append(found, key)
		} else {
			errs = append(errs, d.notFound(one))
		}
	}
	return found, errors.Join(errs...)
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

// Prune compares the whole output with what the input derives, writes what differs, and deletes what
// does not follow from it. It does not wait.
func (d *Derived[In, Out]) Prune() { d.ask(func(c *calls) { c.compareAll = true }) }

// ApproveSweep returns false: there is no budget for deletions in the output.
func (d *Derived[In, Out]) ApproveSweep() bool { return false }

// Pause stops the derivation until [Derived.Resume]: the output stays as it is.
func (d *Derived[In, Out]) Pause() { d.setPaused(true) }

// Resume ends a pause.
func (d *Derived[In, Out]) Resume() { d.setPaused(false) }

func (d *Derived[In, Out]) setPaused(paused bool) {
	d.ask(func(c *calls) {
		c.paused = paused
		switch {
		case paused && d.progress.condition == inspect.ConditionRunning:
			d.progress.condition = inspect.ConditionPaused
		case !paused && d.progress.condition == inspect.ConditionPaused:
			d.progress.condition = inspect.ConditionRunning
		}
	})
}

// errNoKeys is returned by PauseOnly.
var errNoKeys = errors.New("single rows of a derivation cannot be paused")

// PauseOnly returns an error if it is called with keys: a derivation has no pauses of single rows.
func (d *Derived[In, Out]) PauseOnly(keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", d.cfg.Name, errNoKeys)
}

// WaitAll waits until everything that is in the input now is derived and written. With the milestone
// applied it also waits until no row of the input and none of the output is in error. Those that are in
// error are in the result, each with its own key. m is reconciler.Attempted or reconciler.Applied. The error
// is that of ctx, or [inspect.ErrStopped] if
// the derivation has stopped.
func (d *Derived[In, Out]) WaitAll(ctx context.Context, m progress.Milestone) (inspect.Unapplied, error) {
	return d.await(ctx, m, func() (rest inspect.Unapplied) {
		for _, all := range []*problems{&d.failed, &d.wrong} {
			for _, p := range all.first(maxListed - len(rest.Keys)) {
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

func unreconciled(p *problem) inspect.Unreconciled {
	return inspect.Unreconciled{Key: []byte(p.key), State: inspect.StateTerminal, Attempts: 1, Err: p.err}
}

// await waits for the revision that the input has now. rest returns the rows that fail; it is called
// with mu held.
func (d *Derived[In, Out]) await(ctx context.Context, m progress.Milestone, rest func() inspect.Unapplied) (inspect.Unapplied, error) {
	until := d.in.Revision()
	for {
		d.mu.Lock()
		failing, changed, condition := rest(), d.progress.changed, d.progress.condition
		reached := d.progress.until >= until
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
