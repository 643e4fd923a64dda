// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"iter"
	"time"

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

// Undid marks the objects for reconciliation that a change of a link may have undone: the kernel drops the
// addresses of a link that is created again, and the routes of a link that goes down. Without it they would
// return only at the next resync. An operation calls it before it returns, so when all is Done nothing is left
// to mark.
func (t *Tables) Undid(link string, effect Effect) {
	txn := t.db.WriteTxn(t.Links, t.Addresses, t.Routes, t.Sysctls)
	defer txn.Commit()
	if effect&UndidLink != 0 {
		markRows(txn, t.Links, t.Links.List(txn, ByKey[config.Link](link)), func(*Link) bool { return true })
	}
	markNeeding(txn, t.Links, t.Loops.Links, link, effect, UndidPorts)
	markNeeding(txn, t.Addresses, t.Loops.Addresses, link, effect, UndidAddresses)
	markNeeding(txn, t.Routes, t.Loops.Routes, link, effect, UndidRoutes)
	if link == config.AllLinks || link == config.NewLinks {
		markRows(txn, t.Sysctls, t.Sysctls.All(txn), func(row *Sysctl) bool {
			group, _ := row.Spec.Group()
			return group == link
		})
	} else {
		markNeeding(txn, t.Sysctls, t.Loops.Sysctls, link, effect, UndidSysctls)
	}
}

// markNeeding marks the rows of a table that need a link: all of them if the effect is the table's own, and
// those in Error if the effect may have helped them.
func markNeeding[S Spec](txn statedb.WriteTxn, table statedb.RWTable[*Row[S]], loop Loop[S], link string, effect, about Effect) {
	if effect&(about|UndidRefusals) == 0 {
		return
	}
	markRows(txn, table, table.List(txn, ByNeeds[S](link)), func(row *Row[S]) bool {
		status, _ := StatusOf(loop, txn, row)
		return effect&about != 0 || status.Kind == reconciler.StatusKindError
	})
}

// markRows writes rows again, so that they are Pending and applied, unless a look that begins later finds them right. It
// does so whatever their status: a Pending or Blocked row may be in an operation that has already read the old state.
// Loop.Reapply would have them applied again too, but not if it is called in an operation, and they would stay Done until
// then.
func markRows[S Spec](
	txn statedb.WriteTxn, table statedb.RWTable[*Row[S]], rows iter.Seq2[*Row[S], statedb.Revision], which func(*Row[S]) bool,
) {
	for row := range rows {
		if which(row) {
			again := *row
			again.At = time.Now()
			mustInsert(txn, table, &again)
		}
	}
}

func mustInsert[S Spec](txn statedb.WriteTxn, table statedb.RWTable[*Row[S]], row *Row[S]) {
	if _, _, err := table.Insert(txn, row); err != nil {
		panic(err)
	}
}
