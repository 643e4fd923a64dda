// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inputs

import (
	"sync"
	"time"

	"github.com/cilium/statedb"
)

// maxOrigins bounds what Origins remember: rows that are applied later than that many rounds of the derivation count in
// no latency.
const maxOrigins = 256

// Origins tell since when the rows of a derived table are wanted: when the change was made at the beginning of the chain
// that they follow from. A nil Origins has none. It is safe for concurrent use.
type Origins struct {
	mu sync.Mutex
	// last has the latest, in a ring, n is the number of all.
	last [maxOrigins]origin
	n    int
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
	if o.n > 0 && o.last[(o.n-1)%maxOrigins].after == after {
		o.n-- // no row has come of it
	}
	o.last[o.n%maxOrigins] = origin{after, at}
	o.n++
}

// Of returns when the oldest change was made that a row with this revision follows from; false if that is not remembered.
func (o *Origins) Of(revision statedb.Revision) (at time.Time, known bool) {
	if o == nil {
		return at, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := o.n - 1; i >= max(0, o.n-maxOrigins); i-- {
		if one := o.last[i%maxOrigins]; one.after < revision {
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
