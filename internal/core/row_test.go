// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// row is an object of a test's table. A deleted object stays as a tombstone.
type row struct {
	key      string
	revision uint64
	// pendingID is the ID of the pending status: status writes keep it.
	pendingID uint64
	deleted   bool
	status    string
	text      string
	// group is the group of the object. lane, if not Fresh, replaces the lane that byMain returns.
	group string
	lane  Lane
}

// byMain returns the lane by which the main cursor hands over a row.
func (r row) byMain() Lane {
	if r.lane != Fresh {
		return r.lane
	}
	return r.cameBy(Backlog)
}

func keyOfRow(r row) []byte { return []byte(r.key) }

// small returns a core with the given round size and a backoff of 100 ms to 1 s without jitter.
func small(size int) *Core[row] { return New(smallConfig(size)) }

func smallConfig(size int) Config[row] {
	return Config[row]{KeyOf: keyOfRow, Limits: Limits{
		MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Second, RoundSize: size,
	}}
}

// see observes a change that is unreconciled since its own revision.
func (c *Core[Obj]) see(obj Obj, revision uint64, deleted bool, lane Lane) {
	c.Observe(Change[Obj]{Obj: obj, Revision: revision, Since: revision, Deleted: deleted, Lane: lane})
}

// none is a source without changes.
type none[Obj any] struct{}

// anyLane is what a source embeds that does not know in which lanes it has changes.
type anyLane struct{}

func (anyLane) Lanes() Lanes { return 1<<NumLanes - 1 }

func (none[Obj]) Lanes() Lanes { return 0 }

func (none[Obj]) Next(Lane) (c Change[Obj], ok bool) { return c, false }

// listed is a source of changes in a list, which come in this order.
type listed[Obj any] []Change[Obj]

func (*listed[Obj]) Lanes() Lanes { return anyLane{}.Lanes() }

func (l *listed[Obj]) Next(lane Lane) (change Change[Obj], ok bool) {
	if len(*l) == 0 || (*l)[0].Lane != lane {
		return change, false
	}
	change, *l = (*l)[0], (*l)[1:]
	return change, true
}

// Plan makes the operations of the round, of keys that are ready or due.
func (c *Core[Obj]) Plan() []Operation[Obj] { return c.planFrom(none[Obj]{}) }

// planFrom makes the operations of the round.
func (c *Core[Obj]) planFrom(from Source[Obj]) (ops []Operation[Obj]) {
	for op := (Operation[Obj]{}); c.Next(&op, from); op = (Operation[Obj]{}) {
		ops = append(ops, op)
	}
	return ops
}

// begin begins a round and observes changes of the given keys. Their revisions rise from the given
// one.
func begin(c *Core[row], now time.Duration, from uint64, keys ...string) {
	c.Begin(now, c.roundSize, false)
	for i, key := range keys {
		c.see(row{key: key}, from+uint64(i), false, Backlog)
	}
}

func planned(items []Operation[row]) (keys []string) {
	for i := range items {
		keys = append(keys, items[i].Obj.key)
	}
	return keys
}

// failed returns the outcome of an item that failed and whose status was not written.
func failed(it *Operation[row], text string) Outcome[row] {
	return Outcome[row]{Kind: Failed, Text: &text, Object: it.Obj, NewRevision: it.Revision}
}

func done(it *Operation[row]) Outcome[row] {
	return Outcome[row]{Kind: Done, Object: it.Obj, NewRevision: it.Revision}
}

// runFirst plans the round, runs its first item with success and puts the others back.
func runFirst(t *testing.T, c *Core[row], now time.Duration, want ...string) {
	t.Helper()
	items := c.Plan()
	require.Equal(t, want, planned(items))
	c.Settle(now, &items[0], done(&items[0]))
	for i := len(items) - 1; i > 0; i-- {
		c.Recall(c.round.now, &items[i])
	}
}
