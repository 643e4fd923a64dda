// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object is a row with two statuses, each of a reconciler of its own.
type object struct {
	ID     uint64
	Value  int
	Note   string
	Status reconciler.Status
	Other  reconciler.Status
}

func (o *object) Clone() *object { c := *o; return &c }

func (o *object) SetStatus(s reconciler.Status) *object { o.Status = s; return o }
func (o *object) GetStatus() reconciler.Status          { return o.Status }
func (o *object) SetOther(s reconciler.Status) *object  { o.Other = s; return o }
func (o *object) GetOther() reconciler.Status           { return o.Other }

func (o *object) TableHeader() []string { return []string{"ID", "Value", "Status", "Error"} }
func (o *object) TableRow() []string {
	return []string{
		strconv.FormatUint(o.ID, 10), strconv.Itoa(o.Value), o.Status.Kind.String(), o.Status.GetError(),
	}
}

func keyOf(o *object) index.Key {
	counted.Add(1)
	return index.Uint64(o.ID)
}

var idIndex = statedb.Index[*object, uint64]{
	Name:       "id",
	FromObject: func(o *object) index.KeySet { return index.NewKeySet(keyOf(o)) },
	FromKey:    index.Uint64,
	FromString: index.Uint64String,
	Unique:     true,
}

// env is a table, a target, and a loop between them, in a bubble of virtual time.
type env struct {
	*testing.T
	db     *statedb.DB
	table  statedb.RWTable[*object]
	target *target
	loop   *reconciler.Loop[*object]
	health *health
	log    *testlog.Buffer
	stop   func()
}

// exact makes retries come when the backoff says, and leaves nothing to run by itself.
func exact(opts ...reconciler.Option) []reconciler.Option {
	return append([]reconciler.Option{
		reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0 }),
		reconciler.WithRefreshing(0, nil),
		reconciler.WithRetry(100*time.Millisecond, time.Minute),
	}, opts...)
}

// inBubble runs a test against a loop with the options of exact and the given ones.
// change, which may be nil, changes the configuration first.
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
		// An operation that starts while the stop is being said is neither early nor late.
		synctest.Wait()
		e.stop()
		require.False(t, e.target.overlap, "operations overlapped")
		require.False(t, e.target.late, "an operation started after the stop")
	})
}

func newEnv(t *testing.T) *env {
	e := &env{T: t, target: newTarget(), health: &health{}, log: &testlog.Buffer{}}
	e.db = statedb.New()
	require.NoError(t, e.db.Start())
	t.Cleanup(func() { require.NoError(t, e.db.Stop()) })
	table, err := statedb.NewTable(e.db, "objects", idIndex)
	require.NoError(t, err)
	e.table = table
	return e
}

func (e *env) config(opts ...reconciler.Option) reconciler.Config[*object] {
	return reconciler.Config[*object]{
		DB: e.db, Table: e.table,
		Clone: (*object).Clone, SetStatus: (*object).SetStatus, GetStatus: (*object).GetStatus,
		Operations: e.target, Health: e.health, Log: slog.New(slog.NewTextHandler(e.log, nil)),
		Options: exact(opts...),
	}
}

// start runs a loop; stop ends it and waits for it.
func (e *env) start(cfg reconciler.Config[*object]) *reconciler.Loop[*object] {
	loop, err := reconciler.New(cfg)
	require.NoError(e, err)
	if e.loop == nil {
		e.loop = loop
	}
	ctx, cancel := context.WithCancel(e.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	before := e.stop
	e.stop = sync.OnceFunc(func() {
		if before != nil {
			before()
		}
		cancel()
		require.NoError(e, <-ended)
	})
	e.Cleanup(e.stop)
	return loop
}

// write changes the table in one transaction.
func (e *env) write(f func(wtxn statedb.WriteTxn)) statedb.Revision {
	wtxn := e.db.WriteTxn(e.table)
	f(wtxn)
	return e.table.Revision(wtxn.Commit())
}

// objects returns a page of objects.
func (e *env) objects(q inspect.ObjectQuery) inspect.ObjectPage {
	e.Helper()
	page, err := e.loop.Objects(e.Context(), q)
	require.NoError(e, err)
	return page
}

// put inserts objects with the value, pending for both reconcilers.
func (e *env) put(value int, ids ...uint64) statedb.Revision {
	return e.write(func(wtxn statedb.WriteTxn) {
		for _, id := range ids {
			_, _, err := e.table.Insert(wtxn, &object{
				ID: id, Value: value, Status: reconciler.StatusPending(), Other: reconciler.StatusPending(),
			})
			require.NoError(e, err)
		}
	})
}

func (e *env) remove(ids ...uint64) statedb.Revision {
	return e.write(func(wtxn statedb.WriteTxn) {
		for _, id := range ids {
			_, _, err := e.table.Delete(wtxn, &object{ID: id})
			require.NoError(e, err)
		}
	})
}

// get returns the row, nil if there is none.
func (e *env) get(id uint64) *object {
	o, _, _ := e.table.Get(e.db.ReadTxn(), idIndex.Query(id))
	return o
}

// kind returns the kind of the row's status.
func (e *env) kind(id uint64) reconciler.StatusKind {
	o := e.get(id)
	require.NotNil(e, o, "object %d", id)
	return o.Status.Kind
}

// pass lets virtual time go by, and waits until the loop is idle.
func (e *env) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

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

func ids(from, to uint64) []uint64 {
	var out []uint64
	for id := from; id <= to; id++ {
		out = append(out, id)
	}
	return out
}

// health remembers what it was told.
type health struct {
	mu      sync.Mutex
	level   cell.Level
	message string
	err     error
	told    []string
}

func (h *health) set(level cell.Level, message string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.level, h.message, h.err = level, message, err
	h.told = append(h.told, string(level)+" "+message)
}

func (h *health) OK(message string)                  { h.set(cell.StatusOK, message, nil) }
func (h *health) Stopped(message string)             { h.set(cell.StatusStopped, message, nil) }
func (h *health) Degraded(message string, err error) { h.set(cell.StatusDegraded, message, err) }
func (h *health) Close()                             {}

// NewScope gives the refresher a health of its own.
func (h *health) NewScope(name string) cell.Health {
	if name != "reconcile" {
		return &health{}
	}
	return h
}

func (h *health) now() (cell.Level, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.level, h.message, h.err
}

func (h *health) history() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.told)
}
