// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// repeat has objects applied again whose rows have not changed. Its methods are safe from any
// goroutine.
type repeat[Obj comparable] interface {
	// refresh is [Loop.Refresh] with keys.
	refresh(ctx context.Context, keys []string) (int, error)
	// reapply is [Loop.Reapply].
	reapply(ctx context.Context, objs []Obj) (running int, err error)
}

// Reapply has objects applied again although their rows have not changed, for example because the
// target has lost them, or because something has changed that the operations read. Only the primary
// keys of objs matter. Objects that the table does not have are left alone, and so are those with a
// change that the loop has not read, which is applied anyway.
//
// Objects that are Done are refreshed. Failed and blocked ones are due, but not before their minimum
// backoff has passed. If an operation on an object is running, its outcome does not count, and the
// object is applied once more. Reapply returns how many are in that case. It blocks until the loop has
// taken the objects, also during a pause, but not for their operations; before the loop runs, until it does.
// The error is that of ctx, or [inspect.ErrStopped]; it joins one for each object of which the primary index
// makes no key or one above 65,535 bytes, which is left out.
//
// If ctx ends first, the loop may still take some of the objects. An object waits once to be applied again,
// however many calls ask for it. If the rows carry the status, Reapply marks them: Done becomes Refreshing,
// everything else that has a status Pending.
//
// Safe from any goroutine, but not in an operation of this reconciler: the error is
// [ErrInOperation].
func (l *Loop[Obj]) Reapply(ctx context.Context, objs ...Obj) (running int, err error) {
	if err := l.mayWait(ctx); err != nil {
		return 0, err
	}
	var errs []error
	keyed := make([]Obj, 0, len(objs))
	for i, obj := range objs {
		if _, err := l.rows.KeyOf(obj); err != nil {
			errs = append(errs, fmt.Errorf("reconciler %q: object %d of %d to apply again: %w", called(l.ID()), i, len(objs), err))
		} else {
			keyed = append(keyed, obj)
		}
	}
	running, err = l.repeat.reapply(ctx, keyed)
	return running, errors.Join(append(errs, err)...)
}

// byMark marks rows that carry the status.
type byMark[Obj comparable] struct{ rows *rows.Rows[Obj] }

func (m byMark[Obj]) refresh(_ context.Context, keys []string) (n int, err error) {
	wtxn := m.rows.DB.WriteTxn(m.rows.Table)
	defer wtxn.Abort()
	var errs []error
	for _, key := range keys {
		marked, err := m.refreshOne(wtxn, key)
		if err != nil {
			errs = append(errs, err)
		}
		if marked {
			n++
		}
	}
	wtxn.Commit()
	return n, errors.Join(errs...)
}

func (m byMark[Obj]) refreshOne(wtxn statedb.WriteTxn, name string) (marked bool, err error) {
	for _, key := range m.rows.Keys(name) {
		row, _, found := m.rows.ByKey(wtxn, key)
		if !found {
			continue
		}
		if m.rows.Asked(row).Kind != status.KindDone {
			return false, nil
		}
		err := m.mark(wtxn, row, status.Refreshing())
		return err == nil, err
	}
	return false, notFound(name)
}

func (m byMark[Obj]) mark(wtxn statedb.WriteTxn, row Obj, s Status) error {
	w := m.rows.Writable
	_, _, err := w.Table.Insert(wtxn, w.SetStatus(w.Clone(row), s))
	return err
}

func (m byMark[Obj]) reapply(_ context.Context, objs []Obj) (running int, err error) {
	wtxn := m.rows.DB.WriteTxn(m.rows.Table)
	defer wtxn.Abort()
	for _, obj := range objs {
		row, _, found := m.rows.Get(wtxn, obj)
		if !found {
			continue
		}
		switch m.rows.Asked(row).Kind {
		case status.KindUnset:
			continue
		case status.KindDone:
			err = m.mark(wtxn, row, status.Refreshing())
		default:
			err = m.mark(wtxn, row, status.Pending())
		}
		if err != nil {
			return 0, err
		}
	}
	wtxn.Commit()
	return 0, nil
}

// byKey hands objects to the loop, where the rows carry no status.
type byKey[Obj comparable] struct{ loop *Loop[Obj] }

// reruns is the set of the objects that calls ask to have applied again: each key once, however many calls
// ask for it, in the order of the first one.
type reruns[Obj any] struct {
	byKey map[string]*rerun[Obj]
	order []*rerun[Obj]
	// taken is closed when the loop has taken the set.
	taken chan struct{}
}

// rerun is an object of the set. If the table is still at the revision at, the row is that in the table.
// Otherwise, and if at is 0, it is looked up by its key.
type rerun[Obj any] struct {
	refresh.Row[Obj]
	at statedb.Revision
	// forced is as for [core.Core.Again]; running is its result, once the set is taken.
	forced, running bool
}

