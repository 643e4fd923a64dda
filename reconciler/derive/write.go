// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/internal/text"
)

const (
	// maxRows is the largest number of rows that one write transaction writes; that locks the table for
	// about 0.5 ms. maxLocked bounds the time if rows are slow to write; the clock is read every
	// rowsBetween rows.
	maxRows     = 256
	maxLocked   = 5 * time.Millisecond
	rowsBetween = 16
)

// write is the write of one output row.
type write[In, Out any] struct {
	// at is nil for a row that no input wants.
	at      *place[In, Out]
	row     Out
	deleted bool
	// revision is that of the row that was merged; zero if the row is written whatever the table has.
	revision statedb.Revision
	// dropped: with the table locked, the row was the same or in error, and was not written.
	dropped bool
}

// write makes the output equal to the claims, and publishes what was reached. ready: the input is
// initialised in the snapshot that was derived. It stops when ctx ends; the next call does the rest.
func (d *Derived[In, Out]) write(ctx context.Context, ready bool) {
	if d.sweep && ready && !d.hasUnknown() {
		d.sweep, d.strange = false, d.unwanted()
	}
	var writes []write[In, Out]
	for complete := false; ctx.Err() == nil; {
		// Rows that are written come before rows that are deleted, for those who derive from the output.
		// What an error put back is behind deletions.
		if !complete {
			slices.SortStableFunc(d.dirty, func(a, b *place[In, Out]) int { return order(a) - order(b) })
		}
		writes = d.sweeps(d.differences(writes[:0]))
		last := len(d.dirty) == 0 && len(d.strange) == 0
		if complete = d.commit(writes, last, ready); complete && last {
			d.settle()
			return
		}
	}
}

// hasUnknown reports whether a row of the input has failed since its first version was read. Rows of the
// output may be its own, from a derivation before this one.
func (d *Derived[In, Out]) hasUnknown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.failed.byKey {
		if d.claims.inputs[key] == nil {
			return true
		}
	}
	return false
}

// compareAll has all places compared with the output, and as soon as the input is initialised, rows
// deleted that it does not want.
func (d *Derived[In, Out]) compareAll() {
	d.sweep = true
	for _, at := range d.claims.places {
		d.touch(at)
	}
}

func (d *Derived[In, Out]) touch(at *place[In, Out]) {
	if !at.dirty {
		at.dirty = true
		d.dirty = append(d.dirty, at)
	}
}

// order is 0 for places whose row is written, 1 for those whose row is deleted.
func order[In, Out any](at *place[In, Out]) int {
	if len(at.heap) == 0 {
		return 1
	}
	return 0
}

// unwanted returns the rows of the output that no input wants.
func (d *Derived[In, Out]) unwanted() (out []Out) {
	for row := range d.output.All(d.cfg.DB.ReadTxn()) {
		if d.claims.places[string(d.out.Key(row))] == nil {
			out = append(out, row)
		}
	}
	return out
}

// sweeps adds deletions of rows that no input wants to writes, if all places have been compared.
func (d *Derived[In, Out]) sweeps(writes []write[In, Out]) []write[In, Out] {
	for len(d.dirty) == 0 && len(d.strange) > 0 && len(writes) < d.maxRows {
		row := d.strange[0]
		d.strange = d.strange[1:]
		// An input may want it since it was found.
		if d.claims.places[string(d.out.Key(row))] == nil {
			writes = append(writes, write[In, Out]{row: row, deleted: true})
		}
	}
	return writes
}

// differences takes dirty places from the list, until there are enough whose row has to be written.
func (d *Derived[In, Out]) differences(writes []write[In, Out]) []write[In, Out] {
	txn := d.cfg.DB.ReadTxn()
	n := 0
	for n < len(d.dirty) && len(writes) < d.maxRows {
		at := d.dirty[n]
		n++
		at.dirty = false
		w, differs, err := d.difference(txn, at)
		d.judge(at, err)
		if differs && err == nil {
			writes = append(writes, w)
		}
	}
	if d.dirty = d.dirty[n:]; len(d.dirty) == 0 {
		d.dirty = nil
	}
	return writes
}

