// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row struct {
	key    string
	status status.Status
}

func (*row) TableHeader() []string { return []string{"Key"} }
func (r *row) TableRow() []string  { return []string{r.key} }

// behaviour has what the operations on a target do, by key; without one they succeed.
type behaviour map[string]func(ctx context.Context) error

type target struct {
	mu    sync.Mutex
	calls []string
	does  behaviour
}

func fails(context.Context) error { return errors.New("no") }

func (g *target) call(ctx context.Context, operation string, r *row) error {
	g.mu.Lock()
	g.calls = append(g.calls, operation+" "+r.key)
	g.mu.Unlock()
	if does := g.does[r.key]; does != nil {
		return does(ctx)
	}
	return nil
}

func (g *target) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *row) error {
	return g.call(ctx, "update", r)
}

func (g *target) Delete(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, r *row) error {
	return g.call(ctx, "delete", r)
}

// batches calls the target for each entry of a batch, after change has changed the batch.
type batches struct {
	*target
	change func(batch []execute.BatchEntry[*row]) []execute.BatchEntry[*row]
}

func (b batches) run(ctx context.Context, operation string, batch []execute.BatchEntry[*row]) {
	if b.change != nil {
		batch = b.change(batch)
	}
	for i := range batch {
		batch[i].Result = b.call(ctx, operation, batch[i].Object)
	}
}

func (b batches) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch []execute.BatchEntry[*row]) {
	b.run(ctx, "update", batch)
}

func (b batches) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, batch []execute.BatchEntry[*row]) {
	b.run(ctx, "delete", batch)
}

func config(t *testing.T, g *target) *execute.Config[*row] {
	table, err := statedb.NewTable(statedb.New(), "rows", statedb.Index[*row, string]{
		Name: "key", FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.key)) },
		FromKey: index.String, FromString: index.FromString, Unique: true,
	})
	require.NoError(t, err)
	began := time.Now()
	return &execute.Config[*row]{
		Rows: rows.New(nil, table, rows.Writable[*row]{
			Clone:     func(r *row) *row { c := *r; return &c },
			GetStatus: func(r *row) status.Status { return r.status },
			SetStatus: func(r *row, s status.Status) *row { r.status = s; return r },
		}),
		Single: g, Now: func() time.Duration { return time.Since(began) },
		Timeout: func() time.Duration { return 0 },
		Metrics: func() metrics.Handle { return metrics.Bind(nil, nil, "") },
		Log:     slog.New(slog.DiscardHandler),
	}
}

// operations returns an operation for each key. A key that begins with "-" is deleted.
func operations(keys ...string) []core.Operation[*row] {
	var all []core.Operation[*row]
	for i, key := range keys {
		deleted := key[0] == '-'
		if deleted {
			key = key[1:]
		}
		r := &row{key: key, status: status.Pending()}
		all = append(all, core.Operation[*row]{
			Obj: r, Row: r, RowRevision: statedb.Revision(i + 1), Deleted: deleted, Run: core.Run{Err: execute.ErrNotRun},
			Outcome: core.Outcome[*row]{Object: r},
		})
	}
	return all
}

func errs(ops []core.Operation[*row]) (texts []string) {
	for i := range ops {
		texts = append(texts, fmt.Sprint(ops[i].Run.Err))
	}
	return texts
}

// runTurn runs single operations in one turn.
func runTurn(ctx context.Context, x *execute.Executor[*row], all []core.Operation[*row]) {
	x.BeginTurn()
	defer x.EndTurn()
	for i := range all {
		x.RunNext(ctx, nil, &all[i], nil)
	}
}

func TestTurnTakesTheTimeOfItsOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{does: behaviour{"b": func(context.Context) error {
			time.Sleep(10 * time.Millisecond)
			return errors.New("no")
		}}}
		ctx, x := execute.New(t.Context(), config(t, g))
		all := operations("a", "b", "-c")
		x.BeginTurn()
		x.RunNext(ctx, nil, &all[0], nil)
		require.Zero(t, x.Took())
		time.Sleep(time.Millisecond)
		x.Resume()
		x.RunNext(ctx, nil, &all[1], nil)
		require.Equal(t, 11*time.Millisecond, x.Took())
		require.Equal(t, 10*time.Millisecond, all[1].Run.Took, "without what came before it")
		x.EndTurn()
		require.Equal(t, []string{"update a", "update b"}, g.calls)
		require.Equal(t, []string{"<nil>", "no", "not run"}, errs(all))
		require.NotSame(t, all[0].Row, all[0].Outcome.Object, "an update gets a clone")
		require.Empty(t, x.Scope.Calling().Operation)
	})
}

