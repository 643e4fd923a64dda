// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"
	"slices"

	"github.com/cilium/statedb/index"
)

// Events returns what the journal has of operations, the oldest first. An event that is
// older than the journal reaches is not among them; [WithJournal] says how far that is.
// The key is as [Loop.Explain] takes it. Safe from any goroutine; it does not wait for a
// running operation.
func (l *Loop[Obj]) Events(q EventQuery) []Event {
	if q.Key == "" {
		return l.eventsOf(nil, q)
	}
	txn := l.cfg.DB.ReadTxn()
	for _, key := range l.rawKeys(q.Key) {
		events := l.eventsOf(&key, q)
		if _, _, found := l.byKey(txn, key); found || len(events) > 0 {
			return events
		}
	}
	return nil
}

// eventsOf returns the events of the object with a key, of all objects if that is nil, that a
// query asks for besides.
func (l *Loop[Obj]) eventsOf(key *index.Key, q EventQuery) []Event {
	var events []Event
	var objects []Obj
	l.journal.visit(func(r *roundEntry, op *operationEntry[Obj]) bool {
		if r.Started.Before(q.Since) {
			return false
		}
		if key != nil && !bytes.Equal(l.indexer.ObjectToKey(op.object), *key) {
			return true
		}
		record := l.journal.record(op)
		events = append(events, Event{
			Round: r.Sequence, At: r.Started,
			Operation: record.Operation, Cause: record.Cause, Revision: record.Revision, Attempt: record.Attempt,
			Result: record.Result, Error: record.Error, Note: record.Note, Lost: record.Lost, Conflict: record.Conflict, Took: record.Took,
		})
		objects = append(objects, op.object)
		return q.Limit == 0 || len(events) < q.Limit
	})
	// The program has a part in names: not under the lock of the journal.
	for i := range events {
		events[i].Key = l.nameOf(objects[i])
	}
	slices.Reverse(events)
	return events
}
