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
	pending func() Status
	kind    func(Status) Kind

	newSet  func() Set
	fromSet func(set Set, name string) Status
	intoSet func(set Set, name string, status Status) Set

	withName        func(string) Option
	withRetry       func(minBackoff, maxBackoff time.Duration) Option
	withRefreshing  func(time.Duration, *rate.Limiter) Option
	withRoundLimits func(int, *rate.Limiter) Option
	// withMore returns what only this package has; nil for none.
	withMore func(Options) []Option

	// The two are the same generic function, for rows with a plain status and with a status set.
	registerPlain func(Runtime, registration[Status, Status], []Option) error
	registerSet   func(Runtime, registration[Set, Status], []Option) error
}

// registration is one reconciler to register: S is the status field of the rows, Status the part of it that
// belongs to this reconciler.
type registration[S, Status any] struct {
	table     statedb.RWTable[*object[S]]
	getStatus func(*object[S]) Status
	setStatus func(*object[S], Status) *object[S]
	ops       operations[S]
	listed    *Listing
}

// start starts a contender with this dialect.
func (d dialect[Status, Set, Option]) start(o Options) (System, error) {
	if o.Reconcilers == 0 {
		return d.startPlain(o)
	}
	return d.startSet(o)
}

func (d dialect[Status, Set, Option]) startPlain(o Options) (System, error) {
	target := &Target{}
	w := objects(d.pending, d.kind)
	w.targets, w.writeWork = []*Target{target}, o.WriteWork
	return w.start(func(rt Runtime, w *world[Status]) error {
		return d.registerPlain(rt, registration[Status, Status]{
			table:     w.table,
			getStatus: func(o *object[Status]) Status { return o.status },
			setStatus: func(o *object[Status], s Status) *object[Status] { o.status = s; return o },
			ops:       operations[Status]{target},
			listed:    o.Listed,
		}, d.options(o))
	})
}

func (d dialect[Status, Set, Option]) startSet(o Options) (System, error) {
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
	w := objects(d.newSet, kind)
	w.targets, w.writeWork = targets, o.WriteWork
	return w.start(func(rt Runtime, w *world[Set]) error {
		for i, name := range names {
			err := d.registerSet(rt, registration[Set, Status]{
				table:     w.table,
				getStatus: func(o *object[Set]) Status { return d.fromSet(o.status, name) },
				setStatus: func(o *object[Set], s Status) *object[Set] {
					o.status = d.intoSet(o.status, name, s)
					return o
				},
				ops: operations[Set]{w.targets[i]},
			}, append(d.options(o), d.withName(name)))
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

func (d dialect[Status, Set, Option]) options(o Options) []Option {
	var options []Option
	if o.RetryMin != 0 || o.RetryMax != 0 {
		options = append(options, d.withRetry(o.RetryMin, o.RetryMax))
	}
	if o.RefreshEvery != 0 {
		options = append(options, d.withRefreshing(o.RefreshEvery, rate.NewLimiter(rate.Inf, 1)))
	}
	if o.Unlimited {
		options = append(options, d.withRoundLimits(roundSize, rate.NewLimiter(rate.Inf, 1)))
	}
	if d.withMore != nil {
		options = append(options, d.withMore(o)...)
	}
	return options
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
	ops.target.Prunes.Add()
	return nil
}