func TestNothingRunsAfterTheEndOfTheContext(t *testing.T) {
	g := &target{}
	ctx, x := execute.New(t.Context(), config(t, g))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	all := operations("a")
	x.Run(ended, nil, all, nil)
	require.Equal(t, []string{"not run"}, errs(all))
	require.Empty(t, g.calls)
}

func TestPanicIsAnErrorOfItsOperation(t *testing.T) {
	g := &target{does: behaviour{"a": func(context.Context) error { panic("oops") }}}
	cfg := config(t, g)
	ctx, x := execute.New(t.Context(), cfg)
	all := operations("a", "b")
	runTurn(ctx, x, all)
	require.Equal(t, []string{"panic in update: oops", "<nil>"}, errs(all))
	require.Equal(t, uint64(1), cfg.Tally.Panics.Load())
	cfg.PanicPropagation = true
	require.PanicsWithValue(t, "oops", func() { x.Run(ctx, nil, operations("a"), nil) })
}

func TestErrorAfterTheDeadlineNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &target{does: behaviour{"a": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}}
		cfg := config(t, g)
		cfg.Timeout = func() time.Duration { return time.Second }
		ctx, x := execute.New(t.Context(), cfg)
		all := operations("a")
		x.Run(ctx, nil, all, nil)
		require.EqualError(t, all[0].Run.Err, "update timed out after 1s: context deadline exceeded")
		require.ErrorIs(t, all[0].Run.Err, context.DeadlineExceeded)
		require.Equal(t, uint64(1), cfg.Tally.Timeouts.Load())
	})
}

func TestDeletionsOfABatchComeFirst(t *testing.T) {
	g := &target{does: behaviour{"b": fails}}
	cfg := config(t, g)
	cfg.Batches = batches{target: g}
	ctx, x := execute.New(t.Context(), cfg)
	all := operations("a", "-b", "c")
	x.Run(ctx, nil, all, nil)
	require.Equal(t, []string{"delete b", "update a", "update c"}, g.calls)
	require.Equal(t, []string{"<nil>", "no", "<nil>"}, errs(all))

	g.calls = nil
	all = operations("a", "-b", "c")
	x.Run(ctx, nil, all, func() bool { return false })
	require.Equal(t, []string{"delete b"}, g.calls)
	require.Equal(t, []string{"not run", "no", "not run"}, errs(all), "the second call may not begin")
}

func TestBatchEntriesMayBeSortedButNotReplaced(t *testing.T) {
	g := &target{does: behaviour{"a": fails}}
	cfg := config(t, g)
	b := batches{target: g}
	b.change = func(batch []execute.BatchEntry[*row]) []execute.BatchEntry[*row] { slices.Reverse(batch); return batch }
	cfg.Batches = b
	ctx, x := execute.New(t.Context(), cfg)
	all := operations("a", "b")
	x.Run(ctx, nil, all, nil)
	require.Equal(t, []string{"no", "<nil>"}, errs(all))

	b.change = func(batch []execute.BatchEntry[*row]) []execute.BatchEntry[*row] {
		batch[0] = execute.BatchEntry[*row]{Object: batch[0].Object}
		return batch
	}
	cfg.Batches = b
	all = operations("a", "b")
	x.Run(ctx, nil, all, nil)
	require.Equal(t, []string{"the operation removed or replaced the object's batch entry", "<nil>"}, errs(all))
}

func TestGoexitDiffersFromNotRun(t *testing.T) {
	g := &target{does: behaviour{"b": func(context.Context) error { runtime.Goexit(); return nil }}}
	ctx, x := execute.New(t.Context(), config(t, g))
	all := operations("a", "b", "c")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runTurn(ctx, x, all)
	}()
	<-ended
	require.NoError(t, all[0].Run.Err)
	require.Equal(t, execute.ErrGoexit, all[1].Run.Err)
	require.Equal(t, execute.ErrNotRun, all[2].Run.Err)
}

type pool struct {
	*execute.Pool[*row]
	now func() time.Duration
}

// inPool runs f with a pool in a synctest bubble. does has the behaviour of the operations, by key.
func inPool(t *testing.T, workers int, timeout time.Duration, does behaviour, f func(t *testing.T, ctx context.Context, p *pool)) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(t, nil)
		cfg.Single = &target{does: does}
		cfg.Timeout = func() time.Duration { return timeout }
		p := &pool{execute.NewPool(cfg), cfg.Now}
		ctx, cancel := context.WithCancel(t.Context())
		defer p.Stop()
		defer cancel()
		p.Configure(ctx, workers, timeout)
		f(t, ctx, p)
	})
}

