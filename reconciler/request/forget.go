// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"

	"github.com/cilium/hive/cell"
)

// forget is the job that deletes rows which have served their purpose. That they have is written
// with the outcome of their reconciliation, so that a row which is asked for again stays.
func (c *Controller[Req]) forget(ctx context.Context, _ cell.Health) error {
	gone := c.gone.Query(struct{}{})
	for {
		rows, more := c.table.ListWatch(c.cfg.DB.ReadTxn(), gone)
		for range rows {
			c.forgetAll()
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-more:
		}
	}
}

// forgetAll deletes the rows that have served their purpose now that the table is locked.
func (c *Controller[Req]) forgetAll() {
	wtxn := c.cfg.DB.WriteTxn(c.table)
	defer wtxn.Commit()
	for row := range c.table.List(wtxn, c.gone.Query(struct{}{})) {
		// No error can come of it: the table is locked.
		_, _, _ = c.table.Delete(wtxn, row)
	}
}