// difference compares a place with the output. The error is a panic of a function of the program.
func (d *Derived[In, Out]) difference(txn statedb.ReadTxn, at *place[In, Out]) (w write[In, Out], differs bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(r)
			d.cfg.Log.Error("comparing output rows panicked", "key", text.Name(at.key), "error", err, "stack", string(debug.Stack()))
		}
	}()
	w = write[In, Out]{at: at, row: at.last}
	winner := at.winner()
	if winner == nil {
		_, _, found := d.out.Get(txn, at.last)
		if w.deleted = true; !found {
			d.mu.Lock()
			d.claims.forget(at)
			d.mu.Unlock()
		}
		return w, found, nil
	}
	w.row = winner.row
	current, revision, found := d.out.Get(txn, winner.row)
	if !found {
		return w, true, nil
	}
	if d.cfg.Same(current, winner.row) {
		return w, false, nil
	}
	if d.cfg.Merge != nil {
		w.row, w.revision = d.cfg.Merge(current, winner.row), revision
		if key, err := d.out.KeyOf(w.row); err != nil {
			return w, false, fmt.Errorf("Config.Merge returned a row without a usable key: %w", err)
		} else if string(key) != at.key {
			return w, false, fmt.Errorf("Config.Merge returned a row with the key %s", text.Name(string(key)))
		}
	}
	return w, true, nil
}

// judge sets or ends the error of a place.
func (d *Derived[In, Out]) judge(at *place[In, Out], err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil:
	case at.unordered:
		err = errors.New("comparing rows panicked when one of them was deleted, so the best may be another")
	case d.claims.compare == nil && len(at.heap) > 1:
		loser := at.heap[1].of.key
		err = fmt.Errorf("it is derived from %d rows of table %q, %s wins over %s: use Best", len(at.heap),
			d.in.Table.Name(), d.in.KeyName([]byte(at.heap[0].of.key)), d.in.KeyName([]byte(loser)))
	default:
		d.wrong.forget(at.key)
		return
	}
	err = fmt.Errorf("row %s of table %q: %w", d.out.KeyName([]byte(at.key)), d.output.Name(), err)
	if d.wrong.keep(at.key, err, time.Now()) {
		d.cfg.Log.Warn("output row is in doubt", "key", text.Name(at.key), "error", err)
	}
}

// commit writes rows in one transaction. last: nothing else has to be written, and the transaction
// publishes what was reached. It returns false if rows are left; they are dirty again.
func (d *Derived[In, Out]) commit(writes []write[In, Out], last, ready bool) (complete bool) {
	marks := last && ready && !d.initialized
	d.mu.Lock()
	reached := reached{true, d.read, d.numErrors()}
	d.mu.Unlock()
	var wtxn statedb.WriteTxn
	switch {
	case len(writes) > 0 || marks:
		wtxn = d.cfg.DB.WriteTxn(d.output, d.published.Meta())
	case last && reached != d.reached:
		wtxn = d.cfg.DB.WriteTxn(d.published.Meta())
	default:
		return true
	}
	// A panic in an index of the program must not leave the table locked.
	defer wtxn.Abort()
	n, bad := d.put(wtxn, writes)
	if bad != nil {
		wtxn.Abort()
		d.leave(writes[n], bad)
		d.redo(writes[:n])
		d.redo(writes[n+1:])
		return false
	}
	complete = n == len(writes)
	if n > 0 || d.wroteLast == 0 {
		d.wroteLast = d.output.Revision(wtxn)
	}
	if complete && last {
		d.publish(wtxn, reached)
	}
	if complete && marks {
		d.claim.Initialized(wtxn)
		d.initialized = true
	}
	wtxn.Commit()
	d.written(writes[:n])
	d.redo(writes[n:])
	if complete && last {
		d.reached = reached
	}
	return complete
}

