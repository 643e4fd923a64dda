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
)

// NewIndex returns a secondary index named "status" for a table of Obj. Its key is the kind of the
// status that getStatus returns. The index makes "which objects failed?" and
// [WaitForReconciliation] cheap and costs one index write for each status write. Strings, as in
// db/list of a script, are the words of [Kind].
//
// The names of a table's indexes are unique: for a second status index, change its Name.
func NewIndex[Obj any](getStatus func(Obj) Status) statedb.Index[Obj, Kind] {
	return statedb.Index[Obj, Kind]{
		Name: "status",
		FromObject: func(obj Obj) index.KeySet {
			return index.NewKeySet(getStatus(obj).Kind.Key())
		},
		FromKey: Kind.Key,
		FromString: func(word string) (index.Key, error) {
			kind, err := parseKind(word)
			return kind.Key(), err
		},
	}
}

// unfinishedKinds are the kinds of objects that are not reconciled. Kinds in which objects tend to
// stay longest come first, because a wait watches one object at a time.
var unfinishedKinds = [...]Kind{KindBlocked, KindError, KindRefreshing, KindPending}

// WaitForReconciliation returns nil as soon as no object of the table is Pending, Refreshing, Error
// or Blocked; at once if the table is empty or has only rows without a status. It does not wait for
// deletions, which leave no row.
//
// When ctx ends first, it returns ctx.Err() wrapped with the table's name and the number of objects
// of each of these kinds. If the table does not have the index idx, it returns an error at once. It
// sleeps until an unfinished object changes, and may be called from any number of goroutines.
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

// watchUnfinished returns a channel that closes when one unfinished object changes, nil if there is
// none. The table cannot be reconciled before that object changes; a watch on all objects of a kind
// would wake the caller for each of them.
func watchUnfinished[Obj any](txn statedb.ReadTxn, table statedb.Table[Obj], idx statedb.Index[Obj, Kind]) <-chan struct{} {
	for _, kind := range unfinishedKinds {
		for obj := range table.List(txn, idx.Query(kind)) {
			query, _ := table.PrimaryIndexer().QueryFromObject(obj)
			_, _, changed, _ := table.GetWatch(txn, query)
			return changed
		}
	}
	return nil
}

// countUnfinished returns the number of objects of each unfinished kind as text, "" if there are
// none.
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
