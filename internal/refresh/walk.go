// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"bytes"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/rows"
)

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
	// at is when the walk was requested; the zero time if there is no walk. upTo is the revision of
	// the table at that time.
	at   time.Time
	upTo statedb.Revision
	// last is the last row that the walk has reached; valid if begun.
	last  Obj
	begun bool
}

// call begins a walk from the start.
func (c *walkCall[Obj]) call(table *rows.Rows[Obj]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	c.walk = walk[Obj]{at: time.Now(), upTo: table.Revision()}
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

// collect returns the next rows of the walk that are wanted, at most size. There are none if there
// is no request, or no row is left.
func (c *walkCall[Obj]) collect(table *rows.Rows[Obj], size int, wanted func(w *walk[Obj], row Row[Obj]) bool) (b batch[Obj]) {
	w, number := c.state()
	if w.at.IsZero() {
		return b
	}
	txn := table.DB.ReadTxn()
	b.at = table.Table.Revision(txn)
	objects := table.Table.All(txn)
	var from []byte
	if w.begun {
		objects, from = table.From(txn, w.last), table.Key(w.last)
	}
	b.advance = func() { c.advance(w, number) }
	for object, revision := range objects {
		if from != nil && bytes.Equal(table.Key(object), from) {
			continue
		}
		if len(b.rows) == size {
			return b
		}
		w.last, w.begun, from = object, true, nil
		if row := (Row[Obj]{object, revision}); wanted(&w, row) {
			b.rows = append(b.rows, row)
		}
	}
	w = walk[Obj]{}
	if len(b.rows) == 0 {
		b.advance()
	}
	return b
}
