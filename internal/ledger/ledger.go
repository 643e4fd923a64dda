// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

import (
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/keywaits"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// Ledger is where the outcomes of a loop are written, and from where the status of an object is read.
// [InRows] writes them into the rows, [Beside] into tables of its own.
//
// Write, Begin, Publish, Next, Covers and Covered are called by the goroutine of the loop. The
// other methods are safe from any goroutine.
type Ledger[Obj any] interface {
	// Write sets the outcomes of operations, and writes those that belong into the rows. It sets the
	// Object of each to the version that is then in the table, except for deletions and for lost
	// outcomes. maxRetries is the number of retries after which an update that fails is given up; 0 means
	// never.
	Write(ops []core.Operation[Obj], maxRetries int) Commit
	// Begin is called at the start of a pass, with the time when it began, and the revision of the table that
	// it reads.
	Begin(began time.Duration, table statedb.Revision)
	// Publish is called at the end of a pass, when the core has all outcomes. It writes what belongs
	// beside the table. observed is the revision up to which all rows were read, ahead are the ranges above it
	// in which the catch-up cursor has read all rows. all: what is applied is to show as Done, even if earlier changes are
	// not attempted.
	Publish(observed statedb.Revision, ahead []observe.Range, all bool) Commit
	// Next returns when Publish has to be called again; false if it need not be.
	Next() (at time.Duration, ok bool)
	// Status returns the status of the row that txn holds at a revision.
	Status(txn statedb.ReadTxn, row Obj, revision statedb.Revision) status.Status
	// Watch returns the channels of which one closes when the status of a row may have changed,
	// without that of the row itself.
	Watch(txn statedb.ReadTxn, row Obj, revision statedb.Revision) []<-chan struct{}
	// Covers and Covered are for package keywaits.
	keywaits.Mark
	// Written returns when the version of a row was written, as far as that is known; the zero time if
	// not.
	Written(row Obj, revision statedb.Revision) time.Time
	// Applied returns a text for the time when the revision of a Done row was applied, such as "applied
	// between ... and ..."; empty if the row has the time.
	Applied(revision statedb.Revision) string
	// Outcomes returns the table of outcomes; nil if they are in the rows.
	Outcomes() statedb.Table[*inspect.Outcome]
}

// Keys is the part of the core that a ledger beside the table asks: see package core.
type Keys[Obj any] interface {
	TakeRecords(until time.Duration, yield func(core.Record[Obj]))
	HoldsSince() (revision uint64, observed time.Duration, ok bool)
}
