// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/object"
)

// WaitReady waits until the external resource of the object with the key of obj can be used: until
// [TypeReady] is True for the row's generation. It returns the row. The status of a row may be Done
// long before that, since Done only means that a pass has succeeded. The error is [ErrRowGone] if there
// is no such row, [ErrTerminating] if the deletion of the object was requested, or the cause of the end
// of ctx with the text of the conditions. It may be called from any goroutine, but not while a write
// transaction of the table is open, since no condition changes then.
func WaitReady[T Managed](ctx context.Context, db *statedb.DB, table statedb.Table[T], obj T) (row T, err error) {
	key := object.KeyOf(obj).String()
	for {
		row, watch, found := rowWatch(table, db.ReadTxn(), obj)
		switch {
		case !found:
			return row, fmt.Errorf("wait for %q: %w", key, ErrRowGone)
		case WasDeleted(row):
			return row, fmt.Errorf("wait for %q: %w", key, ErrTerminating)
		case IsReady(row) && conditionOf(row, TypeReady).ObservedGeneration == row.meta().Generation:
			return row, nil
		}
		select {
		case <-watch:
		case <-ctx.Done():
			return row, fmt.Errorf("%q is not ready: %s: %w", key, text.Printable(whyNotReady(row)), context.Cause(ctx))
		}
	}
}

// rowOf returns the row with the key of an object.
func rowOf[T Managed](table statedb.Table[T], txn statedb.ReadTxn, obj T) (row T, revision statedb.Revision, found bool) {
	query, ok := table.PrimaryIndexer().QueryFromObject(obj)
	if !ok {
		return row, 0, false
	}
	return table.Get(txn, query)
}

// rowWatch is rowOf with a channel that closes when the row changes; nil for an object without a key.
func rowWatch[T Managed](table statedb.Table[T], txn statedb.ReadTxn, obj T) (row T, watch <-chan struct{}, found bool) {
	query, ok := table.PrimaryIndexer().QueryFromObject(obj)
	if !ok {
		return row, nil, false
	}
	row, _, watch, found = table.GetWatch(txn, query)
	return row, watch, found
}

// whyNotReady returns the text of the condition that explains why a row is not ready.
func whyNotReady(row Resource) string {
	synced, ready := conditionOf(row, TypeSynced), conditionOf(row, TypeReady)
	switch {
	case synced.Status == ConditionFalse:
		return textOfCondition(synced)
	case ready.Status == ConditionTrue:
		return fmt.Sprintf("%s of generation %d, the object has generation %d", textOfCondition(ready), ready.ObservedGeneration, row.meta().Generation)
	default:
		return textOfCondition(ready)
	}
}

func textOfCondition(c Condition) string {
	text := fmt.Sprintf("%s is %s", c.Type, c.Status)
	switch {
	case c.Message != "":
		return fmt.Sprintf("%s (%s: %s)", text, c.Reason, c.Message)
	case c.Reason != "":
		return fmt.Sprintf("%s (%s)", text, c.Reason)
	}
	return text
}
