// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"maps"
	"sync"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// leaving has the keys of rows that may be deleted now or when their outcome is written. The row
// itself decides whether it is deleted. An index of such rows would add a cost to the rows that
// stay.
type leaving struct {
	mu   sync.Mutex
	keys map[string]struct{}
	// more receives a value when a key is added.
	more chan struct{}
}

func newLeaving() *leaving {
	return &leaving{keys: map[string]struct{}{}, more: make(chan struct{}, 1)}
}

func (l *leaving) add(keys *index.KeySet) {
	l.mu.Lock()
	l.keys[string(keys.First())] = struct{}{}
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// moveTo moves all keys into set.
func (l *leaving) moveTo(set map[string]struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.Copy(set, l.keys)
	clear(l.keys)
}

// forget is the job that deletes rows which are no longer needed: see Row.gone.
func (c *Controller[Req]) forget(ctx context.Context, _ cell.Health) error {
	leaving := map[string]struct{}{}
	for {
		// Take the keys before the snapshot, so that the snapshot has their rows.
		c.leaving.moveTo(leaving)
		var changed <-chan struct{}
		if len(leaving) > 0 {
			txn := c.cfg.DB.ReadTxn()
			_, changed = c.table.AllWatch(txn)
			c.forgetSome(c.mayGo(txn, leaving))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.leaving.more:
		case <-changed:
		}
	}
}

// mayGo returns the keys of rows that can be deleted. It removes those from leaving, and those that
// will stay. The others remain in leaving: their outcome is not written yet, or they were requested
// again.
func (c *Controller[Req]) mayGo(txn statedb.ReadTxn, leaving map[string]struct{}) (keys []index.Key) {
	for text := range leaving {
		key := index.Key(text)
		row, _, found := c.table.Get(txn, c.byKey.Query(key))
		if found && row.gone() {
			keys = append(keys, key)
		}
		if !found || row.present || row.gone() {
			delete(leaving, text)
		}
	}
	return keys
}

// forgetSome deletes the rows that can still be deleted now that the table is locked.
func (c *Controller[Req]) forgetSome(keys []index.Key) {
	if len(keys) == 0 {
		return
	}
	wtxn := c.cfg.DB.WriteTxn(c.table)
	defer wtxn.Commit()
	for _, key := range keys {
		if row, _, found := c.table.Get(wtxn, c.byKey.Query(key)); found && row.gone() {
			// Delete cannot fail: the table is locked.
			_, _, _ = c.table.Delete(wtxn, row)
		}
	}
}
