// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is what is reconciled.
type row struct {
	ID     uint64
	Value  int
	Status reconciler.Status
}

func (r *row) clone() *row                        { c := *r; return &c }
func (r *row) setStatus(s reconciler.Status) *row { r.Status = s; return r }
func (r *row) getStatus() reconciler.Status       { return r.Status }
func (r *row) TableHeader() []string              { return []string{"ID", "Value", "Status"} }
func (r *row) TableRow() []string {
	return []string{strconv.FormatUint(r.ID, 10), strconv.Itoa(r.Value), r.Status.String()}
}
func (r *row) key() index.KeySet { return index.NewKeySet(index.Uint64(r.ID)) }
func pending(id uint64, value int) *row {
	return &row{ID: id, Value: value, Status: reconciler.StatusPending()}
}

var rowID = statedb.Index[*row, uint64]{
	Name: "id", FromObject: (*row).key, FromKey: index.Uint64, FromString: index.Uint64String, Unique: true,
}

// What programs keep hooks and engines in.
var (
	_ stepper.StepperEngineHook[*row] = stepper.StepperEngineHookFunc[*row](nil)
	_ stepper.FreeStyleHook[*row]     = stepper.FreeStyleHookFunc[*row](nil)
	_ stepper.Engine[*row]            = (*stepper.Stepper[*row])(nil)
	_ stepper.Engine[*row]            = (*stepper.FreeStyle[*row])(nil)
)

// env is a table and a loop with an engine.
type env struct {
	testing.TB
	db    *statedb.DB
	table statedb.RWTable[*row]
	loop  *reconciler.Loop[*row]
	stop  func()
}

func newEnv(t testing.TB) *env {
	e := &env{TB: t, db: statedb.New()}
	require.NoError(t, e.db.Start())
	t.Cleanup(func() { require.NoError(t, e.db.Stop()) })
	table, err := statedb.NewTable(e.db, "rows", rowID)
	require.NoError(t, err)
	e.table = table
	return e
}

func (e *env) config(opts ...reconciler.Option) reconciler.Config[*row] {
	return reconciler.Config[*row]{
		DB: e.db, Table: e.table, Clone: (*row).clone, SetStatus: (*row).setStatus, GetStatus: (*row).getStatus,
		Log: slog.New(slog.DiscardHandler),
		Options: append([]reconciler.Option{
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0 }), reconciler.WithRefreshing(0, nil), reconciler.WithRetry(100*time.Millisecond, time.Minute),
		}, opts...),
	}
}

func newLoop(cfg reconciler.Config[*row], engine stepper.Engine[*row]) (*reconciler.Loop[*row], error) {
	cfg, err := stepper.Configure(cfg, engine)
	if err != nil {
		return nil, err
	}
	return reconciler.New(cfg)
}

// operationsOf returns the operations that a configuration with the engine has.
func operationsOf(tb testing.TB, engine stepper.Engine[*row]) reconciler.Operations[*row] {
	cfg, err := stepper.Configure(reconciler.Config[*row]{
		Clone: (*row).clone, SetStatus: (*row).setStatus, GetStatus: (*row).getStatus,
	}, engine)
	require.NoError(tb, err)
	return cfg.Operations
}

// run starts a loop; stop ends it and waits for it.
func (e *env) run(loop *reconciler.Loop[*row], err error) {
	require.NoError(e, err)
	e.loop = loop
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(e, <-ended)
	})
	e.Cleanup(e.stop)
}

// inBubble runs a test with an engine on a loop in a bubble of virtual time.
func inBubble(t *testing.T, engine stepper.Engine[*row], test func(e *env), opts ...reconciler.Option) {
	inBubbleAnd(t, engine, func(*reconciler.Config[*row]) {}, test, opts...)
}

// inBubbleAnd makes a change to the configuration, too.
func inBubbleAnd(t *testing.T, engine stepper.Engine[*row], change func(cfg *reconciler.Config[*row]), test func(e *env), opts ...reconciler.Option) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		cfg := e.config(opts...)
		change(&cfg)
		e.run(newLoop(cfg, engine))
		synctest.Wait()
		test(e)
		synctest.Wait()
		e.stop()
	})
}

func (e *env) put(rows ...*row) {
	wtxn := e.db.WriteTxn(e.table)
	for _, r := range rows {
		_, _, err := e.table.Insert(wtxn, r)
		require.NoError(e, err)
	}
	wtxn.Commit()
}

func (e *env) remove(id uint64) {
	wtxn := e.db.WriteTxn(e.table)
	_, _, err := e.table.Delete(wtxn, &row{ID: id})
	require.NoError(e, err)
	wtxn.Commit()
}

// status returns the text of a row's status, without the time.
func (e *env) status(id uint64) (reconciler.StatusKind, string) {
	r, _, found := e.table.Get(e.db.ReadTxn(), rowID.Query(id))
	require.True(e, found, "row %d", id)
	return r.Status.Kind, r.Status.GetError()
}

// events returns "operation result: note" of what was done on a row, the latest last.
func (e *env) events(id uint64) []string {
	var events []string
	for _, ev := range e.loop.Explain(context.Background(), strconv.FormatUint(id, 10)).Events {
		events = append(events, ev.Op+" "+string(ev.Result)+": "+ev.Note)
	}
	return events
}

func (e *env) snapshot() inspect.Snapshot { return e.loop.Snapshot(context.Background()) }

// pass lets virtual time go by, and waits until the loop is idle.
func (e *env) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
