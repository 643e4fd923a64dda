// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package running

import (
	"context"
	"reflect"

	"github.com/statekeel/statekeel/status"
)

// Comparer returns a function for adapters that run a user's code and cannot tell whether it has
// changed the clone of an update. The function compares the clone with its row, except for the
// status, and calls [Changed] if they differ. Call it at the end of an update, never in a deletion.
// clone, get and set are the functions of the loop's configuration. They must not be nil when the
// returned function is called in an operation.
func Comparer[Obj any](clone func(Obj) Obj, get func(Obj) status.Status, set func(Obj, status.Status) Obj) func(ctx context.Context, obj Obj) {
	return func(ctx context.Context, obj Obj) {
		row, ok := Row[Obj](ctx)
		if !ok {
			return
		}
		was := get(row)
		// A row that is Pending or Refreshing is written with any outcome. The comparison is for
		// operations that are run again.
		if was.IsPendingOrRefreshing() {
			return
		}
		// The clone has the status that asked for the work.
		if !reflect.DeepEqual(row, set(clone(obj), was)) {
			Changed(ctx)
		}
	}
}
