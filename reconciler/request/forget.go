// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"sync"

	"github.com/cilium/hive/cell"
)

// leaving has the rows that may be deleted. The row itself decides whether it is. An index of such
// rows would add a cost to the rows that stay.
type leaving struct {
	mu   sync.Mutex
	rows map[*life]struct{}
	// more receives a value when a row is added.
	more chan struct{}
}

func newLeaving() *leaving {
	return &leaving{rows: map[*life]struct{}{}, more: make(chan struct{}, 1)}
}

func (l *leaving) add(row *life) {
	l.mu.Lock()
	l.rows[row] = struct{}{}
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// take returns all rows, and forgets them.
func (l *leaving) take() map[*life]struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := l.rows
	l.rows = map[*life]struct{}{}
	return rows
}

// forget is the job that deletes rows which are no longer needed: see life.gone.
func (c *Controller[Req]) forget(ctx context.Context, _ cell.Health) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.leaving.more:
			c.forgetSome(c.leaving.take())
		}
	}
}

// forgetSome deletes those of the rows that can be deleted. A row that was requested again meanwhile
// stays: its life is added again when that request has been reconciled.
func (c *Controller[Req]) forgetSome(rows map[*life]struct{}) {
	if len(rows) == 0 {
		return
	}
	wtxn := c.cfg.DB.WriteTxn(c.table)
	defer wtxn.Commit()
	for life := range rows {
		row, revision, found := c.table.Get(wtxn, c.byKey.Query(life.key))
		if found && row.life.gone(revision) {
			// Delete cannot fail: the table is locked.
			_, _, _ = c.table.Delete(wtxn, row)
		}
	}
}
