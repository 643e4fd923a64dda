// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"

	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Events returns what the journal has of operations, the oldest first. An event that is
// older than the journal reaches is not among them; [WithJournal] says how far that is. It
// reaches further for failures, so that what came after one of them may be missing.
// The key is as [Loop.Explain] takes it. Safe from any goroutine; it does not wait for a
// running operation.
func (l *Loop[Obj]) Events(q inspect.EventQuery) []inspect.Event {
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
func (l *Loop[Obj]) eventsOf(key *index.Key, q inspect.EventQuery) (events []inspect.Event, latest bool) {
	if key == nil {
		return l.journal.Events(nil, q.Since, q.Limit)
	}
	return l.journal.Events(func(obj Obj) bool { return bytes.Equal(l.rows.Key(obj), *key) }, q.Since, q.Limit)
}

// Journal returns the latest rounds that had something to do, the oldest first: as
// many as [WithJournal] keeps. Safe from any goroutine; it does not wait for a running
// operation. The cost is that of what it returns.
func (l *Loop[Obj]) Journal() []inspect.Round { return l.journal.Rounds() }
