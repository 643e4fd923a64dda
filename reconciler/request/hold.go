// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"fmt"
	"strings"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler"
)

// initializing is the part of a table that held reads.
type initializing interface {
	Name() string
	Initialized(txn statedb.ReadTxn) (bool, <-chan struct{})
	PendingInitializers(txn statedb.ReadTxn) []string
}

// held returns a Blocked outcome while the table of any source is not initialised, and nil
// afterwards. txn is the transaction of the operation. It is called from several goroutines.
func (c *Controller[Req]) held(txn statedb.ReadTxn) error {
	if c.released.Load() {
		return nil
	}
	for _, table := range c.tables {
		if ready, watch := table.Initialized(txn); !ready {
			return reconciler.Blocked(fmt.Sprintf("waiting until table %q is initialised by: %s",
				table.Name(), text.Printable(strings.Join(table.PendingInitializers(txn), ", "))), watch)
		}
	}
	c.released.Store(true)
	return nil
}
