// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/claims"
	"github.com/statekeel/statekeel/internal/guard"
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
	at      *claims.Place[In, Out]
	row     Out
	deleted bool
	// revision is that of the row that was merged; zero if the row is written whatever the table has.
	revision statedb.Revision
	// dropped: with the table locked, the row was the same or in error, and was not written.
	dropped bool
}

// write makes the output equal to the claims, and publishes what was reached. ready: the inputs are
// initialised in the snapshot that was derived. It stops when ctx ends; the next call does the rest.
func (d *Derived[In, Out]) write(ctx context.Context, ready bool) {
	if d.prune && ready && !d.hasUnknown() {
		d.prune, d.pruned, d.nothing = false, true, nil
		d.touchUnwanted()
	}
	var writes []write[In, Out]
	for complete := false; len(d.claims.Dirty) > 0; {
		if ctx.Err() != nil {
			return
		}
		// Rows that are written come before rows that are deleted, for those who derive from the output.
		// What an error put back is behind deletions.
		if !complete {
			d.claims.Sort()
		}
		writes = d.differences(writes[:0])
		complete = d.commit(writes)
	}
	d.publish(ready)
	d.settle()
}

// hasUnknown reports whether a row of the input has failed since its first version was read. Rows of the
// output may be its own, from a derivation before this one. After the first prune there are none of that.
func (d *Derived[In, Out]) hasUnknown() bool {
	if d.pruned {
		return false
	}
	for key := range d.failed.Keys() {
		_, healed := d.healed[key]
		if _, nothing := d.nothing[key]; !healed && !nothing && d.claims.Of(key) == nil {
			return true
		}
	}
	return false
}

// compareAll has all places compared with the output, and as soon as the input is initialised, rows
// deleted that it does not want.
func (d *Derived[In, Out]) compareAll() {
	d.prune = true
	for _, at := range d.claims.Places {
		d.claims.Touch(at)
	}
}

