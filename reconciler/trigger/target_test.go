// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// object is a row that is reconciled; it depends on the port that its Note names.
type object = harness.Object

// call is a call of an operation of the target; the Value of its object is that of the port.
type call = reconcilertest.Call[*object]

// noPort is the value of an object whose port does not exist.
const noPort = -1

// target holds for each object the value of its port at the last update.
type target struct {
	*reconcilertest.Target[*object]
	ports statedb.Table[*port] // none: every port is missing
	// busy has the IDs of the objects whose operations are running.
	busy harness.Exclusive[uint64]
}

func newTarget() *target {
	return &target{Target: reconcilertest.NewTarget(func(o *object) string { return strconv.FormatUint(o.ID, 10) }, (*object).GetStatus)}
}

// failing makes every call fail with the text.
func (x *target) failing(text string) { x.deciding(func(call) error { return errors.New(text) }) }

// deciding makes f decide the result of every call.
func (x *target) deciding(f func(call) error) {
	x.Decide(func(_ context.Context, c call) error { return f(c) })
}

// after makes every call take d, and f decide its result; a nil f means success.
func (x *target) after(d time.Duration, f func(call) error) {
	x.deciding(func(c call) error {
		time.Sleep(d)
		if f == nil {
			return nil
		}
		return f(c)
	})
}

func (x *target) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, o *object) error {
	defer x.busy.Enter(o.ID)()
	o = o.Clone()
	o.Value = noPort
	if x.ports != nil {
		if p, _, found := x.ports.Get(txn, portIndex.Query(o.Note)); found {
			o.Value = p.Value
		}
	}
	return x.Target.Update(ctx, txn, revision, o)
}

func (x *target) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, o *object) error {
	defer x.busy.Enter(o.ID)()
	return x.Target.Delete(ctx, txn, revision, o)
}

// holds returns the values in the target, by ID.
func (x *target) holds() map[uint64]int {
	values := map[uint64]int{}
	for _, o := range x.Objects() {
		values[o.ID] = o.Value
	}
	return values
}
