// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"context"
	"iter"
	"sync"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/reconciler"
)

// Effect is what a change to a link in the kernel may have undone, for better or worse.
type Effect uint8

// The effects; they can be combined.
const (
	// UndidLink: what the link itself is set to.
	UndidLink Effect = 1 << iota
	// UndidPorts: that other links are ports of it.
	UndidPorts
	// UndidAddresses: the link's addresses.
	UndidAddresses
	// UndidRoutes: the routes by the link.
	UndidRoutes
	// UndidSysctls: the link's own sysctls.
	UndidSysctls
	// UndidRefusals: that the kernel refused something on the link; what is in Error
	// may have a chance now.
	UndidRefusals

	// UndidAll: the link was made anew.
	UndidAll = UndidLink | UndidPorts | UndidAddresses | UndidRoutes | UndidSysctls
)

// Again gets objects reconciled again that a change to another one has undone: the
// kernel drops the addresses of a link that is made anew, and the routes of one
// that goes down. Without it they would come back at their next refresh only.
type Again struct {
	db     *statedb.DB
	tables *Tables
	wake   chan struct{}

	mu      sync.Mutex
	told    map[string]Effect // by link, what is not marked yet
	marking bool              // whether what was told before is being marked
	calls   uint64            // of Undid
}

// NewAgain returns an Again on the tables of a database. Nothing happens before
// Run is called.
func NewAgain(db *statedb.DB, tables *Tables) *Again {
	return &Again{db: db, tables: tables, wake: make(chan struct{}, 1), told: make(map[string]Effect)}
}

// Undid tells of a link and what may have been undone on it. It never blocks, so
// that operations can call it.
func (a *Again) Undid(link string, effect Effect) {
	a.mu.Lock()
	a.told[link] |= effect
	a.calls++
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Run marks what it is told of as Pending, until the context ends. It is a job.
func (a *Again) Run(ctx context.Context, _ cell.Health) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.wake:
		}
		a.mark(a.take())
		a.mu.Lock()
		a.marking = false
		a.mu.Unlock()
	}
}

func (a *Again) take() map[string]Effect {
	a.mu.Lock()
	defer a.mu.Unlock()
	told := a.told
	a.told, a.marking = make(map[string]Effect), true
	return told
}

// state returns the number of calls of Undid so far, and whether all of them have had
// their effect on the tables.
func (a *Again) state() (calls uint64, through bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls, len(a.told) == 0 && !a.marking
}

// Look is [Tables.Snapshot] of the tables now, and tells whether it is the whole truth:
// whether nothing that was undone before is still to be marked. An operation tells what
// it undid before its object is Done; so a snapshot in which all is settled and that is
// the whole truth means that the target is as it should be.
func (a *Again) Look() (s Snapshot, changed []<-chan struct{}, whole bool) {
	before, through := a.state()
	s, changed = a.tables.Snapshot(a.db.ReadTxn())
	after, stillThrough := a.state()
	return s, changed, through && stillThrough && before == after
}

func (a *Again) mark(told map[string]Effect) {
	txn := a.db.WriteTxn(a.tables.metas()...)
	defer txn.Commit()
	for link, effect := range told {
		if effect&UndidLink != 0 {
			markRows(txn, a.tables.Links, a.tables.Links.List(txn, ByKey[config.Link](link)))
		}
		markNeeding(txn, a.tables.Links, link, effect, UndidPorts)
		markNeeding(txn, a.tables.Addresses, link, effect, UndidAddresses)
		markNeeding(txn, a.tables.Routes, link, effect, UndidRoutes)
		markNeeding(txn, a.tables.Sysctls, link, effect, UndidSysctls)
	}
}

// markNeeding marks the rows of a table that need a link: all of them if the effect is
// the one that the table is about, and those in Error if it may have helped them.
func markNeeding[S Spec](txn statedb.WriteTxn, table statedb.RWTable[*Row[S]], link string, effect, about Effect) {
	if effect&(about|UndidRefusals) == 0 {
		return
	}
	rows := table.List(txn, ByNeeds[S](link))
	if effect&about == 0 {
		rows = inError(rows)
	}
	markRows(txn, table, rows)
}

func inError[S Spec](rows iter.Seq2[*Row[S], statedb.Revision]) iter.Seq2[*Row[S], statedb.Revision] {
	return func(yield func(*Row[S], statedb.Revision) bool) {
		for row, revision := range rows {
			if row.Status.Kind == reconciler.StatusKindError && !yield(row, revision) {
				return
			}
		}
	}
}

// markRows marks rows whatever their status: one that is Pending or Blocked may be in an
// operation that has looked already.
func markRows[S Spec](txn statedb.WriteTxn, table statedb.RWTable[*Row[S]], rows iter.Seq2[*Row[S], statedb.Revision]) {
	for row := range rows {
		mustInsert(txn, table, row.Clone().SetStatus(reconciler.StatusPending()))
	}
}
