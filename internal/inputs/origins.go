// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inputs

import (
	"slices"
	"sync"
	"time"

	"github.com/cilium/statedb"
)

// maxOrigins is what Origins remember at least, and half of the most: rows that are applied later than that many rounds of
// the derivation count in no latency.
const maxOrigins = 256

// Origins tell since when the rows of a derived table are wanted: when the change was made at the beginning of the chain
// that they follow from. A nil Origins has none. It is safe for concurrent use.
type Origins struct {
	mu   sync.Mutex
	last []origin
}

// origin says that rows with revisions above after follow from changes that were made at a time or later.
type origin struct {
	after statedb.Revision
	at    time.Time
}

// Note notes that the rows that are written from now on, with revisions above after, follow from changes that were made at
// a time or later. Call it before they are written.
func (o *Origins) Note(after statedb.Revision, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.last); n > 0 && o.last[n-1].after == after {
		o.last = o.last[:n-1] // no row has come of it
	} else if n == 2*maxOrigins {
		o.last = slices.Delete(o.last, 0, maxOrigins)
	}
	o.last = append(o.last, origin{after, at})
}

// Of returns when the oldest change was made that a row with this revision follows from; false if that is not remembered.
func (o *Origins) Of(revision statedb.Revision) (at time.Time, known bool) {
	if o == nil {
		return at, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range slices.Backward(o.last) {
		if one.after < revision {
			return one.at, true
		}
	}
	return at, false
}

// OriginsOf returns the origins of the rows of a table; nil if it is not derived.
func OriginsOf(db *statedb.DB, txn statedb.ReadTxn, tableName string) *Origins {
	for _, input := range Of(db, txn, tableName) {
		if input.claim != nil && input.claim.derived {
			return input.claim.origins
		}
	}
	return nil
}

// Origins returns those of the rows of the table.
func (c Claims) Origins() *Origins { return c[0].origins }
