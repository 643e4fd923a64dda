// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/inspect"
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
	return fmt.Errorf("sweep: nobody wants %[2]d of the %[1]d objects that the target has, which is more than the budget of %[3]s: nothing is deleted until it is approved: by the command reconciler/approve, the button \"Approve sweep\" of the page, or Loop.ApproveSweep",
		listed, orphans, bound)
}

// ApproveSweep asks for a sweep now that may delete any number of objects, whatever
// [WithSweepBudget] says. It is for a person who has seen in health that a sweep stopped at
// its budget, and knows why. It holds for one listing that succeeds; if that of the sweep
// fails it holds for the next. It does not wait for the sweep. If the last sweep did not stop at its
// budget it does nothing and returns false. Safe from any goroutine.
func (l *Loop[Obj]) ApproveSweep() bool {
	if !l.pruner.refused.Load() {
		return false
	}
	l.calls.ask(func(a *asked[Obj]) { a.approve = true })
	return true
}

// sweep is one whose listing has ended. What was listed and was not in the table is an orphan,
// unless its deletion was on its way: that is known when main has passed everything that the
// table had then.
type sweep[Obj any] struct {
	record  *inspect.Prune
	unknown []Obj
	// keys are those of unknown: true if main has passed their deletion.
	keys map[string]bool
	// upTo is the revision of the table.
	upTo statedb.Revision
}

// listSweep lists the target for a sweep.
func (l *Loop[Obj]) listSweep(ctx context.Context, txn statedb.ReadTxn, record *inspect.Prune) error {
	listed, err := l.list(ctx, txn, record)
	if err != nil {
		return err
	}
	// What was inserted while the target was listed is wanted.
	fresh := l.rows.DB.ReadTxn()
	s := &sweep[Obj]{record: record, keys: map[string]bool{}, upTo: l.rows.Table.Revision(fresh)}
	for _, obj := range listed {
		key := string(l.rows.Key(obj))
		if _, again := s.keys[key]; !again && l.orphan(fresh, obj) {
			s.keys[key] = false
			s.unknown = append(s.unknown, obj)
		}
	}
	l.pruner.sweep = s
	return nil
}

// orphan reports whether the snapshot does not have an object of the target, nor the core knows
// of it.
func (l *Loop[Obj]) orphan(txn statedb.ReadTxn, obj Obj) bool {
	if l.core.TracksKeyOf(obj) {
		return false
	}
	_, _, _, found := l.rows.Exact(txn, obj)
	return !found
}

// passDeletion notes that main has come to the deletion of an object: no sweep is needed for it.
func (l *Loop[Obj]) passDeletion(obj Obj) {
	s := l.pruner.sweep
	if s == nil {
		return
	}
	key := string(l.rows.Key(obj))
	if _, unknown := s.keys[key]; unknown {
		s.keys[key] = true
	}
}

// finishSweep makes the orphans of a sweep owe their deletion, once main is far enough.
func (l *Loop[Obj]) finishSweep(r *inspect.Round) {
	p := &l.pruner
	s := p.sweep
	if s == nil || l.observer.revision < s.upTo {
		return
	}
	p.sweep = nil
	now := l.rows.DB.ReadTxn()
	var orphans []Obj
	for _, obj := range s.unknown {
		if !s.keys[string(l.rows.Key(obj))] && l.orphan(now, obj) {
			orphans = append(orphans, obj)
		}
	}
	if !p.approved {
		if err := l.opts.budget.check(len(orphans), s.record.Listed); err != nil {
			p.refused.Store(true)
			l.pruned(r, s.record, err)
			return
		}
	}
	p.approved = false
	revision := l.rows.Table.Revision(now)
	for _, orphan := range orphans {
		if l.core.Adopt(orphan, revision) {
			s.record.Swept++
		}
	}
	l.pruned(r, s.record, nil)
}

// list returns what of the target the snapshot does not have. What that has is not kept: it
// is wanted, or its deletion is on its way.
func (l *Loop[Obj]) list(ctx context.Context, txn statedb.ReadTxn, record *inspect.Prune) (unknown []Obj, err error) {
	over := false
	defer func() { over = true }()
	err = l.cfg.Sweeper.List(ctx, txn, func(obj Obj) bool {
		if over || ctx.Err() != nil {
			return false
		}
		record.Listed++
		if _, _, _, found := l.rows.Exact(txn, obj); !found {
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

// sweepDue reports whether there may be a sweep, if that is what prunes: not before every
// object that the table had when it was initialised has been attempted, or is stuck. Nothing
// need wake the loop for it: what is attempted in a round opens the gate at the end of that.
func (l *Loop[Obj]) sweepDue() bool {
	p := &l.pruner
	if p.gated && l.core.AttemptedButStuck(l.observer.revision) >= p.gate {
		p.gated = false
	}
	return !p.gated
}
