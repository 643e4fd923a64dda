// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"time"

	"github.com/stretchr/testify/require"
)

// testingT is the part of a test that the checks use. *testing.T and *rapid.T implement it.
type testingT interface {
	require.TestingT
	Helper()
}

// same requires two values to be equal, like require.Equal but a hundred times faster: the checks
// compare a lot.
func same[T comparable](t testingT, want, got T, message ...any) {
	if want != got {
		t.Helper()
		require.Equal(t, want, got, message...)
	}
}

// row is an object of a test's table. A deleted object stays as a tombstone.
type row struct {
	key      string
	revision uint64
	// pendingID is the ID of the pending status: status writes keep it.
	pendingID uint64
	deleted   bool
	status    string
	text      string
	// group is the group of the object. lane, if not Fresh, is the lane of the change.
	group string
	lane  Lane
}

func keyOfRow(r row) []byte { return []byte(r.key) }

// small returns a core with the given round size and a backoff of 100 ms to 1 s without jitter.
func small(size int) *Core[row] { return New(smallConfig(size)) }

func smallConfig(size int) Config[row] {
	return Config[row]{KeyOf: keyOfRow, Limits: Limits{
		MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Second, RoundSize: size,
	}}
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
