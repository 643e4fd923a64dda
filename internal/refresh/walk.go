// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"bytes"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/status"
)

// aged is a row to mark.
type aged[Obj any] struct {
	object   Obj
	revision statedb.Revision
	// at is when the row's status was written.
	at time.Time
}

// walkCall is a request to refresh all rows: one walk over the table in the order of keys. In that
// order no row changes its place, however often it is written meanwhile.
type walkCall[Obj any] struct {
	mu   sync.Mutex
	walk walk[Obj]
	// calls counts the requests.
	calls int
}

// walk is the state of the walk for a request.
type walk[Obj any] struct {
	// at is when the walk was requested; the zero time if there is no walk.
	at time.Time
	// last is the last row that the walk has reached; valid if begun.
	last  Obj
	begun bool
}

// call begins a walk from the start.
func (c *walkCall[Obj]) call() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.walk = walk[Obj]{at: time.Now()}
}

// state returns the state of the walk, and the number of its request.
func (c *walkCall[Obj]) state() (walk[Obj], int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.walk, c.calls
}

// advance sets the state of the walk, unless there was another request meanwhile.
func (c *walkCall[Obj]) advance(w walk[Obj], number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == number {
		c.walk = w
	}
}

// collectCalled fills the batch with up to size rows for a request. It returns false if there is no
// request, or no row is left.
func (r *run[Obj]) collectCalled(size int) bool {
	w, number := r.all.state()
	r.number = 0
	if w.at.IsZero() {
		return false
	}
	txn, now := r.Rows.DB.ReadTxn(), time.Now()
	rows := r.Rows.Table.All(txn)
	var from []byte
	if w.begun {
		rows, from = r.Rows.Table.LowerBound(txn, r.Rows.Query(w.last)), r.Rows.Key(w.last)
	}
	for object, revision := range rows {
		if from != nil && bytes.Equal(r.Rows.Key(object), from) {
			continue
		}
		if len(r.batch) == size {
			r.walk, r.number = w, number
			return true
		}
		w.last, w.begun, from = object, true, nil
		s := r.Rows.Asked(object)
		// A status written after the request is recent enough. A status with a time in the future
		// is from a clock that was set back afterwards.
		if s.Kind == status.KindDone && (!s.UpdatedAt.After(w.at) || s.UpdatedAt.After(now)) {
			r.batch = append(r.batch, aged[Obj]{object, revision, s.UpdatedAt})
		}
	}
	r.walk, r.number = walk[Obj]{}, number
	if len(r.batch) == 0 {
		r.all.advance(r.walk, number)
		return false
	}
	return true
}

// collectAged fills the batch with up to size rows that are old enough. It reads the table in the
// order of revisions, after the last row it checked, and stops at the first row that is too young.
// If the batch stays empty, it returns the time until the next row is old enough.
func (r *run[Obj]) collectAged(size int) time.Duration {
	interval := r.set.Interval
	if interval == 0 {
		return 0
	}
	txn := r.Rows.DB.ReadTxn()
	now := time.Now()
	for object, revision := range r.Rows.Table.LowerBound(txn, statedb.ByRevision[Obj](r.seen+1)) {
		s := r.Rows.Asked(object)
		// A status with a time in the future is from a clock that was set back afterwards.
		if age := now.Sub(s.UpdatedAt); age >= 0 && age < interval {
			return interval - age
		}
		r.seen = revision
		if s.Kind != status.KindDone {
			continue
		}
		r.batch = append(r.batch, aged[Obj]{object, revision, s.UpdatedAt})
		if len(r.batch) == size {
			break
		}
	}
	return interval
}

// mark marks the batch, and returns the revisions of the table before and after. Only then does the
// walk advance: a batch that was not marked is dropped when the settings change.
func (r *run[Obj]) mark() (before, after statedb.Revision) {
	before, after = r.write()
	if r.number > 0 {
		r.all.advance(r.walk, r.number)
	}
	return before, after
}

// write marks the rows of the batch in one transaction, except those whose status has changed. It
// returns the revisions of the table before and after.
func (r *run[Obj]) write() (before, after statedb.Revision) {
	at := time.Now()
	marked := func(object Obj) Obj { return r.Rows.Writable.SetStatus(r.Rows.Writable.Clone(object), status.RefreshingAt(at)) }
	rows := make([]Obj, len(r.batch))
	for i := range r.batch {
		rows[i] = marked(r.batch[i].object)
	}
	wtxn := r.Rows.DB.WriteTxn(r.Rows.Table)
	defer wtxn.Abort()
	before = r.Rows.Table.Revision(wtxn)
	for i := range r.batch {
		if _, _, err := r.Rows.Writable.Table.CompareAndSwap(wtxn, r.batch[i].revision, rows[i]); err == nil {
			continue
		}
		// Another reconciler may have written the row.
		row, _, found := r.Rows.Get(wtxn, r.batch[i].object)
		if !found {
			continue
		}
		if s := r.Rows.Asked(row); s.Kind == status.KindDone && s.UpdatedAt.Equal(r.batch[i].at) {
			_, _, _ = r.Rows.Writable.Table.Insert(wtxn, marked(row))
		}
	}
	return before, r.Rows.Table.Revision(wtxn.Commit())
}
