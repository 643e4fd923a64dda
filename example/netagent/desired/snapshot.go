// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/reconciler"
)

// Item is an object that a reconciler works on, for display.
type Item struct {
	// Kind is "link", "address", "route" or "sysctl".
	Kind string

	// Key is unique among the items of its kind.
	Key    string
	Status reconciler.Status
}

// Settled reports whether the kernel is known to have the object.
func (i Item) Settled() bool { return i.Status.Kind == reconciler.StatusKindDone }

// String returns "kind key: Status", followed by a colon and the error if there is one.
func (i Item) String() string {
	text := i.Kind + " " + i.Key + ": " + i.Status.Kind.String()
	if reason := i.Status.GetError(); reason != "" {
		text += ": " + reason
	}
	return text
}

// Snapshot holds the contents of the tables and the statuses at one moment. If it is initialised and all items
// are settled, the target is in the desired state.
type Snapshot struct {
	// Items are sorted by kind, in the order of Item.Kind above, and by key.
	Items []Item

	// Initialized reports whether the file has been read.
	Initialized bool
}

// Snapshot returns the current contents of the tables, and channels of which one closes when they change.
func (t *Tables) Snapshot(txn statedb.ReadTxn) (Snapshot, []<-chan struct{}) {
	s := Snapshot{Initialized: true}
	var watches []<-chan struct{}
	for _, table := range t.filled() {
		if is, watch := table.Initialized(txn); !is {
			s.Initialized, watches = false, append(watches, watch)
		}
	}
	watches = append(watches, appendItems(&s, "link", txn, t.Links, t.Loops.Links)...)
	watches = append(watches, appendItems(&s, "address", txn, t.Addresses, t.Loops.Addresses)...)
	watches = append(watches, t.appendRoutes(&s, txn)...)
	watches = append(watches, appendItems(&s, "sysctl", txn, t.Sysctls, t.Loops.Sysctls)...)
	return s, watches
}

func appendItems[S Spec](s *Snapshot, kind string, txn statedb.ReadTxn, table statedb.Table[*Row[S]], loop Loop[S]) []<-chan struct{} {
	rows, watch := table.AllWatch(txn)
	watches := []<-chan struct{}{watch}
	for row := range rows {
		status, changed := StatusOf(loop, txn, row)
		watches = append(watches, changed...)
		s.Items = append(s.Items, Item{kind, row.Spec.Key(), status})
	}
	return watches
}

// appendRoutes is appendItems for routes. What is wanted and not yet in the table of routes is Pending, so
// that a snapshot is not settled before that.
func (t *Tables) appendRoutes(s *Snapshot, txn statedb.ReadTxn) []<-chan struct{} {
	_, wantedChanged := t.RoutesWanted.AllWatch(txn)
	_, routesChanged := t.Routes.AllWatch(txn)
	watches := []<-chan struct{}{wantedChanged, routesChanged}
	for _, best := range t.bestRoutes(txn) {
		item := Item{"route", best.Spec.Key(), reconciler.StatusPending()}
		if row, _, found := t.Routes.Get(txn, ByKey[config.Route](item.Key)); found && row.Same(best) {
			var changed []<-chan struct{}
			item.Status, changed = StatusOf(t.Loops.Routes, txn, row)
			watches = append(watches, changed...)
		}
		s.Items = append(s.Items, item)
	}
	return watches
}