// put writes as many rows as there is time for, n of them. bad is the error of writes[n], after which the
// transaction must be aborted.
func (d *Derived[In, Out]) put(wtxn statedb.WriteTxn, writes []write[In, Out]) (n int, bad error) {
	began := time.Now()
	for ; n < len(writes); n++ {
		if n > 0 && n%rowsBetween == 0 && time.Since(began) > maxLocked {
			break
		}
		w := &writes[n]
		err := d.putOne(wtxn, w)
		if errors.Is(err, statedb.ErrRevisionNotEqual) || errors.Is(err, statedb.ErrObjectNotFound) {
			// Another writer has changed the row since. It cannot do so again before the commit.
			err = nil
			if d.again(wtxn, w); !w.dropped {
				err = d.putOne(wtxn, w)
			}
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// again compares and merges a row once more, in a transaction.
func (d *Derived[In, Out]) again(wtxn statedb.WriteTxn, w *write[In, Out]) {
	next, differs, err := d.difference(wtxn, w.at)
	d.judge(next.at, err)
	next.dropped = !differs || err != nil
	*w = next
}

func (d *Derived[In, Out]) putOne(wtxn statedb.WriteTxn, w *write[In, Out]) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(r)
		}
	}()
	switch {
	case w.deleted:
		_, _, err = d.output.Delete(wtxn, w.row)
	case w.revision > 0:
		_, _, err = d.output.CompareAndSwap(wtxn, w.revision, w.row)
	default:
		_, _, err = d.output.Insert(wtxn, w.row)
	}
	return err
}

// leave gives up a row that cannot be written, until its place changes.
func (d *Derived[In, Out]) leave(w write[In, Out], err error) {
	d.cfg.Log.Error("output row cannot be written", "error", err)
	if w.at != nil {
		d.judge(w.at, fmt.Errorf("it cannot be written: %w", err))
	}
}

// redo has rows compared again.
func (d *Derived[In, Out]) redo(writes []write[In, Out]) {
	for _, w := range writes {
		if w.at != nil {
			d.touch(w.at)
		} else {
			d.strange = append(d.strange, w.row)
		}
	}
}

// written counts what was committed, and forgets places whose row is gone.
func (d *Derived[In, Out]) written(writes []write[In, Out]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range writes {
		switch {
		case w.dropped:
		case !w.deleted:
			d.progress.written++
		default:
			d.progress.deleted++
			if w.at != nil {
				d.claims.forget(w.at)
			}
		}
	}
}

// publish writes into the table of inputs which revision of the input the output includes.
func (d *Derived[In, Out]) publish(wtxn statedb.WriteTxn, now reached) {
	d.published.Update(wtxn, d.in.Table.Name(), func(row *inputs.Input) {
		row.Input, row.Output, row.Rejected = now.input, d.wroteLast, now.failed
		connect(row, true)
	})
}

// disconnect publishes that the input is not followed.
func (d *Derived[In, Out]) disconnect() {
	wtxn := d.cfg.DB.WriteTxn(d.published.Meta())
	defer wtxn.Commit()
	d.published.Update(wtxn, d.in.Table.Name(), func(row *inputs.Input) { connect(row, false) })
	d.reached = reached{}
}

func connect(row *inputs.Input, connected bool) {
	if row.Connected != connected {
		row.Connected, row.Since = connected, time.Now()
	}
}

// settle tells the waits what was reached, if that is news.
func (d *Derived[In, Out]) settle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	errors := d.failed.version + d.wrong.version
	if d.progress.until != d.read || d.progress.errors != errors {
		d.progress.until, d.progress.errors = d.read, errors
		d.progress.tell()
	}
}

// tell wakes those who wait.
func (s *settled) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}