// atOnce bounds the objects that a call adds to the set: the loop takes the whole set between two rounds.
const atOnce = 1024

func (k byKey[Obj]) refresh(ctx context.Context, keys []string) (n int, err error) {
	if err := k.loop.mayWait(ctx); err != nil {
		return 0, err
	}
	r := k.loop.rows
	txn := r.DB.ReadTxn()
	var errs []error
	var done []refresh.Row[Obj]
	for _, name := range keys {
		row, revision, found := k.row(txn, name)
		switch {
		case !found:
			errs = append(errs, notFound(name))
		case k.loop.ledger.Status(txn, row, revision).Kind == status.KindDone:
			done = append(done, refresh.Row[Obj]{Object: row, Revision: revision})
		}
	}
	if len(done) > 0 {
		if _, err := k.hand(ctx, done, r.Table.Revision(txn), false); err != nil {
			return 0, errors.Join(append(errs, err)...)
		}
	}
	return len(done), errors.Join(errs...)
}

// row returns the row that a text names.
func (k byKey[Obj]) row(txn statedb.ReadTxn, name string) (row Obj, revision statedb.Revision, found bool) {
	for _, key := range k.loop.rows.Keys(name) {
		if row, revision, found = k.loop.rows.ByKey(txn, key); found {
			break
		}
	}
	return row, revision, found
}

func (k byKey[Obj]) reapply(ctx context.Context, objs []Obj) (running int, err error) {
	rows := make([]refresh.Row[Obj], len(objs))
	for i, obj := range objs {
		rows[i].Object = obj
	}
	return k.hand(ctx, rows, 0, true)
}

// hand has the loop take rows, and blocks until it has. It returns how many of the objects are in flight.
func (k byKey[Obj]) hand(ctx context.Context, rows []refresh.Row[Obj], at statedb.Revision, forced bool) (running int, err error) {
	if k.loop.stopped() {
		return 0, inspect.ErrStopped
	}
	for some := range slices.Chunk(rows, atOnce) {
		objs, taken := k.ask(some, at, forced)
		select {
		case <-taken:
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-k.loop.ended:
			return 0, inspect.ErrStopped
		}
		for _, o := range objs {
			if o.running {
				running++
			}
		}
	}
	return running, nil
}

// ask adds rows to the set. The channel is closed when the loop has taken them.
func (k byKey[Obj]) ask(rows []refresh.Row[Obj], at statedb.Revision, forced bool) (objs []*rerun[Obj], taken <-chan struct{}) {
	keys := make([]string, len(rows))
	for i, row := range rows {
		keys[i] = string(k.loop.rows.Key(row.Object))
	}
	k.loop.calls.ask(func(a *asked[Obj]) {
		if a.reruns == nil {
			a.reruns = &reruns[Obj]{byKey: map[string]*rerun[Obj]{}, taken: make(chan struct{})}
		}
		for i, row := range rows {
			o := a.reruns.byKey[keys[i]]
			if o == nil {
				o = &rerun[Obj]{Row: row, at: at}
				a.reruns.byKey[keys[i]], a.reruns.order = o, append(a.reruns.order, o)
			}
			o.forced = o.forced || forced
			objs = append(objs, o)
		}
		taken = a.reruns.taken
	})
	return objs, taken
}

// handForRefresh returns the function with which the refresher hands rows to the loop; nil if it
// marks them.
func (l *Loop[Obj]) handForRefresh() func(rows []refresh.Row[Obj], at statedb.Revision) <-chan struct{} {
	if !l.beside {
		return nil
	}
	return func(rows []refresh.Row[Obj], at statedb.Revision) <-chan struct{} {
		_, taken := byKey[Obj]{l}.ask(rows, at, false)
		return taken
	}
}

// takeReruns gives the core the objects to apply again; nil if there are none.
func (r *runner[Obj]) takeReruns(s *reruns[Obj]) {
	if s == nil {
		return
	}
	txn := r.rows.DB.ReadTxn()
	at := r.rows.Table.Revision(txn)
	for _, o := range s.order {
		row, found := o.Row, true
		if o.at == 0 || o.at != at {
			row.Object, row.Revision, found = r.rows.Get(txn, row.Object)
		}
		o.running = found && r.again(row, o.forced)
	}
	close(s.taken)
}

// again gives the core a row of the table to apply again, and reports whether an operation on its
// object is running. A version that the cursors have not read is left to them.
func (r *runner[Obj]) again(row refresh.Row[Obj], forced bool) (running bool) {
	if row.Revision > r.observer.Revision() && !r.observer.Applied(row.Object, row.Revision) {
		return false
	}
	before := r.core.Refreshing()
	running = r.core.Again(r.now(), row.Object, row.Revision, forced)
	r.repeated += r.core.Refreshing() - before
	return running
}
