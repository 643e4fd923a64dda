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
	var keys []index.Key
	if q.Key != "" {
		keys = l.rawKeys(q.Key)
	}
	events, _ := l.eventsOf(keys, q)
	return events
}

// eventsOf returns the events of the objects with some keys, nil for all, that a query asks
// for besides. latest: the last of them is the last operation there was on these objects.
func (l *Loop[Obj]) eventsOf(keys []index.Key, q EventQuery) (events []Event, latest bool) {
	var objects []Obj
	l.journal.visit(func(op *placed[Obj], old bool) bool {
		if op.at.Before(q.Since) {
			return false
		}
		if keys != nil && !isOneOf(l.indexer.ObjectToKey(op.object), keys) {
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
		events[i].Key = l.nameOf(objects[i])
	}
	slices.Reverse(events)
	return events, latest
}

func isOneOf(key index.Key, keys []index.Key) bool {
	for _, k := range keys {
		if bytes.Equal(key, k) {
			return true
		}
	}
	return false
}
