// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/trigger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	// object depends on the port that its Note names.
	object = harness.Object
	// port is a row of the source table. Its Note is its name.
	port = harness.Object
	// call is a call of an operation of the target; the Value of its object is that of the port.
	call = reconcilertest.Call[*object]

	dependents = func(statedb.Change[*port]) []statedb.Query[*object]
)

var (
	noteIndex = statedb.Index[*object, string]{
		Name:       "note",
		FromObject: func(o *object) index.KeySet { return index.NewKeySet(index.String(o.Note)) },
		FromKey:    index.String,
	}
	portIndex = statedb.Index[*port, string]{
		Name: "name", FromObject: noteIndex.FromObject, FromKey: index.String, Unique: true,
	}
)

// onPort is the dependents function of most tests.
func onPort(change statedb.Change[*port]) []statedb.Query[*object] {
	return []statedb.Query[*object]{noteIndex.Query(change.Object.Note)}
}

// followed is an Env whose objects depend on ports. Its loop runs if the test calls Start with cfg before follow.
type followed struct {
	harness.Env
	ports   statedb.RWTable[*port]
	metrics *statedb.ExpVarMetrics
	target  target
	health  *reconcilertest.Health // the health of the trigger
	cfg     reconciler.Config[*object]
	trigger *trigger.Trigger[*object, *port]
	halt    func() // ends the trigger's run and waits for it
}

func withPorts(t *testing.T, test func(f *followed), opts ...reconciler.Option) {
	synctest.Test(t, func(t *testing.T) {
		f := &followed{metrics: statedb.NewExpVarMetrics(false)}
		f.Env = harness.New(t, harness.ByID, []statedb.Indexer[*object]{noteIndex}, statedb.WithMetrics(f.metrics))
		var err error
		f.ports, err = statedb.NewTable(f.DB, "ports", portIndex)
		require.NoError(t, err)
		f.target = newTarget(f.ports)
		f.health = f.Health.Scope("trigger-ports")
		f.cfg = harness.Config(f.target, append([]reconciler.Option{
			reconciler.WithoutPruning(), reconciler.WithRetry(100*time.Millisecond, time.Minute),
		}, opts...)...)
		test(f)
	})
}

// follow makes a trigger and runs it.
func (f *followed) follow(find dependents) {
	f.Helper()
	f.prepare(f.ports, find)
	f.resume()
}

// prepare makes a trigger of the loop, and a loop if none runs.
func (f *followed) prepare(source statedb.Table[*port], find dependents) {
	f.Helper()
	var err error
	if f.Loop == nil {
		f.Loop, err = reconciler.New(f.Config(f.cfg))
		require.NoError(f, err)
	}
	f.trigger, err = trigger.New(trigger.Config[*object, *port]{Loop: f.Loop, Source: source, Dependents: find})
	require.NoError(f, err)
	f.Cleanup(f.trigger.Close)
}

// resume runs the trigger.
func (f *followed) resume() {
	f.halt = reconcilertest.Go(f, f.trigger.Run)
	synctest.Wait()
}

// set writes ports with a value.
func (f *followed) set(value int, names ...string) {
	for _, name := range names {
		harness.Insert(f, f.DB, f.ports, &port{Note: name, Value: value})
	}
}

func (f *followed) unset(names ...string) {
	for _, name := range names {
		harness.Delete(f, f.DB, f.ports, &port{Note: name})
	}
}

// add inserts objects that depend on a port, with the status.
func (f *followed) add(on string, status func() reconciler.Status, ids ...uint64) {
	var objects []*object
	for _, id := range ids {
		objects = append(objects, &object{ID: id, Note: on, Status: status(), Other: reconciler.StatusDone()})
	}
	f.Insert(objects...)
}

// applied requires every object to be Done, and the target to have the current values of the ports.
func (f *followed) applied() {
	f.Helper()
	txn := f.DB.ReadTxn()
	want := map[uint64]int{}
	for o := range f.Table.All(txn) {
		require.Equal(f, reconciler.StatusKindDone, o.Status.Kind, "object %d: %s", o.ID, o.Status)
		want[o.ID] = noPort
		if p, _, found := f.ports.Get(txn, portIndex.Query(o.Note)); found {
			want[o.ID] = p.Value
		}
	}
	require.Equal(f, want, f.target.holds(), "values of ports in the target")
}

// noPort is the value of an object whose port does not exist.
const noPort = -1

// target holds for each object the value of its port at the last update.
type target struct {
	*reconcilertest.Target[*object]
	ports statedb.Table[*port]
}

func newTarget(ports statedb.Table[*port]) target {
	key := func(o *object) string { return strconv.FormatUint(o.ID, 10) }
	return target{reconcilertest.NewTarget(key, (*object).GetStatus), ports}
}

// deciding makes every call take d, and f decide its result.
func (x target) deciding(d time.Duration, f func(call) error) {
	x.Decide(func(_ context.Context, c call) error {
		time.Sleep(d)
		return f(c)
	})
}

func (x target) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, o *object) error {
	o = o.Clone()
	o.Value = noPort
	if p, _, found := x.ports.Get(txn, portIndex.Query(o.Note)); found {
		o.Value = p.Value
	}
	return x.Target.Update(ctx, txn, revision, o)
}

// holds returns the values in the target, by ID.
func (x target) holds() map[uint64]int {
	values := map[uint64]int{}
	for _, o := range x.Objects() {
		values[o.ID] = o.Value
	}
	return values
}
