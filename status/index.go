// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/keys"
)

// NewIndex returns a secondary index named "status" for a table of Obj, by the kind of
// the status that getStatus takes from the object. It makes "which objects failed?" and
// [WaitForReconciliation] cheap, at the price of one index write at every status write;
// leave it out where nobody asks. From a string, say in a script's db/list, it takes the
// words of [Kind].
//
// A table has room for one index of a name: for a second one, change its Name.
func NewIndex[Obj any](getStatus func(Obj) Status) statedb.Index[Obj, Kind] {
	return statedb.Index[Obj, Kind]{
		Name: "status",
		FromObject: func(obj Obj) index.KeySet {
			return keys.Set(getStatus(obj).Kind.Key())
		},
		FromKey: Kind.Key,
		FromString: func(word string) (index.Key, error) {
			kind, err := parseKind(word)
			return kind.Key(), err
		},
	}
}

// unfinishedKinds are the kinds that keep a table from being reconciled. Those come first
// whose objects tend to stay longest, since waiting takes one object at a time.
var unfinishedKinds = [...]Kind{KindBlocked, KindError, KindRefreshing, KindPending}

// WaitForReconciliation returns nil as soon as no object of the table is Pending,
// Refreshing, Error or Blocked: at once if the table is empty or nobody asked for its
// objects to be reconciled. Deletions, which leave no object to look at, it does not wait
// for.
//
// Otherwise, when ctx ends, it returns ctx.Err() wrapped with the table's name and how
// many objects are left of each of these kinds. It fails at once if the table does not
// have the index idx. It sleeps for as long as one unfinished object stays as it is, and
// may be called from any number of goroutines.
func WaitForReconciliation[Obj any](ctx context.Context, db *statedb.DB, table statedb.Table[Obj], idx statedb.Index[Obj, Kind]) error {
	if !slices.Contains(table.Indexes(), idx.Name) {
		return fmt.Errorf("table %q has no index %q to wait on", table.Name(), idx.Name)
	}
	for {
		changed := watchUnfinished(db.ReadTxn(), table, idx)
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			left := countUnfinished(db.ReadTxn(), table, idx)
			if left == "" {
				return nil
			}
			return fmt.Errorf("table %q is not reconciled: %s: %w", table.Name(), left, ctx.Err())
		}
	}
}

// watchUnfinished returns a channel that closes when a certain unfinished object changes,
// nil if there is none. Until then the table cannot be reconciled, whatever happens to the
// others; to watch the objects of a kind would wake us for each of them.
func watchUnfinished[Obj any](txn statedb.ReadTxn, table statedb.Table[Obj], idx statedb.Index[Obj, Kind]) <-chan struct{} {
	for _, kind := range unfinishedKinds {
		for obj := range table.List(txn, idx.Query(kind)) {
			_, _, changed, _ := table.GetWatch(txn, keys.Query(table.PrimaryIndexer(), obj))
			return changed
		}
	}
	return nil
}

// countUnfinished says how many objects there are of each unfinished kind, "" if none.
func countUnfinished[Obj any](txn statedb.ReadTxn, table statedb.Table[Obj], idx statedb.Index[Obj, Kind]) string {
	var counts []string
	for _, kind := range unfinishedKinds {
		n := 0
		for range table.List(txn, idx.Query(kind)) {
			n++
		}
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	return strings.Join(counts, ", ")
}
