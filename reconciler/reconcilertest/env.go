// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Env is a table in a database of its own, and the reconcilers of the table that a test has started.
// Its methods fail the test if they cannot do their work. Use it from the goroutine of the test only.
type Env[Obj any] struct {
	testing.TB
	// DB has been started, and is stopped at the end of the test.
	DB *statedb.DB
	// Table is the table that the function given to [Run] or [New] returned.
	Table statedb.RWTable[Obj]
	// Loop is the reconciler that was started last; nil before the first [Env.Start].
	Loop *reconciler.Loop[Obj]
	// Health records what the reconcilers report, except those whose configuration has another
	// Health.
	Health *Health
	// Registry holds the reconcilers while they run, except those whose configuration has another
	// registry.
	Registry *inspect.Registry

	log     testlog.Buffer
	stops   []func()
	life    *life               // nil outside of [Check]
	further []statedb.TableMeta // of Subject.Further
}

// Run runs a test in a bubble of testing/synctest, with the table that newTable makes. It stops the
// reconcilers when test returns. A bubble has three rules:
//
//   - An operation must return before the test ends. Let it respect its context, or release it in the test with defer
//     (a function given to Cleanup runs after the stop). Otherwise the test ends with "deadlock: ...".
//   - Close every change iterator (Changes of a table) before the test ends. The garbage collector would close it outside
//     of the bubble, and the process ends with "close of synctest channel from outside bubble", often in a later test.
//   - Make channels and timers inside the bubble, and use e, not the outer t, for Cleanup and [Go]. A goroutine that waits
//     for a channel from outside makes virtual time stand still, and the test hangs.
func Run[Obj any](t *testing.T, newTable func(*statedb.DB) (statedb.RWTable[Obj], error), test func(e *Env[Obj])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := New(t, newTable)
		test(e)
		e.Stop()
	})
}

// New returns an Env with the table that newTable makes. It is for a test that already runs in a
// bubble, or needs none: [Env.Start], [Env.Pass] and [Env.WaitApplied] only work in a bubble. opts
// are options of the database.
func New[Obj any](t testing.TB, newTable func(*statedb.DB) (statedb.RWTable[Obj], error), opts ...statedb.Option) *Env[Obj] {
	t.Helper()
	e := &Env[Obj]{TB: t, DB: NewDB(t, opts...), Health: &Health{}, Registry: &inspect.Registry{}}
	table, err := newTable(e.DB)
	if err != nil {
		t.Fatalf("making the table: %s", err)
	}
	e.Table = table
	return e
}

// Config returns cfg with DB, Table, Health and Log set to those of the Env if they are nil. It sets
// Jitter to 0, so that retries run exactly when their backoff ends; options of cfg can change that. A
// Table in cfg has to be the table of the Env, or a wrapper of it.
func (e *Env[Obj]) Config(cfg reconciler.Config[Obj]) reconciler.Config[Obj] {
	if cfg.Table == nil {
		cfg.Table = e.Table
	}
	return config(e, cfg)
}

// config is Config for any table of the database.
func config[Obj, Row any](e *Env[Obj], cfg reconciler.Config[Row]) reconciler.Config[Row] {
	if cfg.DB == nil {
		cfg.DB = e.DB
	}
	if cfg.Health == nil {
		cfg.Health = e.Health
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(&e.log, nil))
	}
	exact := reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0 })
	cfg.Options = slices.Concat([]reconciler.Option{exact, reconciler.WithRegistry(e.Registry)}, cfg.Options)
	return cfg
}

// Start starts a reconciler with the configuration that [Env.Config] returns for cfg, and waits until
// it is idle. It may be called again: for another reconciler of the table, or after [Env.Stop] to
// test a restart of the program.
func (e *Env[Obj]) Start(cfg reconciler.Config[Obj]) *reconciler.Loop[Obj] {
	e.Helper()
	cfg = e.Config(cfg)
	if e.life != nil {
		cfg = withFaults(e.life, cfg)
	}
	e.Loop = start(e, cfg)
	return e.Loop
}

