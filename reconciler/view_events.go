// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"bytes"

	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// events is [Loop.Events].
func (v *view[Obj]) events(q inspect.EventQuery) []inspect.Event {
	if q.Key == "" {
		events, _ := v.eventsOf(nil, q)
		return events
	}
	txn := v.rows.DB.ReadTxn()
	for _, key := range v.rows.Keys(q.Key) {
		events, _ := v.eventsOf(&key, q)
		if _, _, found := v.rows.ByKey(txn, key); found || len(events) > 0 {
			return events
		}
	}
	return nil
}

// eventsOf returns the events of the object with a key, of all objects if that is nil, that a
// query asks for besides. latest: the last of them is the last operation there was on these objects.
func (v *view[Obj]) eventsOf(key *index.Key, q inspect.EventQuery) (events []inspect.Event, latest bool) {
	if key == nil {
		return v.journal.Events(nil, q.Since, q.Limit)
	}
	return v.journal.Events(func(obj Obj) bool { return bytes.Equal(v.rows.Key(obj), *key) }, q.Since, q.Limit)
}