// touchUnwanted has the rows of the output deleted that no input wants: each gets a place without claims.
func (d *Derived[In, Out]) touchUnwanted() {
	var unwanted []string
	for row := range d.output.All(d.cfg.DB.ReadTxn()) {
		if key := string(d.out.Key(row)); d.claims.Places[key] == nil {
			unwanted = append(unwanted, key)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range unwanted {
		d.claims.Touch(d.claims.Place(key))
	}
}

// differences takes dirty places from the list, until there are enough whose row has to be written.
func (d *Derived[In, Out]) differences(writes []write[In, Out]) []write[In, Out] {
	txn := d.cfg.DB.ReadTxn()
	for len(d.claims.Dirty) > 0 && len(writes) < d.maxRows {
		if w, differs := d.difference(txn, d.claims.Next()); differs {
			writes = append(writes, w)
		}
	}
	return writes
}

// difference compares a place with the output. If nothing has to be written, it judges the place.
func (d *Derived[In, Out]) difference(txn statedb.ReadTxn, at *claims.Place[In, Out]) (w write[In, Out], differs bool) {
	w, differs, err := d.compare(txn, at)
	if err != nil || !differs {
		d.judge(at, err)
		return w, false
	}
	return w, true
}

// compare returns the write that makes a place of the output equal to its claims, if it differs. The error is a panic of
// a function of the program, or says that its row cannot be used.
func (d *Derived[In, Out]) compare(txn statedb.ReadTxn, at *claims.Place[In, Out]) (w write[In, Out], differs bool, err error) {
	d.function.Begin(guard.Same, at.Key)
	defer d.function.End()
	defer d.catch(&err, at.Key, d.wrong.Of(at.Key) != nil)
	current, revision, found := d.out.ByKey(txn, []byte(at.Key))
	if len(at.Heap) == 0 {
		return write[In, Out]{at: at, row: current, deleted: true}, found, nil
	}
	w = write[In, Out]{at: at, row: at.Heap[0].Row}
	if !found {
		return w, true, nil
	}
	if d.cfg.Same(current, w.row) {
		return w, false, nil
	}
	if d.cfg.Merge != nil {
		d.function.Next(guard.Merge)
		w.row, w.revision = d.cfg.Merge(current, w.row), revision
		if key, err := d.out.KeyOf(w.row); err != nil {
			return w, false, fmt.Errorf("Config.Merge returned a row without a usable key: %w", err)
		} else if string(key) != at.Key {
			return w, false, fmt.Errorf("Config.Merge returned a row with the key %s", text.Name(string(key)))
		}
	}
	return w, true, nil
}

// judge sets or ends the error of a place: err, or that several rows want it and none is better. Without
// an error the output has what its claims say.
func (d *Derived[In, Out]) judge(at *claims.Place[In, Out], err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && d.rank == nil && len(at.Heap) > 1 {
		best := at.First(2)
		err = fmt.Errorf("it is derived from %d rows of table %q, %s wins over %s: use Best", len(at.Heap),
			d.in.Table.Name(), d.in.KeyName([]byte(best[0].Of.Key)), d.in.KeyName([]byte(best[1].Of.Key)))
	}
	if err == nil {
		if d.wrong.Forget(at.Key); len(at.Heap) == 0 {
			delete(d.claims.Places, at.Key)
		}
		return
	}
	err = fmt.Errorf("row %s of table %q: %w", d.out.KeyName([]byte(at.Key)), d.output.Name(), err)
	if d.wrong.Keep(at.Key, err, time.Now()) {
		d.cfg.Log.Warn("output row is in doubt", "key", text.Name(at.Key), "error", err)
	}
}

// commit writes rows in one transaction. It returns false if rows are left; they are dirty again.
func (d *Derived[In, Out]) commit(writes []write[In, Out]) (complete bool) {
	if len(writes) == 0 {
		return true
	}
	wtxn := d.cfg.DB.WriteTxn(d.output)
	// A panic in an index of the program must not leave the table locked.
	defer wtxn.Abort()
	n := 0
	for began := time.Now(); n < len(writes); n++ {
		if n > 0 && n%rowsBetween == 0 && time.Since(began) > maxLocked {
			break
		}
		if bad := d.put(wtxn, &writes[n]); bad != nil {
			// The transaction may have a part of the row.
			wtxn.Abort()
			d.judge(writes[n].at, fmt.Errorf("it cannot be written: %w", bad))
			d.redo(slices.Delete(writes, n, n+1))
			return false
		}
	}
	d.wroteLast = d.output.Revision(wtxn)
	wtxn.Commit()
	for _, w := range writes[:n] {
		if !w.dropped {
			d.judge(w.at, nil)
		}
	}
	d.redo(writes[n:])
	return n == len(writes)
}

// put writes one row. After an error the transaction must be aborted.
func (d *Derived[In, Out]) put(wtxn statedb.WriteTxn, w *write[In, Out]) (err error) {
	defer d.catch(&err, w.at.Key, d.wrong.Of(w.at.Key) != nil)
	if w.revision > 0 {
		if _, now, _ := d.out.ByKey(wtxn, []byte(w.at.Key)); now != w.revision {
			// Another writer has changed the row since. It cannot do so again before the commit.
			next, differs := d.difference(wtxn, w.at)
			if w.dropped = !differs; w.dropped {
				return nil
			}
			*w = next
		}
	}
	d.function.Begin(guard.Index, w.at.Key)
	defer d.function.End()
	if w.deleted {
		_, _, err = d.output.Delete(wtxn, w.row)
	} else {
		_, _, err = d.output.Insert(wtxn, w.row)
	}
	return err
}

// redo has rows compared again.
func (d *Derived[In, Out]) redo(writes []write[In, Out]) {
	for _, w := range writes {
		d.claims.Touch(w.at)
	}
}

// publish writes into the table of inputs which revisions of the inputs the output includes, and ends the
// initialisers of the output if ready is true. All of that has been written.
func (d *Derived[In, Out]) publish(ready bool) {
	d.mu.Lock()
	for key := range d.healed {
		d.failed.Forget(key)
	}
	clear(d.healed)
	now := reached{true, d.at, d.numErrors()}
	d.mu.Unlock()
	var wtxn statedb.WriteTxn
	switch {
	case ready && !d.initialized:
		wtxn = d.cfg.DB.WriteTxn(d.output, d.published.Meta())
		d.claim.Initialized(wtxn)
		d.initialized = true
	case now != d.reached:
		wtxn = d.cfg.DB.WriteTxn(d.published.Meta())
	default:
		return
	}
	defer wtxn.Commit()
	if d.wroteLast == 0 {
		d.wroteLast = d.output.Revision(wtxn)
	}
	for i, table := range d.tables {
		d.published.Update(wtxn, table.Name(), func(row *inputs.Input) {
			row.Input, row.Output = d.read[i], d.wroteLast
			if i == 0 {
				row.Rejected = now.failed
			}
			connect(row, true)
		})
	}
	d.reached = now
}

// disconnect publishes that the inputs are not followed.
func (d *Derived[In, Out]) disconnect() {
	wtxn := d.cfg.DB.WriteTxn(d.published.Meta())
	defer wtxn.Commit()
	for _, table := range d.tables {
		d.published.Update(wtxn, table.Name(), func(row *inputs.Input) { connect(row, false) })
	}
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
	if errors := d.errorVersion(); d.progress.at != d.at || d.progress.errors != errors {
		copy(d.progress.read, d.read)
		d.progress.at, d.progress.errors = d.at, errors
		d.progress.tell()
		d.noteTimes()
	}
	d.settled = true
}

// tell wakes those who wait.
func (s *settledUpTo) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}
