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
	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// repeat refreshes objects.
type repeat[Obj any] interface {
	// refresh is [Loop.Refresh] with keys. Safe from any goroutine.
	refresh(ctx context.Context, keys []string) (int, error)
	// again is the Give of [refresh.Config]. It is called on the goroutine of the loop.
	again(batch []refresh.Row[Obj]) (after, upTo statedb.Revision)
}

// Reapply has objects applied again although their rows have not changed, for example because the
// target has lost them, or because something has changed that the operations read. Only the primary
// keys of objs matter. Objects that the table does not have are left alone, and so are those with a
// change that the loop has not read, which is applied anyway.
//
// Nothing is written: an object that is Done stays so until the operation ends, and no wait that covers an earlier
// change of an object ends by the call. Objects that are Done are refreshed. Failed and blocked ones are due, but not
// before their minimum backoff has passed. If an operation on an object is running, its success does not count, and the
// object is applied once more. A row with a zero status is left alone. The error joins one for each object of which
// the primary index makes no key or one above 65,535 bytes, which is left out. After the reconciler has stopped it is
// [inspect.ErrStopped].
//
// Reapply returns how many operations are running on the objects. It blocks until the loop has taken the objects, also
// during a pause, but not for their operations; before the loop runs, until it does. If ctx ends first, the error is
// that of ctx, and the loop may still take some of the objects. An object waits once to be applied again, however many
// calls ask for it.
//
// Safe from any goroutine, but not in an operation of this reconciler: the error is
// [ErrInOperation].
func (l *Loop[Obj]) Reapply(ctx context.Context, objs ...Obj) (inFlight int, err error) {
	if err := l.mayWait(ctx); err != nil {
		return 0, err
	}
	if l.life.stopped() {
		return 0, inspect.ErrStopped
	}
	var errs []error
	keyed := make([]Obj, 0, len(objs))
	for i, obj := range objs {
		if _, err := l.rows.KeyOf(obj); err != nil {
			errs = append(errs, fmt.Errorf("reconciler %q: object %d of %d to apply again: %w", called(l.ID()), i, len(objs), err))
		} else {
			keyed = append(keyed, obj)
			if !running.Follows(ctx) {
				// A call that comes before the row is read counts, too.
				l.runner.resync.Refuse(obj)
			}
		}
	}
	inFlight, err = byKey[Obj]{&l.shared, l.runner}.hand(ctx, keyed, true)
	return inFlight, errors.Join(append(errs, err)...)
}

// byMark marks rows that carry the status.
type byMark[Obj any] struct{ rows *rows.Rows[Obj] }

func (m byMark[Obj]) refresh(_ context.Context, keys []string) (n int, err error) {
	wtxn := m.rows.DB.WriteTxn(m.rows.Table)
	defer wtxn.Abort()
	var errs []error
	for _, key := range keys {
		row, _, found := m.rows.Named(wtxn, key)
		if !found {
			errs = append(errs, notFound(key))
		} else if marked, err := m.mark(wtxn, row); err != nil {
			errs = append(errs, err)
		} else if marked {
			n++
		}
	}
	wtxn.Commit()
	return n, errors.Join(errs...)
}

// again looks each row up, because the table may have changed before it was locked.
func (m byMark[Obj]) again(batch []refresh.Row[Obj]) (after, upTo statedb.Revision) {
	wtxn := m.rows.DB.WriteTxn(m.rows.Table)
	defer wtxn.Abort()
	after = m.rows.Table.Revision(wtxn)
	for i := range batch {
		if row, _, found := m.rows.Get(wtxn, batch[i].Object); found {
			_, _ = m.mark(wtxn, row)
		}
	}
	return after, m.rows.Table.Revision(wtxn.Commit())
}

// mark marks a row as Refreshing if it is Done. Any other row is left alone.
func (m byMark[Obj]) mark(wtxn statedb.WriteTxn, row Obj) (marked bool, err error) {
	if m.rows.Asked(row).Kind != status.KindDone {
		return false, nil
	}
	w := m.rows.Writable
	_, _, err = w.Table.Insert(wtxn, w.SetStatus(w.Clone(row), status.Refreshing()))
	return err == nil, err
}

// byKey hands objects to the loop.
type byKey[Obj any] struct {
	shared *shared[Obj]
	runner *runner[Obj]
}

