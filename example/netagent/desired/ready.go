// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// Ready waits until the target was taken over once: all that the sources had at the start was attempted, what an earlier run
// has left and no row wants is gone, and what operations have undone of other rows was attempted again. It returns how far
// each row is: what fails or is blocked holds nothing up, and neither does what comes later.
func (t *Tables) Ready(ctx context.Context) (Snapshot, error) {
	l := &t.Loops
	if _, err := reconciler.Ready(ctx, l.Links, l.Sysctls, l.Addresses, l.Routes); err != nil {
		return Snapshot{}, err
	}
	txn := t.db.ReadTxn()
	for !t.tookOver.Load() {
		before := t.revision(txn)
		for _, loop := range []waiter{l.Links, l.Sysctls, l.Addresses, l.Routes} {
			if _, err := loop.WaitAll(ctx, reconciler.Attempted); err != nil {
				return Snapshot{}, err
			}
		}
		if txn = t.db.ReadTxn(); t.revision(txn) == before {
			t.tookOver.Store(true)
		}
	}
	s, _ := t.Snapshot(txn)
	return s, nil
}

// revision grows whenever a row is written that a loop applies.
func (t *Tables) revision(txn statedb.ReadTxn) statedb.Revision {
	return t.Links.Revision(txn) + t.Sysctls.Revision(txn) + t.Addresses.Revision(txn) + t.Routes.Revision(txn)
}
