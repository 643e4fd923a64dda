// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import "time"

// Operation is the record of one operation.
type Operation struct {
	// Key is the text of the object's key.
	Key string `json:"key"`
	// Op is "update" or "delete", Cause why it was run.
	Op    string `json:"operation"`
	Cause Cause  `json:"cause"`
	// Revision is that of the version applied, or of the deletion; Attempt counts from 1,
	// and starts over after a success.
	Revision uint64 `json:"revision"`
	Attempt  int    `json:"attempt"`
	// Result is what it came back with, Error the text of that error, or the reason of a block.
	Result Result `json:"result"`
	Error  string `json:"error,omitempty"`
	// Note is what the operation noted about itself; empty if nothing.
	Note string `json:"note,omitempty"`
	// Lost: the object changed while the operation ran, so that the change, not this result,
	// says what comes next. Conflict: another reconciler had written the object, and the status
	// was added to that.
	Lost     bool `json:"lost,omitempty"`
	Conflict bool `json:"conflict,omitempty"`
	// Took is how long the operation, or the batch that it was in, took.
	Took time.Duration `json:"took"`
}

// Event is an operation and the round that committed it.
type Event struct {
	// Round is the number of the round, Started when it began.
	Round   uint64    `json:"round"`
	Started time.Time `json:"started"`
	Operation
}

// EventQuery says which events are wanted. The zero value means all there are.
type EventQuery struct {
	// Key is the text of one object's key; empty means all.
	Key string
	// Since leaves out those of rounds that began before; zero means none.
	Since time.Time
	// Limit is how many of the latest; zero means all.
	Limit int
}

// Round is the record of one pass of a reconciler that had something to do.
type Round struct {
	// Sequence counts the rounds of the reconciler from 1.
	Sequence uint64 `json:"round"`
	// Reason is why the reconciler woke up.
	Reason Reason `json:"reason"`
	// Started is when the round's snapshot was taken; Took is how long it was
	// until everything was committed.
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`

	// Changes and Waited are what was planned: objects that changed, and objects
	// that had waited for a retry, a release or a time. Refreshes are those of the
	// changes that were marked for a refresh.
	Changes   int `json:"changes"`
	Waited    int `json:"waited"`
	Refreshes int `json:"refreshes"`
	// Returned is how much of the plan was left to the next round.
	Returned int `json:"returned"`

	// Operations are what was run, in that order, or what workers had finished when
	// the round began. Those that the journal has forgotten are missing: the first ones, of
	// which it keeps the failures for longer.
	Operations []Operation `json:"operations,omitempty"`

	// Written is the number of statuses that were written, Lost that of the
	// outcomes that were not, since the object had changed or was deleted, and
	// Conflicts that of the statuses written onto an object that another
	// reconciler had written meanwhile. CommitTook is how long that took,
	// waiting for the table included; zero if there was nothing to write.
	Written    int           `json:"written"`
	Lost       int           `json:"lost"`
	Conflicts  int           `json:"conflicts"`
	CommitTook time.Duration `json:"commit_took"`

	// Prune is set if the round pruned.
	Prune *Prune `json:"prune,omitempty"`
}

// Prune is the record of a prune or a sweep.
type Prune struct {
	// Error is the error's text; empty if the prune succeeded.
	Error string        `json:"error,omitempty"`
	Took  time.Duration `json:"took"`
	// Listed and Swept are those of a sweep: how many objects were listed, and of how many the
	// deletion began with it, in one of the next rounds. Both are zero for a prune.
	Listed int `json:"listed"`
	Swept  int `json:"swept"`
}
