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

// initializing is a table that a source follows.
type initializing interface {
	Name() string
	Initialized(txn statedb.ReadTxn) (bool, <-chan struct{})
	PendingInitializers(txn statedb.ReadTxn) []string
}

// held returns the outcome of a request that has to wait until the tables of all sources are
// initialised; nil if they are. The transaction is that of the operation. It is called by several
// goroutines.
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
