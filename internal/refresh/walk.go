// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"bytes"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/rows"
)

// Walk is a way over all rows of a table in the order of their keys. In that order no row changes its
// place, however often it is written meanwhile. The zero value is a walk that has ended.
type Walk[Obj any] struct {
	// covers reports whether a row is part of the walk.
	covers func(Row[Obj]) bool
	// last is the last row that the walk has reached; valid if begun.
	last  Obj
	begun bool
	// again: at the end of the table the walk begins at its first row, once.
	again bool
}

// walkUpTo returns a walk over the rows with revisions up to upTo.
func walkUpTo[Obj any](upTo statedb.Revision) Walk[Obj] {
	return Walk[Obj]{covers: func(row Row[Obj]) bool { return row.Revision <= upTo }}
}

// WalkOver returns a walk over the rows that covers returns true for when the walk reaches them.
func WalkOver[Obj any](covers func(Row[Obj]) bool) *Walk[Obj] { return &Walk[Obj]{covers: covers} }

// on reports whether the walk has not ended.
func (w *Walk[Obj]) on() bool { return w.covers != nil }

// next returns the next rows of the walk, at most size. There may be none although the walk has
// not ended, if none of the next few rows is part of it.
func (w *Walk[Obj]) next(table *rows.Rows[Obj], size int) (batch []Row[Obj]) {
	if !w.on() {
		return nil
	}
	txn := table.DB.ReadTxn()
	objects := table.Table.All(txn)
	var from []byte
	if w.begun {
		objects, from = table.From(txn, w.last), table.Key(w.last)
	}
	read, again := 0, w.again
	for object, revision := range objects {
		if from != nil && bytes.Equal(table.Key(object), from) {
			continue
		}
		if len(batch) == size || read == maxRead {
			return batch
		}
		read++
		w.last, w.begun, from = object, true, nil
		if row := (Row[Obj]{object, revision}); w.covers(row) {
			batch = append(batch, row)
		}
	}
	if *w = (Walk[Obj]{covers: w.covers}); !again {
		w.covers = nil
	}
	return batch
}
