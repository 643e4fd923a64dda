// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/keywaits"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// WaitFor blocks until some objects reach the milestone. An object is a row of the table, or the
// deletion of a row that the table does not have any more. The wait is for the version at the time of
// the call, or a later one: a row that is rewritten all the time is waited for until an operation on one of
// these has ended. Only the primary key of objs matters; if one has none, or one above 65,535 bytes, which
// statedb does not find again, that is an error at once. It returns the objects that are not in the target,
// or if deleted, still are; the list is empty if the milestone is [Applied].
//
// When ctx ends first, the error wraps that of ctx, and the objects that are not applied are returned. The loop has 100 ms
// to give details, of many objects at most 200 ms. A row with a zero status counts as attempted, and can never be applied:
// for [Applied] the error is [ErrNoStatus], when its turn in objs comes. Before the reconciler runs, WaitFor waits for it to
// start. After it has stopped, the error is [inspect.ErrStopped], unless the rows show that the milestone was reached.
//
// WaitFor returns as soon as the status of the objects is written, whatever other work there is. For
// a deletion that was carried out before the call it may have to wait until the reconciler has worked
// off a backlog.
//
// Safe from any goroutine. In an operation of this reconciler the error is [ErrInOperation], at once.
// A wait does not cover another run of an object that is Done, which [Loop.Reapply] or a trigger (see package trigger)
// has asked for.
func (l *Loop[Obj]) WaitFor(ctx context.Context, m Milestone, objs ...Obj) (inspect.Unapplied, error) {
	if err := validateMilestone(m); err != nil {
		return inspect.Unapplied{}, err
	}
	if err := l.mayWait(ctx); err != nil {
		return inspect.Unapplied{}, err
	}
	for i, obj := range objs {
		if _, err := l.rows.KeyOf(obj); err != nil {
			return inspect.Unapplied{}, fmt.Errorf("reconciler %q: object %d of %d to wait for: %w", called(l.ID()), i, len(objs), err)
		}
	}
	for i, obj := range objs {
		get := func(txn statedb.ReadTxn) (Obj, statedb.Revision, <-chan struct{}, bool) {
			return l.rows.GetWatch(txn, obj)
		}
		if err := l.waitForOne(ctx, &keywaits.Wait[Obj]{Milestone: m, Key: string(l.rows.Key(obj)), Get: get}); err != nil {
			rest, why := l.view.unappliedOf(ctx, objs[i:], false)
			return rest, fmt.Errorf("reconciler %q: waiting for %s to be %s, %d of %d objects are: %w",
				called(l.ID()), text.Key(l.rows.Key(obj)), m, i, len(objs), unanswered(err, why))
		}
	}
	if m == Applied {
		return inspect.Unapplied{}, nil
	}
	rest, _ := l.view.unappliedOf(ctx, objs, true)
	return rest, nil
}

