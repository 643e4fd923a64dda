// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/rows"
)

// Walk is a way over all rows of a table in the order of their revisions. A row that is written meanwhile moves to
// the end. The zero value is a walk that has ended.
type Walk[Obj any] struct {
	// The walk has read the table up to the revision read, and ends at upTo.
	read, upTo statedb.Revision
	// wanted reports whether a row is part of the walk; nil if all are.
	wanted func(Row[Obj]) bool
}

// on reports whether the walk has not ended.
func (w *Walk[Obj]) on() bool { return w.upTo > 0 }

// next returns the next rows that are wanted, at most size. There may be none although the walk has
// not ended, if no row of the next few is wanted.
func (w *Walk[Obj]) next(table *rows.Rows[Obj], size int) (batch []Row[Obj]) {
	n := 0
	for object, revision := range table.Table.LowerBound(table.DB.ReadTxn(), statedb.ByRevision[Obj](w.read+1)) {
		if revision > w.upTo {
			break
		}
		if len(batch) == size || n == glance {
			return batch
		}
		n++
		w.read = revision
		if row := (Row[Obj]{object, revision}); w.wanted == nil || w.wanted(row) {
			batch = append(batch, row)
		}
	}
	*w = Walk[Obj]{}
	return batch
}
