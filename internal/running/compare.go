// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package running

import (
	"context"
	"reflect"

	"github.com/statekeel/statekeel/status"
)

// Comparer returns a function for an adapter that does not know whether a user's code has changed
// the clone of an update. It compares the clone with its row, all but the status, and calls
// [Changed] if they differ. It is called before the update returns, and must not be called in a
// deletion. The three functions are those of the loop's configuration; they must not be nil by then.
func Comparer[Obj any](clone func(Obj) Obj, get func(Obj) status.Status, set func(Obj, status.Status) Obj) func(ctx context.Context, obj Obj) {
	return func(ctx context.Context, obj Obj) {
		row, ok := Row[Obj](ctx)
		if !ok {
			return
		}
		was := get(row)
		// What is pending is written with any outcome: the comparison is for what is run again.
		if was.IsPendingOrRefreshing() {
			return
		}
		// The clone has the status that asked for the work.
		if !reflect.DeepEqual(row, set(clone(obj), was)) {
			Changed(ctx)
		}
	}
}
