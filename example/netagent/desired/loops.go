// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/reconciler"
)

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
	// StatusWatch returns the status of the row that a transaction has, and channels of which one closes
	// when that may have changed.
	StatusWatch(txn statedb.ReadTxn, row *Row[S]) (reconciler.Status, bool, []<-chan struct{})
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