func start(ctx context.Context, p *pool, keys ...string) {
	for _, op := range operations(keys...) {
		p.Start(ctx, nil, []core.Operation[*row]{op})
	}
}

// jobOf returns the job for a key that is queued or runs; nil if there is none.
func jobOf(p *pool, key string) *execute.Job[*row] {
	for j := range p.Jobs {
		if j.Ops[0].Obj.key == key {
			return j
		}
	}
	return nil
}

// overdue returns the objects of the jobs that have become stuck since its last call.
func overdue(p *pool) (stuck []*row) {
	before := stuckNow(p)
	p.Overdue(p.now())
	return slices.DeleteFunc(stuckNow(p), func(o *row) bool { return slices.Contains(before, o) })
}

// stuckNow returns the objects of the jobs that are stuck.
func stuckNow(p *pool) (stuck []*row) {
	for j := range p.StuckJobs {
		stuck = append(stuck, j.Ops[0].Obj)
	}
	return stuck
}

func finished(p *pool) (keys []string) {
	for _, op := range p.Finished(nil) {
		keys = append(keys, op.Obj.key)
	}
	slices.Sort(keys)
	return keys
}

func sleep(d time.Duration) func(context.Context) error {
	return func(context.Context) error { time.Sleep(d); return nil }
}

func TestWorkersBoundTheRunningJobs(t *testing.T) {
	slow := sleep(time.Second)
	inPool(t, 2, 0, behaviour{"a": slow, "b": slow, "c": slow},
		func(t *testing.T, ctx context.Context, p *pool) {
			require.Equal(t, 2, p.Room())
			start(ctx, p, "a", "b", "c")
			synctest.Wait()
			require.Equal(t, execute.Queued, jobOf(p, "c").State)
			require.Zero(t, p.Room())
			back := p.Recall()
			require.Len(t, back, 1)
			require.Equal(t, "c", back[0].Obj.key)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, []string{"a", "b"}, finished(p))
		})
}

func TestCallWithoutADeadlineIsStuckAfterAMinute(t *testing.T) {
	inPool(t, 1, 0, behaviour{"a": sleep(time.Hour)},
		func(t *testing.T, ctx context.Context, p *pool) {
			start(ctx, p, "a")
			time.Sleep(time.Minute - time.Nanosecond)
			require.Empty(t, overdue(p))
			time.Sleep(time.Nanosecond)
			require.Len(t, overdue(p), 1)
		})
}

// Short calls let jobs wait for a worker. Behind a stuck one they would wait for ever.
func TestNoJobWaitsForAStuckWorker(t *testing.T) {
	short, hangs := sleep(10*time.Microsecond), sleep(time.Hour)
	inPool(t, 2, 0, behaviour{"a": short, "b": hangs, "c": hangs},
		func(t *testing.T, ctx context.Context, p *pool) {
			start(ctx, p, "a")
			time.Sleep(time.Second)
			require.Equal(t, []string{"a"}, finished(p))
			room := p.Room()
			require.Greater(t, room, 2)
			start(ctx, p, "b")
			time.Sleep(time.Minute)
			require.Len(t, overdue(p), 1)
			require.Equal(t, room/2, p.Room())
			start(ctx, p, "c")
			time.Sleep(time.Minute)
			require.Len(t, overdue(p), 1)
			require.Zero(t, p.Room())
		})
}

func TestRaisedLimitStartsWorkersForQueuedJobs(t *testing.T) {
	inPool(t, 1, 0, behaviour{"a": sleep(time.Hour)},
		func(t *testing.T, ctx context.Context, p *pool) {
			start(ctx, p, "a", "b")
			synctest.Wait()
			require.Empty(t, finished(p))
			p.Configure(ctx, 2, 0)
			synctest.Wait()
			require.Equal(t, []string{"b"}, finished(p))
		})
}

func TestWorkerThatEndsIsReplaced(t *testing.T) {
	inPool(t, 1, 0, behaviour{"a": func(context.Context) error {
		runtime.Goexit()
		return errors.New("never")
	}}, func(t *testing.T, ctx context.Context, p *pool) {
		start(ctx, p, "a", "b")
		synctest.Wait()
		all := p.Finished(nil)
		require.Len(t, all, 2)
		require.Equal(t, execute.ErrGoexit, all[0].Run.Err)
		require.NoError(t, all[1].Run.Err)
	})
}