// waitForOne blocks until the object of a wait has reached its milestone, at its version of now or a later one. The row
// shows it, and keywaits what no row shows: that a paused change will not be attempted, that a deletion is
// carried out, or that a version was applied that has been replaced since.
func (l *Loop[Obj]) waitForOne(ctx context.Context, w *keywaits.Wait[Obj]) error {
	l.keyWaits.Begin(w)
	defer l.keyWaits.Leave(w)
	for {
		// This comes first, so that what was written before the end is seen.
		stopped := l.life.stopped()
		txn := l.rows.DB.ReadTxn()
		row, revision, changed, found := w.Get(txn)
		if found {
			if there, err := reachedBy(l.ledger.Status(txn, row, revision).Kind, w.Milestone); there {
				return err
			}
		} else {
			// The wait is over if the key is inserted again.
			revision, changed = l.rows.Table.Revision(txn), nil
		}
		if stopped {
			return inspect.ErrStopped
		}
		met := l.keyWaits.Join(w, row, revision, !found)
		l.calls.made.Send()
		select {
		case <-met:
		case <-changed:
		case <-l.life.ended:
		case <-ctx.Done():
		}
		over := l.keyWaits.IsOver(w)
		select {
		case <-changed:
			// A wait that is over may have been for the version before. If an operation on that or a later one has
			// ended, the next wait is over, too.
		default:
			if over {
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// reachedBy reports whether a row with a kind of status has reached a milestone. The error means that
// it never will.
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

// unfinished returns the objects whose rows are not Done or do not exist.
func (v *view[Obj]) unfinished(txn statedb.ReadTxn, objs []Obj) (rest []Obj) {
	for _, obj := range objs {
		if s, found := v.status(txn, obj); !found || s.Kind != status.KindDone {
			rest = append(rest, obj)
		}
	}
	return rest
}

// answer is what the loop knows about some objects at one moment.
type answer[Obj any] struct {
	txn   statedb.ReadTxn
	known []known[Obj]
	// seen: the loop has read everything up to the snapshot.
	seen bool
}

// unappliedOf returns which of the objects are not in the target. met means that each has reached its
// milestone. The error is that of askBriefly; from then on the result is based on the rows alone. The loop
// looks at a few of many objects at a time, and does other work in between.
func (v *view[Obj]) unappliedOf(ctx context.Context, objs []Obj, met bool) (list inspect.Unapplied, err error) {
	txn, began := v.rows.DB.ReadTxn(), time.Now()
	for some := range slices.Chunk(v.unfinished(txn, objs), keywaits.Limit) {
		if !met && err == nil && time.Since(began) > answerTimeout {
			err = &inspect.BusyError{With: v.busy()}
		}
		known := answer[Obj]{txn: txn, known: make([]known[Obj], len(some))}
		if err == nil {
			var told answer[Obj]
			if told, err = askBriefly(ctx, v, func(b *answers[Obj]) answer[Obj] { return b.answer(some) }); err == nil {
				known = told
			}
		}
		list.Keys = append(list.Keys, v.unappliedAs(known, some, met, err)...)
	}
	return list, err
}

// unappliedAs is unappliedOf for what is known about the objects. err is why the loop did not tell.
func (v *view[Obj]) unappliedAs(known answer[Obj], objs []Obj, met bool, err error) (keys []inspect.Unreconciled) {
	g := v.gates()
	for i, obj := range objs {
		if err != nil {
			known.known[i] = v.unasked(v.rows.Key(obj))
		}
		s, found := v.status(known.txn, obj)
		d := known.known[i].info
		if d != nil && d.Since == 0 {
			d = nil
		}
		u := inspect.Unreconciled{Key: v.rows.Key(obj), Deleted: !found}
		switch {
		case found && s.Kind == status.KindDone,
			!found && d == nil && err == nil && (met || known.seen):
			continue
		case d != nil && d.Deleted == !found:
			u = v.unreconciled(g, d, known.txn)
		case found:
			is := stateOf(true, s.Kind, &known.known[i], err)
			u.State, u.Err = g.shown(is, u.Key), v.reasonOf(u.Key, s)
			if s.Kind == status.KindUnset {
				u.Err = ErrNoStatus
			} else if is == inspect.StateUnseen && g.state.health.Waits {
				u.Err = errors.New(g.state.awaitsListing())
			}
		case err == nil:
			u.State = g.shown(inspect.StateUnseen, u.Key)
		default:
			u.State = stateOf(false, 0, &known.known[i], err)
		}
		keys = append(keys, u)
	}
	return keys
}

// answer returns what the loop knows about some objects.
func (b *answers[Obj]) answer(objs []Obj) answer[Obj] {
	r := b.r
	txn := r.shared.rows.DB.ReadTxn()
	known := answer[Obj]{
		txn: txn, known: make([]known[Obj], len(objs)),
		seen: r.observer.Revision() >= r.shared.rows.Table.Revision(txn),
	}
	for i, obj := range objs {
		key := r.shared.rows.Key(obj)
		if info, has := r.core.KeyInfo(string(key), 0); has {
			// The row adds nothing to it.
			known.known[i].info = &info
			continue
		}
		row, revision, _ := r.shared.rows.Get(txn, obj)
		known.known[i] = b.known(key, row, revision, 0)
	}
	return known
}

// WaitAll is [Loop.Wait] for everything that is in the table when it is called, including rows that
// other writers have written again.
func (l *Loop[Obj]) WaitAll(ctx context.Context, m Milestone) (inspect.Unapplied, error) {
	w := progress.NewWait[remainder[Obj]](0, m)
	w.All = true
	return l.awaitRevision(ctx, w)
}

// WaitKey is [Loop.WaitFor] for the object with a key, which is as for [Loop.Explain]. The object may
// be a row, or one that is deleted and whose deletion is not carried out.
//
// The error is [inspect.ErrNotFound] if neither the table nor the reconciler has the object; if there
// was one, it is gone from the target. WaitKey returns this error only after everything that was
// changed before the call has been attempted: until then there may be a deletion that the reconciler
// has not read.
func (l *Loop[Obj]) WaitKey(ctx context.Context, key string, m Milestone) (inspect.Unapplied, error) {
	if err := l.mayWait(ctx); err != nil {
		return inspect.Unapplied{}, err
	}
	revision := l.rows.Revision()
	s, err := ask(ctx, l.view, func(b *answers[Obj]) facts[Obj] { return b.facts(key) })
	if err == nil && !s.found && s.info == nil {
		if rest, err := l.Wait(ctx, revision, Attempted); err != nil {
			return rest, err
		}
		s, err = ask(ctx, l.view, func(b *answers[Obj]) facts[Obj] { return b.facts(key) })
	}
	if err != nil {
		s = l.view.find(key, nil)
	}
	switch {
	case s.found:
		return l.WaitFor(ctx, m, s.row)
	case s.info != nil:
		return l.WaitFor(ctx, m, s.info.Obj)
	}
	return inspect.Unapplied{}, fmt.Errorf("reconciler %q: %w", l.ID(), cmp.Or(err, notFound(key)))
}
