// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"context"
	"fmt"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/internal/recheck"
	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/observed"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Target is the system that the rows are applied to.
type Target struct {
	// The operations of four reconcilers, which may run at the same time. Those of Addresses and Routes may
	// be called from several goroutines.
	Links     Operations[config.Link]
	Addresses Operations[config.Address]
	Routes    Operations[config.Route]
	Sysctls   Operations[config.Sysctl]

	// Observe keeps [Surroundings].Links equal to the target's links, and has the [Loops] look at what was changed from
	// outside, until the context ends. It is a job, and returns nil.
	Observe func(ctx context.Context, health cell.Health) error
}

// Operations apply the rows of one kind, and list what the target has of it.
type Operations[S Spec] interface {
	// Update and Delete are as in [reconciler.ObjectOperations].
	Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, row *Row[S]) error
	Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, row *Row[S]) error

	// List lists rows without a source. One without Extra whose spec is equal to that of a row of the table is one that
	// Update would not change.
	reconciler.Lister[*Row[S]]
	reconciler.Getter[*Row[S]]
}

// Config returns the configuration of the reconciler of a table. It has no functions for a status in the rows, so
// the outcomes are in a table beside: of links, in links-outcomes.
func Config[S Spec](table statedb.Table[*Row[S]], ops Operations[S]) reconciler.Config[*Row[S]] {
	return reconciler.Config[*Row[S]]{
		Table:      table,
		Operations: ops, // no batches: netlink makes one change at a time
		Lister:     dated[S]{ops},
		Equal: func(wanted, found *Row[S]) bool {
			// What was seen before is of no use, as in the listing of a start.
			undone := !wanted.At.IsZero() && !wanted.At.Before(found.At)
			return wanted.Spec == found.Spec && found.Extra == "" && !undone
		},
		Diff: func(wanted, found *Row[S]) string {
			text := fmt.Sprintf("wanted %+v, found %+v", wanted.Spec, found.Spec)
			if found.Extra != "" {
				text += " with " + found.Extra
			}
			return text
		},
	}
}

// dated sets when the look at the target began that has found a row.
type dated[S Spec] struct{ Operations[S] }

func (d dated[S]) List(ctx context.Context, txn statedb.ReadTxn, yield func(*Row[S]) bool) error {
	began := time.Now()
	return d.Operations.List(ctx, txn, func(found *Row[S]) bool {
		found.At = began
		return yield(found)
	})
}

func (d dated[S]) Get(ctx context.Context, txn statedb.ReadTxn, wanted *Row[S]) (*Row[S], bool, error) {
	began := time.Now()
	found, ok, err := d.Operations.Get(ctx, txn, wanted)
	if ok {
		found.At = began
	}
	return found, ok, err
}

// Surroundings are the inputs of a target besides the objects that it applies.
type Surroundings struct {
	DB     *statedb.DB
	Tables *Tables

	// Links are the links of the target, for operations to wait for.
	Links statedb.RWTable[*observed.Link]

	// Undid receives a link and what a change of it may have undone: it is [Tables.Undid].
	Undid func(link string, effect Effect)
}

// Loops are the reconcilers of the tables, which know the status of each row. They are set before the hive
// starts; a table without one has only Pending rows.
type Loops struct {
	Links     Loop[config.Link]
	Addresses Loop[config.Address]
	Routes    Loop[config.Route]
	Sysctls   Loop[config.Sysctl]
}

// Loop is what this program needs of a [reconciler.Loop] after it was registered.
type Loop[S Spec] interface {
	// Verify, Resync, Ready and WaitAll are those of [reconciler.Loop].
	recheck.Loop[*Row[S]]
	waiter

	// StatusWatch returns the status of the row that a transaction has, and channels of which one closes
	// when that may have changed.
	StatusWatch(txn statedb.ReadTxn, row *Row[S]) (reconciler.Status, bool, []<-chan struct{})
}

// waiter is what [Tables.Ready] waits for.
type waiter interface {
	reconciler.Readiness
	WaitAll(ctx context.Context, m reconciler.Milestone) (inspect.Unapplied, error)
}

// StatusOf returns the status of a row of a transaction, and channels of which one closes when that may have
// changed. The loop may be nil.
func StatusOf[S Spec](loop Loop[S], txn statedb.ReadTxn, row *Row[S]) (reconciler.Status, []<-chan struct{}) {
	if loop == nil {
		return reconciler.StatusPending(), nil
	}
	status, _, changed := loop.StatusWatch(txn, row)
	return status, changed
}