// Start starts a reconciler of any table of the Env's database, as [Env.Start] does for the table of the
// Env. Table must be set in cfg.
func Start[Obj, Row any](e *Env[Obj], cfg reconciler.Config[Row]) *reconciler.Loop[Row] {
	e.Helper()
	cfg = config(e, cfg)
	if e.life != nil {
		cfg = withFaults(e.life, cfg)
	}
	return start(e, cfg)
}

func start[Obj, Row any](e *Env[Obj], cfg reconciler.Config[Row]) *reconciler.Loop[Row] {
	e.Helper()
	loop, err := reconciler.New(cfg)
	if err != nil {
		e.Fatalf("making the reconciler: %s", err)
	}
	e.stops = append(e.stops, Go(e.TB, loop.Run))
	e.idle()
	return loop
}

// idle waits until the reconcilers are idle.
func (e *Env[Obj]) idle() {
	if e.life == nil || e.life.virtual {
		synctest.Wait()
		return
	}
	time.Sleep(time.Millisecond)
}

// Stop stops the reconcilers and waits until they have ended, in the order of their starts. This also
// happens at the end of the test.
func (e *Env[Obj]) Stop() {
	for _, stop := range e.stops {
		stop()
	}
	e.stops = nil
}

// Write changes the table in one transaction, and returns the table's revision after it.
func (e *Env[Obj]) Write(change func(wtxn statedb.WriteTxn)) statedb.Revision {
	wtxn := e.DB.WriteTxn(e.Table)
	defer wtxn.Abort()
	change(wtxn)
	return e.Table.Revision(wtxn.Commit())
}

// Insert inserts or replaces rows, without changing them: if the rows carry the status, set it to
// Pending to have a row reconciled. It returns the table's revision.
func (e *Env[Obj]) Insert(objs ...Obj) statedb.Revision {
	e.Helper()
	return e.Write(func(wtxn statedb.WriteTxn) {
		for _, obj := range objs {
			_, err := rows.KeyOf(e.Table.PrimaryIndexer(), obj)
			if err == nil {
				_, _, err = e.Table.Insert(wtxn, obj)
			}
			if err != nil {
				e.Fatalf("inserting: %s", err)
			}
		}
	})
}

// Delete deletes the rows with the primary keys of the objects, and returns the table's revision. A
// row that does not exist is no error.
func (e *Env[Obj]) Delete(objs ...Obj) statedb.Revision {
	e.Helper()
	return e.Write(func(wtxn statedb.WriteTxn) {
		for _, obj := range objs {
			if _, _, err := e.Table.Delete(wtxn, obj); err != nil {
				e.Fatalf("deleting: %s", err)
			}
		}
	})
}

// Get returns the row with the primary key of an object.
func (e *Env[Obj]) Get(obj Obj) (row Obj, found bool) {
	row, _, found = rows.New(e.DB, e.Table, rows.Writable[Obj]{}).Get(e.DB.ReadTxn(), obj)
	return row, found
}

// Status returns the status of the row with the primary key of an object, for the reconciler that was
// started last. The test fails if there is no such row.
func (e *Env[Obj]) Status(obj Obj) reconciler.Status {
	e.Helper()
	s, found := e.Loop.Status(e.DB.ReadTxn(), obj)
	if !found {
		e.Fatalf("there is no row of %+v", obj)
	}
	return s
}

// Pass lets virtual time pass, and waits until all goroutines of the test are idle. A duration of 0
// only waits.
func (e *Env[Obj]) Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// WaitApplied waits until the reconciler that was started last has applied all rows of the table and
// carried out all deletions. If that takes longer than within, in virtual time, the test fails, with
// the keys of the objects that are not applied and the reasons.
func (e *Env[Obj]) WaitApplied(within time.Duration) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), within)
	defer cancel()
	rest, err := e.Loop.WaitAll(ctx, reconciler.Applied)
	if err != nil {
		e.Fatalf("waiting until all is applied: %s\n%v", err, rest.Err())
	}
	synctest.Wait()
}

// Logged returns the log of the reconcilers, except those whose configuration has another Log: a line
// of text for each record, with the level and the attributes.
func (e *Env[Obj]) Logged() string { return e.log.String() }
