// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/keywaits"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// WaitFor blocks until the milestone is reached by some objects: by rows of the table, or
// by the deletions of rows that the table does not have, in the versions that these have
// when it is called, or later ones. Of an object only what makes its primary key matters.
// It returns those of them that are not in the target, or, if deleted, still are: none if
// the milestone is [Applied].
//
// When ctx ends before, the error wraps that of ctx, and what is not applied is returned; for
// details the reconciler is asked, which has 100 ms to answer. A row without a status
// would be waited for in vain: it counts as attempted, and applied it can never be, which
// is the error [ErrNoStatus] at once. Before the reconciler runs, WaitFor waits for that;
// when it has stopped, the error is [inspect.ErrStopped] unless the rows say that all is well.
//
// A row is watched in the table, so that it is seen to be applied as soon as its status is
// written, whatever else there is to do. A deletion that was carried out before the call
// may not be known to be while the reconciler works off a backlog; it then returns when
// that is done. Safe from any goroutine. In an operation of this reconciler the error is
// [ErrInOperation], at once.
func (l *Loop[Obj]) WaitFor(ctx context.Context, m Milestone, objs ...Obj) (inspect.Unapplied, error) {
	if err := validateMilestone(m); err != nil {
		return inspect.Unapplied{}, err
	}
	if err := l.mayWait(ctx); err != nil {
		return inspect.Unapplied{}, err
	}
	for i, obj := range objs {
		if err := l.waitForOne(ctx, m, obj); err != nil {
			rest, why := l.view.unappliedOf(ctx, objs[i:], false)
			return rest, fmt.Errorf("reconciler %q: waiting for %s to be %s, %d of %d objects are: %w",
				called(l.ID()), rows.KeyText(l.rows.Key(obj)), m, i, len(objs), unanswered(err, why))
		}
	}
	if m == Applied {
		return inspect.Unapplied{}, nil
	}
	rest, _ := l.view.unappliedOf(ctx, objs, true)
	return rest, nil
}

// waitForOne blocks until one object has come to a milestone.
func (l *Loop[Obj]) waitForOne(ctx context.Context, m Milestone, obj Obj) error {
	gone := false
	for {
		// First, so that what was written before the end is seen.
		stopped := l.stopped()
		txn := l.rows.DB.ReadTxn()
		row, revision, watch, found := l.rows.Exact(txn, obj)
		if found {
			if there, err := reachedBy(l.rows.GetStatus(row).Kind, m); there {
				return err
			}
		} else if gone {
			return nil
		}
		if stopped {
			return inspect.ErrStopped
		}
		var err error
		if found {
			var met bool
			if met, err = l.waitForRow(ctx, m, row, revision, watch); met {
				return nil
			}
		} else {
			gone, err = l.waitForDeletion(ctx, m, obj, l.rows.Table.Revision(txn))
		}
		if err != nil {
			return err
		}
	}
}

