// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
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
// taken the objects, but not for their operations; before the loop runs, until it does. The error is
// that of ctx, or [inspect.ErrStopped]; it joins one for each object of which the primary index makes no
// key, which is left out. If the rows carry the status, it marks them: Done becomes
// Refreshing, everything else that has a status Pending.
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

// handed are objects that a caller hands to the loop, to be applied again.
type handed[Obj any] struct {
	// If the table is still at the revision At, the rows are those in the table. Otherwise, and if At is
	// 0, they are looked up by their keys.
	refresh.Handed[Obj]
	// forced is as for [core.Core.Again].
	forced bool
	// taken is closed when the loop has taken all of them. running is then how many are in flight.
	taken   chan struct{}
	running int
	// noteTaken is called by the goroutine of the loop before taken is closed; nil if there is none.
	noteTaken func()
}

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
		if _, err := k.hand(ctx, &handed[Obj]{Handed: refresh.Handed[Obj]{Rows: done, At: r.Table.Revision(txn)}}); err != nil {
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
	h := handed[Obj]{forced: true}
	for _, obj := range objs {
		h.Rows = append(h.Rows, refresh.Row[Obj]{Object: obj})
	}
	return k.hand(ctx, &h)
}

// hand gives objects to the loop and blocks until it has taken them.
func (k byKey[Obj]) hand(ctx context.Context, h *handed[Obj]) (running int, err error) {
	h.taken = make(chan struct{})
	if k.loop.stopped() {
		return 0, inspect.ErrStopped
	}
	k.loop.calls.ask(func(a *asked[Obj]) { a.handed = append(a.handed, h) })
	select {
	case <-h.taken:
		return h.running, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-k.loop.ended:
		return 0, inspect.ErrStopped
	}
}

// handForRefresh returns the function with which the refresher hands rows to the loop; nil if it
// marks them.
func (l *Loop[Obj]) handForRefresh() func(ctx context.Context, rows refresh.Handed[Obj], taken func()) error {
	if !l.beside {
		return nil
	}
	return func(ctx context.Context, rows refresh.Handed[Obj], taken func()) error {
		_, err := byKey[Obj]{l}.hand(ctx, &handed[Obj]{Handed: rows, noteTaken: taken})
		return err
	}
}

// takeHanded gives the core the objects to apply again, as many as it has room for.
func (r *runner[Obj]) takeHanded(more []*handed[Obj]) {
	if r.handed = append(r.handed, more...); len(r.handed) == 0 {
		return
	}
	txn := r.rows.DB.ReadTxn()
	at := r.rows.Table.Revision(txn)
	for len(r.handed) > 0 {
		h := r.handed[0]
		for rows := &h.Rows; len(*rows) > 0; *rows = (*rows)[1:] {
			if r.core.LaneSize(core.Refresh) >= r.set.RoundSize {
				return
			}
			row, found := (*rows)[0], true
			if h.At == 0 || h.At != at {
				row.Object, row.Revision, found = r.rows.Get(txn, row.Object)
			}
			if found && r.again(row, h.forced) {
				h.running++
			}
		}
		if h.noteTaken != nil {
			h.noteTaken()
		}
		close(h.taken)
		r.handed = slices.Delete(r.handed, 0, 1)
	}
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
