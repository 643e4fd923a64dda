// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object is a row with two statuses, each of a reconciler of its own.
type object = harness.Object

// health is a fake that records the reports of a loop.
type health = reconcilertest.Health

func keyOf(o *object) index.Key {
	counted.Add(1)
	return index.Uint64(o.ID)
}

// idIndex is harness.ByID with a counter for reads of the key.
var idIndex = func() statedb.Index[*object, uint64] {
	ix := harness.ByID
	ix.FromObject = func(o *object) index.KeySet { return index.NewKeySet(keyOf(o)) }
	return ix
}()

// env is a table, a target, and a loop between them, in a bubble of virtual time.
type env struct {
	*testing.T
	harness.Env
	db     *statedb.DB
	table  statedb.RWTable[*object]
	target *target
	loop   *reconciler.Loop[*object] // the first that was started
	health *health                   // that of the loop without a name
	stop   func()
}

// exact returns options without jitter and periodic refreshes, so that only changes, retries and prunes
// cause operations, at predictable times.
func exact(opts ...reconciler.Option) []reconciler.Option {
	return append([]reconciler.Option{
		reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0 }),
		reconciler.WithRefreshing(0, nil),
		reconciler.WithRetry(100*time.Millisecond, time.Minute),
	}, opts...)
}

// inBubble runs a test against a loop with the options of exact and the given ones. change, which may
// be nil, changes the configuration first.
func inBubble(t *testing.T, test func(e *env), change func(e *env, cfg *reconciler.Config[*object]), opts ...reconciler.Option) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		cfg := e.config(opts...)
		if change != nil {
			change(e, &cfg)
		}
		e.start(cfg)
		synctest.Wait()
		e.target.take() // the prune at the start
		test(e)
		// An operation that starts at the moment of the stop could count as late: wait until none does.
		synctest.Wait()
		e.stop()
		require.False(t, e.target.overlap, "operations overlapped")
		require.False(t, e.target.late, "an operation started after the stop")
	})
}

func newEnv(t *testing.T) *env {
	h := harness.New(t, idIndex, nil)
	return &env{
		T: t, Env: h, db: h.DB, table: h.Table,
		target: newTarget(), health: h.Health.Scope("reconcile"), stop: func() {},
	}
}

func (e *env) config(opts ...reconciler.Option) reconciler.Config[*object] {
	return e.Config(harness.Config(e.target, exact(opts...)...))
}

// start runs a loop; stop ends it and waits for it.
func (e *env) start(cfg reconciler.Config[*object]) *reconciler.Loop[*object] {
	loop, err := reconciler.New(cfg)
	require.NoError(e, err)
	if e.loop == nil {
		e.loop = loop
	}
	before, stop := e.stop, reconcilertest.Go(e, loop.Run)
	e.stop = func() { before(); stop() }
	return loop
}

// write changes the table in one transaction.
func (e *env) write(f func(wtxn statedb.WriteTxn)) statedb.Revision { return e.Write(f) }

// objects returns a page of objects.
func (e *env) objects(q inspect.ObjectQuery) inspect.ObjectPage {
	e.Helper()
	page, err := e.loop.Objects(e.Context(), q)
	require.NoError(e, err)
	return page
}

// put inserts objects with the value, pending for both reconcilers.
func (e *env) put(value int, ids ...uint64) statedb.Revision {
	var objects []*object
	for _, id := range ids {
		objects = append(objects, &object{
			ID: id, Value: value, Status: reconciler.StatusPending(), Other: reconciler.StatusPending(),
		})
	}
	return e.Insert(objects...)
}

func (e *env) remove(ids ...uint64) statedb.Revision { return e.Remove(ids...) }

// get returns the row, nil if there is none.
func (e *env) get(id uint64) *object { return e.Row(id) }

// kind returns the kind of the row's status.
func (e *env) kind(id uint64) reconciler.StatusKind {
	o := e.get(id)
	require.NotNil(e, o, "object %d", id)
	return o.Status.Kind
}

// pass lets virtual time go by, and waits until the loop is idle.
func (e *env) pass(d time.Duration) { e.Pass(d) }

// eachDone requires every row to be Done and the target to equal the table.
func (e *env) eachDone() {
	e.Helper()
	want := map[uint64]int{}
	for o := range e.table.All(e.db.ReadTxn()) {
		require.Equal(e, reconciler.StatusKindDone, o.Status.Kind, "object %d: %s", o.ID, o.Status)
		want[o.ID] = o.Value
	}
	require.Equal(e, want, e.target.holds(), "target")
}

func ids(from, to uint64) []uint64 { return harness.IDs(from, to) }
