// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"

	"github.com/cilium/statedb"
)

// sweepBudget is what one sweep may delete; zeros are no bound.
type sweepBudget struct {
	objects  int
	fraction float64
}

// check returns an error if a sweep that found orphans among what was listed wants more
// than the budget has.
func (b sweepBudget) check(orphans, listed int) error {
	var bound string
	switch {
	case b.objects > 0 && orphans > b.objects:
		bound = fmt.Sprintf("%d objects", b.objects)
	case b.fraction > 0 && float64(orphans) > b.fraction*float64(listed):
		bound = fmt.Sprintf("%.4g %% of them", 100*b.fraction)
	default:
		return nil
	}
	return fmt.Errorf("sweep: nobody wants %[2]d of the %[1]d objects that the target has, which is more than the budget of %[3]s: nothing is deleted until ApproveSweep is called",
		listed, orphans, bound)
}

// ApproveSweep asks for a sweep now that may delete any number of objects, whatever
// [WithSweepBudget] says. It is for a person who has seen in health that a sweep stopped at
// its budget, and knows why. It holds for one listing that succeeds; if that of the sweep
// fails it holds for the next. It does not wait for the sweep, and does nothing without a
// [Sweeper]. Safe from any goroutine.
func (l *Loop[Obj]) ApproveSweep() {
	if l.cfg.Sweeper != nil {
		l.calls.ask(func(a *asked[Obj]) { a.approve = true })
	}
}

// sweep makes what the target has, and neither the table nor the core knows of, owe its
// deletion. The snapshot is that of the round that has just ended.
func (l *Loop[Obj]) sweep(ctx context.Context, txn statedb.ReadTxn, record *PruneRecord) error {
	unknown, err := l.list(ctx, txn, record)
	if err != nil {
		return err
	}
	// What was inserted while the target was listed is wanted.
	fresh := l.cfg.DB.ReadTxn()
	orphans := l.orphans(fresh, unknown)
	if !l.pruner.approved {
		if err := l.opts.budget.check(len(orphans), record.Listed); err != nil {
			return err
		}
	}
	l.pruner.approved = false
	revision := l.cfg.Table.Revision(fresh)
	for _, orphan := range orphans {
		if l.core.Adopt(orphan, revision) {
			record.Swept++
		}
	}
	return nil
}

// list returns what of the target the snapshot does not have. What that has is not kept: it
// is wanted, or its deletion is on its way.
func (l *Loop[Obj]) list(ctx context.Context, txn statedb.ReadTxn, record *PruneRecord) (unknown []Obj, err error) {
	over := false
	defer func() { over = true }()
	err = l.cfg.Sweeper.List(ctx, txn, func(obj Obj) bool {
		if over || ctx.Err() != nil {
			return false
		}
		record.Listed++
		if _, _, _, found := l.row(txn, obj); !found {
			unknown = append(unknown, obj)
		}
		return true
	})
	if err == nil {
		// What was not yielded because of this is not known.
		err = ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("sweep: listing the target: %w", err)
	}
	return unknown, err
}

// orphans returns those of the objects, each once, that the snapshot does not have and of
// which the core does not know.
func (l *Loop[Obj]) orphans(txn statedb.ReadTxn, objs []Obj) (orphans []Obj) {
	seen := map[string]struct{}{}
	for _, obj := range objs {
		key := string(l.indexer.ObjectToKey(obj))
		if _, again := seen[key]; again || l.core.TracksKeyOf(obj) {
			continue
		}
		if _, _, _, found := l.row(txn, obj); !found {
			seen[key] = struct{}{}
			orphans = append(orphans, obj)
		}
	}
	return orphans
}

// sweepDue reports whether there may be a sweep, if that is what prunes: not before every
// object that the table had when it was initialised has been attempted. Nothing need wake
// the loop for it: what is attempted in a round opens the gate at the end of that.
func (l *Loop[Obj]) sweepDue() bool {
	p := &l.pruner
	if p.gated && l.core.Attempted(l.observer.revision) >= p.gate {
		p.gated = false
	}
	return !p.gated
}