// reruns is the set of the objects that calls ask to have applied again: each key once, however many calls
// ask for it, in the order of the first one.
type reruns[Obj any] struct {
	byKey map[string]*rerun[Obj]
	order []*rerun[Obj]
	// taken is closed when the loop has taken the set.
	taken chan struct{}
}

// rerun is an object of the set.
type rerun[Obj any] struct {
	object Obj
	// forced is as for [core.Core.Again]; running is its result, once the set is taken.
	forced, running bool
}

// atOnce bounds the objects that a call adds to the set: the loop takes the whole set between two rounds.
const atOnce = 1024

func (k byKey[Obj]) refresh(ctx context.Context, keys []string) (n int, err error) {
	if err := k.shared.mayWait(ctx); err != nil {
		return 0, err
	}
	r := k.shared.rows
	txn := r.DB.ReadTxn()
	var errs []error
	var done []Obj
	for _, name := range keys {
		row, revision, found := r.Named(txn, name)
		switch {
		case !found:
			errs = append(errs, notFound(name))
		case k.shared.ledger.Status(txn, row, revision).Kind == status.KindDone:
			done = append(done, row)
		}
	}
	if len(done) > 0 {
		if _, err := k.hand(ctx, done, false); err != nil {
			return 0, errors.Join(append(errs, err)...)
		}
	}
	return len(done), errors.Join(errs...)
}

// again hands the rows to the core at once: the caller is the loop.
func (k byKey[Obj]) again(batch []refresh.Row[Obj]) (after, upTo statedb.Revision) {
	for i := range batch {
		k.runner.again(batch[i].Object, batch[i].Revision, false)
	}
	return 0, 0
}

// hand has the loop take objects, and blocks until it has. It returns how many of them are in flight.
func (k byKey[Obj]) hand(ctx context.Context, objs []Obj, forced bool) (running int, err error) {
	for some := range slices.Chunk(objs, atOnce) {
		asked, taken := k.ask(some, forced)
		select {
		case <-taken:
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-k.shared.life.ended:
			return 0, inspect.ErrStopped
		}
		for _, o := range asked {
			if o.running {
				running++
			}
		}
	}
	return running, nil
}

// ask adds objects to the set. The channel is closed when the loop has taken them.
func (k byKey[Obj]) ask(objs []Obj, forced bool) (added []*rerun[Obj], taken <-chan struct{}) {
	keys := make([]string, len(objs))
	for i, obj := range objs {
		keys[i] = string(k.shared.rows.Key(obj))
	}
	k.shared.calls.ask(func(a *asked[Obj]) {
		if a.reruns == nil {
			a.reruns = &reruns[Obj]{byKey: map[string]*rerun[Obj]{}, taken: make(chan struct{})}
		}
		for i, obj := range objs {
			o := a.reruns.byKey[keys[i]]
			if o == nil {
				o = &rerun[Obj]{object: obj}
				a.reruns.byKey[keys[i]], a.reruns.order = o, append(a.reruns.order, o)
			}
			o.forced = o.forced || forced
			added = append(added, o)
		}
		taken = a.reruns.taken
	})
	return added, taken
}

// takeReruns gives the core the objects to apply again; nil if there are none.
func (r *runner[Obj]) takeReruns(s *reruns[Obj]) {
	if s == nil {
		return
	}
	txn := r.shared.rows.DB.ReadTxn()
	for _, o := range s.order {
		if row, revision, found := r.shared.rows.Get(txn, o.object); found {
			o.running = r.again(row, revision, o.forced)
		}
	}
	close(s.taken)
}

// again gives the core a row of the table to apply again, and reports whether an operation on its
// object is running. A change that no cursor has read is left to them, unless an operation runs already: that may
// have begun before the call, and with this version or one that asks for the same.
func (r *runner[Obj]) again(row Obj, revision statedb.Revision, forced bool) (running bool) {
	asks := r.shared.rows.Asked(row)
	if asks.Kind == status.KindUnset {
		return false
	}
	unread := asks.IsPendingOrRefreshing() && revision > r.observer.Revision() && !r.observer.Applied(row, revision)
	if unread && !r.core.IsInFlight(row) {
		return false
	}
	before := r.core.Index.Figures().Refreshing
	running = r.core.Again(r.life.now(), row, revision, forced)
	r.this.repeated += r.core.Index.Figures().Refreshing - before
	return running
}