// waitForRow blocks until a row has come to a milestone, or is to be looked at again.
func (l *Loop[Obj]) waitForRow(ctx context.Context, m Milestone, row Obj, revision statedb.Revision, watch <-chan struct{}) (met bool, err error) {
	var attempted <-chan struct{}
	if m == Attempted {
		// Its status does not say that it is not being attempted.
		w := l.beginWait(&keywaits.Wait[Obj]{Object: row, Milestone: m, Revision: revision})
		defer l.keyWaits.Leave(w)
		attempted = w.Met()
	}
	select {
	case <-attempted:
		return true, nil
	case <-watch:
		return false, nil
	case <-l.ended:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// waitForDeletion blocks until the deletion of a key has come to a milestone, or there may
// be a row again. The table did not have the key at a revision.
func (l *Loop[Obj]) waitForDeletion(ctx context.Context, m Milestone, obj Obj, revision statedb.Revision) (met bool, err error) {
	w := l.beginWait(&keywaits.Wait[Obj]{Object: obj, Milestone: m, Deleted: true, Revision: revision})
	defer l.keyWaits.Leave(w)
	select {
	case <-w.Met():
	case <-l.ended:
		select {
		case <-w.Met():
		default:
			return false, nil
		}
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return !w.Inserted(), nil
}

func (l *Loop[Obj]) beginWait(w *keywaits.Wait[Obj]) *keywaits.Wait[Obj] {
	l.keyWaits.Join(w)
	l.calls.made.Send()
	return w
}

// unreconciledOf returns what waits for keys have to know of an object; false if it is reconciled.
func (r *runner[Obj]) unreconciledOf(obj Obj) (keywaits.Unreconciled, bool) {
	d, found := r.core.UnreconciledOf(obj)
	return keywaits.Unreconciled{Revision: d.Revision, Deleted: d.Deleted, Attempted: d.Tried || d.State == core.Paused}, found
}

// reachedBy reports whether a row with a kind of status has come to a milestone, or never
// will, which is an error.
func reachedBy(kind StatusKind, m Milestone) (bool, error) {
	switch kind {
	case status.KindDone:
		return true, nil
	case status.KindUnset:
		if m == Applied {
			return true, ErrNoStatus
		}
		return true, nil
	case status.KindError, status.KindBlocked:
		return m == Attempted, nil
	}
	return false, nil
}

// unfinished returns those of the objects whose rows do not say that they are in the target.
func (v *view[Obj]) unfinished(txn statedb.ReadTxn, objs []Obj) (rest []Obj) {
	for _, obj := range objs {
		if row, _, _, found := v.rows.Exact(txn, obj); !found || v.rows.GetStatus(row).Kind != status.KindDone {
			rest = append(rest, obj)
		}
	}
	return rest
}

// looked is what the loop knows of some objects.
type looked[Obj any] struct {
	txn statedb.ReadTxn
	// unreconciled has nil for an object that is reconciled.
	unreconciled []*core.Unreconciled[Obj]
	// seen: everything up to the snapshot has been looked at.
	seen bool
}

// unappliedOf returns which of the objects are not in the target. met: each has come to its
// milestone. The error is that of askBriefly: then only the rows were looked at.
func (v *view[Obj]) unappliedOf(ctx context.Context, objs []Obj, met bool) (list inspect.Unapplied, err error) {
	txn := v.rows.DB.ReadTxn()
	rest := v.unfinished(txn, objs)
	if len(rest) == 0 {
		return inspect.Unapplied{}, nil
	}
	known, err := told(ctx, v, func() looked[Obj] { return v.lookAt(rest) })
	if err != nil {
		known = looked[Obj]{txn: txn, unreconciled: make([]*core.Unreconciled[Obj], len(rest))}
	}
	for i, obj := range rest {
		row, _, _, found := v.rows.Exact(known.txn, obj)
		d := known.unreconciled[i]
		u := inspect.Unreconciled{Key: v.rows.Key(obj), Deleted: !found}
		switch {
		case found && v.rows.GetStatus(row).Kind == status.KindDone,
			!found && d == nil && (met || known.seen):
			continue
		case d != nil && d.Deleted == !found:
			u = v.unreconciled(d, row, found)
		case found:
			s := v.rows.GetStatus(row)
			u.State, u.Err = v.gates().shown(v.rowState(u.Key, s.Kind, err)), reasonOf(s)
			if s.Kind == status.KindUnset {
				u.Err = ErrNoStatus
			}
		case err == nil:
			u.State = v.gates().shown(inspect.StateUnseen)
		default:
			u.State = v.unaskedState(u.Key)
		}
		list.Keys = append(list.Keys, u)
	}
	return list, err
}

// lookAt is called by the goroutine of the loop.
func (v *view[Obj]) lookAt(objs []Obj) looked[Obj] {
	txn := v.rows.DB.ReadTxn()
	known := looked[Obj]{
		txn: txn, unreconciled: make([]*core.Unreconciled[Obj], len(objs)),
		seen: v.observed() >= v.rows.Table.Revision(txn),
	}
	for i, obj := range objs {
		if d, is := v.core.UnreconciledOf(obj); is {
			known.unreconciled[i] = &d
		}
	}
	return known
}

// WaitAll is [Loop.Wait] for all that is in the table when it is called.
func (l *Loop[Obj]) WaitAll(ctx context.Context, m Milestone) (inspect.Unapplied, error) {
	w := progress.NewWait[remainder[Obj]](0, m)
	w.All = true
	return l.awaitRevision(ctx, w)
}

// WaitKey is [Loop.WaitFor] for the object with a key, which is as [Loop.Explain] takes it:
// a row of the table, or one of which only the deletion is left. The error is [inspect.ErrNotFound]
// if nobody knows of it; then, if it was there, it is gone from the target. That is said when
// everything has been attempted that was changed before the call: until then there may be a
// deletion that the reconciler has not looked at.
func (l *Loop[Obj]) WaitKey(ctx context.Context, key string, m Milestone) (inspect.Unapplied, error) {
	if err := l.mayWait(ctx); err != nil {
		return inspect.Unapplied{}, err
	}
	revision := l.rows.Revision()
	s := l.sightBriefly(ctx, key)
	if !s.found && s.info == nil {
		if rest, err := l.Wait(ctx, revision, Attempted); err != nil {
			return rest, err
		}
		s = l.sightBriefly(ctx, key)
	}
	switch {
	case s.found:
		return l.WaitFor(ctx, m, s.row)
	case s.info != nil:
		return l.WaitFor(ctx, m, s.info.Obj)
	}
	return inspect.Unapplied{}, fmt.Errorf("reconciler %q: %w", l.ID(), notFound(key))
}

// sightBriefly returns what can be seen of an object without waiting long.
func (l *Loop[Obj]) sightBriefly(ctx context.Context, key string) sight[Obj] {
	s, err := askBriefly(ctx, l, func(*answers[Obj]) sight[Obj] { return l.view.look(key) })
	if err != nil {
		return l.view.glance(key)
	}
	return s
}
