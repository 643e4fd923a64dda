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

// port is a row of the source table. An object depends on the port that its Note names.
type port struct {
	Name  string
	Value int
}

func (p *port) TableHeader() []string { return []string{"Name"} }
func (p *port) TableRow() []string    { return []string{p.Name} }

var portIndex = statedb.Index[*port, string]{
	Name:       "name",
	FromObject: func(p *port) index.KeySet { return index.NewKeySet(index.String(p.Name)) },
	FromKey:    index.String,
	Unique:     true,
}

var noteIndex = statedb.Index[*object, string]{
	Name:       "note",
	FromObject: func(o *object) index.KeySet { return index.NewKeySet(index.String(o.Note)) },
	FromKey:    index.String,
}

// onPort is the dependents function of most tests.
func onPort(change statedb.Change[*port]) []statedb.Query[*object] {
	return []statedb.Query[*object]{noteIndex.Query(change.Object.Name)}
}

// followed is an Env whose objects depend on ports.
type followed struct {
	harness.Env
	ports   statedb.RWTable[*port]
	metrics *statedb.ExpVarMetrics
	target  *target
	health  *reconcilertest.Health // the health of the trigger
	cfg     reconciler.Config[*object]
	trigger *trigger.Trigger[*object, *port]
	// concurrent: operations may overlap.
	concurrent bool
	// halt ends the trigger's run and waits for it, stop does so for the loop.
	halt, stop func()
}

// withPorts runs a test in a bubble, with a loop that has not been started.
func withPorts(t *testing.T, test func(f *followed), opts ...reconciler.Option) {
	synctest.Test(t, func(t *testing.T) {
		f := &followed{
			target: newTarget(), halt: func() {}, stop: func() {},
			metrics: statedb.NewExpVarMetrics(false),
		}
		f.Env = harness.New(t, harness.ByID, []statedb.Indexer[*object]{noteIndex}, statedb.WithMetrics(f.metrics))
		var err error
		f.ports, err = statedb.NewTable(f.DB, "ports", portIndex)
		require.NoError(t, err)
		f.target.ports = f.ports
		f.health = f.Health.Scope("trigger-ports")
		f.cfg = f.Config(harness.Config(f.target, append([]reconciler.Option{
			reconciler.WithSettings(func(s *reconciler.Settings) { s.PruneInterval = 0 }),
			reconciler.WithRetry(100*time.Millisecond, time.Minute),
		}, opts...)...))
		test(f)
		f.halt()
		f.stop()
		require.False(t, f.target.busy.Violated() && !f.concurrent, "operations overlapped")
	})
}

// follow makes a trigger of the loop, which it makes if there is none, and runs it.
func (f *followed) follow(dependents func(statedb.Change[*port]) []statedb.Query[*object]) {
	f.Helper()
	f.prepare(dependents)
	f.resume()
	synctest.Wait()
}

// prepare makes a trigger.
func (f *followed) prepare(dependents func(statedb.Change[*port]) []statedb.Query[*object]) {
	f.Helper()
	if f.Loop == nil {
		loop, err := reconciler.New(f.cfg)
		require.NoError(f, err)
		f.Loop = loop
	}
	made, err := trigger.New(f.Loop, f.ports, dependents)
	require.NoError(f, err)
	f.Cleanup(made.Close)
	f.trigger = made
}

// resume runs the trigger.
func (f *followed) resume() { f.halt = reconcilertest.Go(f, f.trigger.Run) }

// set writes ports with a value.
func (f *followed) set(value int, names ...string) {
	for _, name := range names {
		harness.Insert(f, f.DB, f.ports, &port{Name: name, Value: value})
	}
}

func (f *followed) unset(names ...string) {
	for _, name := range names {
		harness.Delete(f, f.DB, f.ports, &port{Name: name})
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

// revisionOf returns the revision of an object's row.
func (f *followed) revisionOf(id uint64) statedb.Revision {
	_, revision, found := f.Table.Get(f.DB.ReadTxn(), harness.ByID.Query(id))
	require.True(f, found, "object %d", id)
	return revision
}

// applied requires every object to be Done, and the target to have the current values of the ports.
func (f *followed) applied() {
	f.Helper()
	txn := f.DB.ReadTxn()
	want := map[uint64]int{}
	for o := range f.Table.All(txn) {
		require.Equal(f, reconciler.StatusKindDone, o.Status.Kind, "object %d: %s", o.ID, o.Status)
		want[o.ID] = noPort
		if d, _, found := f.ports.Get(txn, portIndex.Query(o.Note)); found {
			want[o.ID] = d.Value
		}
	}
	require.Equal(f, want, f.target.holds(), "values of ports in the target")
}

// runLoop runs the loop of the trigger.
func (f *followed) runLoop() {
	f.stop = reconcilertest.Go(f, f.Loop.Run)
	synctest.Wait()
	f.target.Take()
}

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
