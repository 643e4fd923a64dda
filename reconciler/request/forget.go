// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
)

// leaving are the keys of rows that may go as soon as their status is Done: nothing was left
// to be done when they were reconciled last. There are about a round of them.
type leaving struct {
	// n is how many there are, for those who only want to know whether there are any.
	n  atomic.Int64
	mu sync.Mutex
	// keys have the number of the call of leave that said so last.
	keys  map[string]uint64
	calls uint64
	// more is sent to when there is one more.
	more chan struct{}
}

func newLeaving() *leaving {
	return &leaving{keys: map[string]uint64{}, more: make(chan struct{}, 1)}
}

func (l *leaving) leave(keys *index.KeySet) {
	l.mu.Lock()
	l.calls++
	l.keys[string(keys.First())] = l.calls
	l.n.Store(int64(len(l.keys)))
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// stay takes a row that is reconciled once more out of those that may go.
func (l *leaving) stay(keys *index.KeySet) {
	if l.n.Load() > 0 {
		l.drop(keys.First())
	}
}

func (l *leaving) drop(key index.Key) {
	l.mu.Lock()
	delete(l.keys, string(key))
	l.n.Store(int64(len(l.keys)))
	l.mu.Unlock()
}

// dropAsOf drops a row unless it was said again that it may go since call was the last to say so.
func (l *leaving) dropAsOf(key index.Key, call uint64) {
	l.mu.Lock()
	if l.keys[string(key)] == call {
		delete(l.keys, string(key))
	}
	l.n.Store(int64(len(l.keys)))
	l.mu.Unlock()
}

func (l *leaving) has(key index.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.keys[string(key)]
	return ok
}

// all returns the keys, each with the call that said so last.
func (l *leaving) all() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.keys)
}

// forget is the job that deletes rows which may go.
func (c *Controller[Req]) forget(ctx context.Context, _ cell.Health) error {
	for {
		// The channel is closed by the commit that makes a status Done.
		var changed <-chan struct{}
		if c.leaving.n.Load() > 0 {
			// Before the snapshot is taken, so that it has their rows.
			leaving := c.leaving.all()
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

// mayGo returns the keys of those rows that are leaving and can go now, and strikes those
// off that do not leave after all, as far as the snapshot says.
func (c *Controller[Req]) mayGo(txn statedb.ReadTxn, leaving map[string]uint64) (keys []index.Key) {
	for text, call := range leaving {
		key := index.Key(text)
		row, _, found := c.table.Get(txn, c.byKey.Query(key))
		switch {
		case !found || row.present:
			c.leaving.dropAsOf(key, call)
		case row.Status.Kind == reconciler.StatusKindDone:
			keys = append(keys, key)
		}
	}
	return keys
}

// forgetSome deletes rows that can still go now that the table is locked.
func (c *Controller[Req]) forgetSome(keys []index.Key) {
	if len(keys) == 0 {
		return
	}
	wtxn := c.cfg.DB.WriteTxn(c.table)
	defer wtxn.Commit()
	for _, key := range keys {
		row, _, found := c.table.Get(wtxn, c.byKey.Query(key))
		if found && !row.present && row.Status.Kind == reconciler.StatusKindDone && c.leaving.has(key) {
			// No error can come of it: the table is locked.
			_, _, _ = c.table.Delete(wtxn, row)
			c.leaving.drop(key)
		}
	}
}
