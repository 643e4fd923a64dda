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

// Effect is a set of properties that a change of a link in the kernel may have undone.
type Effect uint8

// The effects; they can be combined.
const (
	// UndidLink: the link's own settings.
	UndidLink Effect = 1 << iota
	// UndidPorts: the ports of the link.
	UndidPorts
	// UndidAddresses: the link's addresses.
	UndidAddresses
	// UndidRoutes: the routes by the link.
	UndidRoutes
	// UndidSysctls: the link's own sysctls. Of [config.AllLinks] and [config.NewLinks] it is the only effect.
	UndidSysctls
	// UndidRefusals: the reason why the kernel refused an object on the link; objects in Error may succeed
	// now.
	UndidRefusals

	// UndidAll: all of these, because the link was created again.
	UndidAll = UndidLink | UndidPorts | UndidAddresses | UndidRoutes | UndidSysctls
)

// Again marks objects for reconciliation that a change of another object has undone: the kernel drops the
// addresses of a link that is created again, and the routes of a link that goes down. Without it they would
// return only at the next resync.
type Again struct {
	db     *statedb.DB
	tables *Tables
	wake   chan struct{}

	mu      sync.Mutex
	told    map[string]Effect // by link, the effects that are not marked yet
	marking bool              // whether Run is marking earlier effects
	calls   uint64            // number of calls of Undid
}

// NewAgain returns an Again on the tables of a database. It does nothing before Run is called.
func NewAgain(db *statedb.DB, tables *Tables) *Again {
	return &Again{db: db, tables: tables, wake: make(chan struct{}, 1), told: make(map[string]Effect)}
}

// Undid records a link and what may have been undone on it. It never blocks, so operations can call it.
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

// Run marks the affected rows, until the context ends. It is a job.
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

// state returns the number of calls of Undid so far, and whether all of them have been applied to the
// tables.
func (a *Again) state() (calls uint64, through bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls, len(a.told) == 0 && !a.marking
}

// Look is [Tables.Snapshot] of the tables now, and reports whether it is complete: whether no earlier effect
// is still to be marked. An operation calls Undid before its object is Done, so if a complete snapshot is
// settled, the target is in the desired state.
func (a *Again) Look() (s Snapshot, changed []<-chan struct{}, whole bool) {
	before, through := a.state()
	s, changed = a.tables.Snapshot(a.db.ReadTxn())
	after, stillThrough := a.state()
	return s, changed, through && stillThrough && before == after
}

func (a *Again) mark(told map[string]Effect) {
	txn := a.db.WriteTxn(a.tables.Links, a.tables.Addresses, a.tables.Routes, a.tables.Sysctls)
	defer txn.Commit()
	for link, effect := range told {
		if effect&UndidLink != 0 {
			markRows(txn, a.tables.Links, a.tables.Links.List(txn, ByKey[config.Link](link)))
		}
		loops := a.tables.Loops
		markNeeding(txn, a.tables.Links, loops.Links, link, effect, UndidPorts)
		markNeeding(txn, a.tables.Addresses, loops.Addresses, link, effect, UndidAddresses)
		markNeeding(txn, a.tables.Routes, loops.Routes, link, effect, UndidRoutes)
		if link == config.AllLinks || link == config.NewLinks {
			markRows(txn, a.tables.Sysctls, inGroup(a.tables.Sysctls.All(txn), link))
			continue
		}
		markNeeding(txn, a.tables.Sysctls, loops.Sysctls, link, effect, UndidSysctls)
	}
}

// markNeeding marks the rows of a table that need a link: all of them if the effect is the table's own, and
// those in Error if the effect may have helped them.
func markNeeding[S Spec](txn statedb.WriteTxn, table statedb.RWTable[*Row[S]], loop Loop[S], link string, effect, about Effect) {
	if effect&(about|UndidRefusals) == 0 {
		return
	}
	rows := table.List(txn, ByNeeds[S](link))
	if effect&about == 0 {
		rows = inError(txn, loop, rows)
	}
	markRows(txn, table, rows)
}

// inGroup returns the rows of a group of sysctls.
func inGroup(rows iter.Seq2[*Sysctl, statedb.Revision], want string) iter.Seq2[*Sysctl, statedb.Revision] {
	return func(yield func(*Sysctl, statedb.Revision) bool) {
		for row, revision := range rows {
			if group, _ := row.Spec.Group(); group == want && !yield(row, revision) {
				return
			}
		}
	}
}

func inError[S Spec](txn statedb.ReadTxn, loop Loop[S], rows iter.Seq2[*Row[S], statedb.Revision]) iter.Seq2[*Row[S], statedb.Revision] {
	return func(yield func(*Row[S], statedb.Revision) bool) {
		for row, revision := range rows {
			status, _ := StatusOf(loop, txn, row)
			if status.Kind == reconciler.StatusKindError && !yield(row, revision) {
				return
			}
		}
	}
}

// markRows writes rows as they are, so that they are Pending and applied again. It does so whatever their
// status: a Pending or Blocked row may be in an operation that has already read the old state. Loop.Reapply
// would have them applied again too, but they would stay Done until then, and [Again.Look] must not call that
// settled.
func markRows[S Spec](txn statedb.WriteTxn, table statedb.RWTable[*Row[S]], rows iter.Seq2[*Row[S], statedb.Revision]) {
	for row := range rows {
		same := *row // statedb does not take the row itself
		mustInsert(txn, table, &same)
	}
}
