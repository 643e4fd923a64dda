// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"
	"slices"

	"github.com/cilium/statedb/index"
)

// Events returns what the journal has of operations, the oldest first. An event that is
// older than the journal reaches is not among them; [WithJournal] says how far that is. It
// reaches further for failures, so that what came after one of them may be missing.
// The key is as [Loop.Explain] takes it. Safe from any goroutine; it does not wait for a
// running operation.
func (l *Loop[Obj]) Events(q EventQuery) []Event {
	if q.Key == "" {
		events, _ := l.eventsOf(nil, q)
		return events
	}
	txn := l.rows.DB.ReadTxn()
	for _, key := range l.rows.Keys(q.Key) {
		events, _ := l.eventsOf(&key, q)
		if _, _, found := l.rows.ByKey(txn, key); found || len(events) > 0 {
			return events
		}
	}
	return nil
}

// eventsOf returns the events of the object with a key, of all objects if that is nil, that a
// query asks for besides. latest: the last of them is the last operation there was on these objects.
func (l *Loop[Obj]) eventsOf(key *index.Key, q EventQuery) (events []Event, latest bool) {
	var objects []Obj
	l.journal.visit(func(op *placed[Obj], old bool) bool {
		if op.at.Before(q.Since) {
			return false
		}
		if key != nil && !bytes.Equal(l.rows.Key(op.object), *key) {
			return true
		}
		latest = latest || !old
		record := l.journal.record(&op.operationEntry)
		events = append(events, Event{
			Round: op.round, At: op.at,
			Operation: record.Operation, Cause: record.Cause, Revision: record.Revision, Attempt: record.Attempt,
			Result: record.Result, Error: record.Error, Note: record.Note, Lost: record.Lost, Conflict: record.Conflict, Took: record.Took,
		})
		objects = append(objects, op.object)
		return q.Limit == 0 || len(events) < q.Limit
	})
	// The program has a part in names: not under the lock of the journal.
	for i := range events {
		events[i].Key = l.rows.Name(objects[i])
	}
	slices.Reverse(events)
	return events, latest
}
