// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inspect

import "time"

// Operation is the journal's record of one operation on one object.
type Operation struct {
	// Round is the number of the round that committed the outcome, Started the time when that began. Both
	// are zero in [Round].Operations.
	Round   uint64    `json:"round,omitempty"`
	Started time.Time `json:"started,omitzero"`
	// Key is the text of the object's key.
	Key string `json:"key"`
	// Op is "update" or "delete". Cause is the reason why it was run.
	Op    string `json:"operation"`
	Cause Cause  `json:"cause"`
	// Revision is the revision of the applied version, or of the deletion. Attempt counts from 1, and
	// starts again at 1 after a success.
	Revision uint64 `json:"revision"`
	Attempt  int    `json:"attempt"`
	// Result is the outcome. Error is the text of the returned error, or the reason of a block.
	Result Result `json:"result"`
	Error  string `json:"error,omitempty"`
	// Note is the text that the operation noted about itself; empty if none.
	Note string `json:"note,omitempty"`
	// Lost is true if the object changed while the operation ran. The result was not written to the
	// row then; the change runs its own operation.
	Lost bool `json:"lost,omitempty"`
	// Conflict is true if another reconciler had written the object while the operation ran. The
	// status was added to the object as that reconciler wrote it.
	Conflict bool `json:"conflict,omitempty"`
	// Took is the duration of the operation, or of its whole batch.
	Took time.Duration `json:"took"`
}

// OperationQuery selects operations of the journal. The zero value selects all of them.
type OperationQuery struct {
	// Key is the text of one object's key; empty means all objects.
	Key string
	// Since leaves out the operations of rounds that began before it. The zero time leaves out none.
	Since time.Time
	// Limit is the number of operations, the latest ones; zero means no limit.
	Limit int
}

// Round is the journal's record of one round: a pass of the loop that had something to do.
type Round struct {
	// Sequence is the number of the round. The first round of a reconciler is 1.
	Sequence uint64 `json:"round"`
	// Reason is what woke the loop.
	Reason Reason `json:"reason"`
	// Started is the start of the pass. Took is its duration, including the commit and a prune.
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`

	// Changes and Waited count the planned objects: those that changed, and those that had waited for
	// a retry, a release or a time. Refreshes counts those of both that are refreshed or repaired.
	Changes   int `json:"changes"`
	Waited    int `json:"waited"`
	Refreshes int `json:"refreshes"`
	// Returned counts the objects whose operations were to run and did not, and are left to the next round.
	Returned int `json:"returned"`

	// Operations lists the operations in the order in which they ran. With workers these are the
	// operations that had finished when the round began. The journal forgets the oldest operations
	// first, so some may be missing.
	Operations []Operation `json:"operations,omitempty"`

	// Written counts the statuses, or the rows of outcomes, that were written. Lost counts the
	// outcomes that were not written because the object had changed or was deleted. Conflicts counts
	// the statuses that were written onto an object that another reconciler had written meanwhile.
	// CommitTook is the duration of the commit with the wait for the table lock; zero if nothing was
	// written.
	Written    int           `json:"written"`
	Lost       int           `json:"lost"`
	Conflicts  int           `json:"conflicts"`
	CommitTook time.Duration `json:"commit_took"`

	// Prune is nil if the round did not prune, Resync if it did not end a resync.
	Prune  *Prune  `json:"prune,omitempty"`
	Resync *Resync `json:"resync,omitempty"`
}

// Prune is the journal's record of a prune.
type Prune struct {
	// Error is the text of the error; empty if the prune succeeded.
	Error string `json:"error,omitempty"`
	// Took is the duration of the prune.
	Took time.Duration `json:"took"`
}
