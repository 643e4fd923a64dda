// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cilium/statedb"
	"golang.org/x/time/rate"
)

// dialect is one reconciler package in terms that all packages share: its status types, its options, and its
// Register. A Go package is not a value, hence the fields.
type dialect[Status, Set, Option any] struct {
	pending   func() Status
	done      func() Status
	kind      func(Status) Kind
	updatedAt func(Status) time.Time
	setTime   func(*Status, time.Time)

	newSet  func() Set
	fromSet func(set Set, name string) Status
	intoSet func(set Set, name string, status Status) Set

	withName        func(string) Option
	withRetry       func(minBackoff, maxBackoff time.Duration) Option
	withRefreshing  func(time.Duration, *rate.Limiter) Option
	withRoundLimits func(int, *rate.Limiter) Option

	// The two are the same generic function, for rows with a plain status and with a status set.
	registerPlain func(runtime, registration[Status, Status], []Option) error
	registerSet   func(runtime, registration[Set, Status], []Option) error
}

// registration is one reconciler to register: S is the status field of the rows, Status the part of it that
// belongs to this reconciler.
type registration[S, Status any] struct {
	table     statedb.RWTable[*object[S]]
	getStatus func(*object[S]) Status
	setStatus func(*object[S], Status) *object[S]
	ops       operations[S]
	batch     bool
	listed    *Listing
}

// variant holds what a contender adds to the defaults of its dialect.
type variant[Option any] struct {
	// workers is the number of operations that the options allow at a time; 0 is 1. It describes the options
	// and does not set anything.
	workers int
	options []Option
}

// start is the Start function of a contender with this dialect.
func (d dialect[Status, Set, Option]) start(o Options, v variant[Option]) (System, error) {
	if o.Reconcilers == 0 {
		return d.startPlain(o, v)
	}
	return d.startSet(o, v)
}

func (d dialect[Status, Set, Option]) startPlain(o Options, v variant[Option]) (System, error) {
	target := &Target{}
	if o.Prepare != nil {
		o.Prepare(target)
	}
	w := objects(d.pending, d.kind, d.updatedAt)
	w.targets, w.workers, w.writeWork = []*Target{target}, max(v.workers, 1), o.WriteWork
	return w.start(func(rt runtime, w *world[*object[Status]]) error {
		if err := d.insertDone(rt, w, o); err != nil {
			return err
		}
		return d.registerPlain(rt, registration[Status, Status]{
			table:     w.table,
			getStatus: func(o *object[Status]) Status { return o.status },
			setStatus: func(o *object[Status], s Status) *object[Status] { o.status = s; return o },
			ops:       operations[Status]{target},
			batch:     o.Batch,
			listed:    o.Listed,
		}, d.options(o, v))
	})
}

// insertDone inserts the rows that are done before the contender starts.
func (d dialect[Status, Set, Option]) insertDone(rt runtime, w *world[*object[Status]], o Options) error {
	if o.DoneRows == 0 {
		return nil
	}
	status := d.done()
	d.setTime(&status, o.DoneSince)
	txn := rt.DB.WriteTxn(w.table)
	defer txn.Abort() // no effect after the commit
	for id := range o.DoneRows {
		if _, _, err := w.table.Insert(txn, &object[Status]{id: id, status: status}); err != nil {
			return fmt.Errorf("insert row %d, which is done: %w", id, err)
		}
	}
	txn.Commit()
	return nil
}

func (d dialect[Status, Set, Option]) startSet(o Options, v variant[Option]) (System, error) {
	var (
		names   []string
		targets []*Target
	)
	for i := range o.Reconcilers {
		names = append(names, fmt.Sprintf("r%d", i))
		targets = append(targets, &Target{})
	}
	kind := func(set Set) Kind {
		result := Done
		for _, name := range names {
			result = together(result, d.kind(d.fromSet(set, name)))
		}
		return result
	}
	updatedAt := func(set Set) time.Time {
		oldest := d.updatedAt(d.fromSet(set, names[0]))
		for _, name := range names[1:] {
			if at := d.updatedAt(d.fromSet(set, name)); at.Before(oldest) {
				oldest = at
			}
		}
		return oldest
	}
	w := objects(d.newSet, kind, updatedAt)
	w.targets, w.workers, w.writeWork = targets, max(v.workers, 1), o.WriteWork
	return w.start(func(rt runtime, w *world[*object[Set]]) error {
		for i, name := range names {
			err := d.registerSet(rt, registration[Set, Status]{
				table:     w.table,
				getStatus: func(o *object[Set]) Status { return d.fromSet(o.status, name) },
				setStatus: func(o *object[Set], s Status) *object[Set] {
					o.status = d.intoSet(o.status, name, s)
					return o
				},
				ops:   operations[Set]{w.targets[i]},
				batch: o.Batch,
			}, append(d.options(o, v), d.withName(name)))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// together returns the kind of a row that several reconcilers share, from that of some of them, Done at
// first, and that of another one.
func together(some, another Kind) Kind {
	switch {
	case some == Failed || another == Failed:
		return Failed
	case another == Done:
		return some
	default:
		return Waiting
	}
}

// roundSize is the default round size of every contender. A change of the limiter needs it too.
const roundSize = 1000

// unlimited lifts the limit on rounds per second.
func (d dialect[Status, Set, Option]) unlimited() []Option {
	return []Option{d.withRoundLimits(roundSize, rate.NewLimiter(rate.Inf, 1))}
}

func (d dialect[Status, Set, Option]) options(o Options, v variant[Option]) []Option {
	var options []Option
	if o.RetryMin != 0 || o.RetryMax != 0 {
		options = append(options, d.withRetry(o.RetryMin, o.RetryMax))
	}
	if o.RefreshEvery != 0 {
		options = append(options, d.withRefreshing(o.RefreshEvery, rate.NewLimiter(rate.Inf, 1)))
	}
	return append(options, v.options...)
}

// operations passes rows to a target, one at a time.
type operations[S any] struct{ target *Target }

func (ops operations[S]) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, o *object[S]) error {
	return ops.target.Update(o.id)
}

func (ops operations[S]) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, o *object[S]) error {
	return ops.target.Delete(o.id)
}

func (ops operations[S]) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*object[S], statedb.Revision]) error {
	return nil
}
