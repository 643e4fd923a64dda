// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// shared is a row with a status of each of several reconcilers.
type shared struct {
	ID       uint64
	Value    int
	Statuses reconciler.StatusSet
}

func (s *shared) Clone() *shared { c := *s; return &c }

func (s *shared) TableHeader() []string { return []string{"ID", "Statuses"} }
func (s *shared) TableRow() []string    { return []string{fmt.Sprint(s.ID), s.Statuses.String()} }

var sharedIndex = statedb.Index[*shared, uint64]{
	Name:       "id",
	FromObject: func(s *shared) index.KeySet { return index.NewKeySet(index.Uint64(s.ID)) },
	FromKey:    index.Uint64,
	Unique:     true,
}

// sharedTarget counts the updates of each row. Each update takes the time of takes.
type sharedTarget struct {
	takes time.Duration
	mu    sync.Mutex
	calls map[uint64]int
}

func (x *sharedTarget) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, s *shared) error {
	time.Sleep(x.takes)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls[s.ID]++
	return nil
}

func (x *sharedTarget) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *shared) error {
	return nil
}

func (x *sharedTarget) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*shared, statedb.Revision]) error {
	return nil
}

func (x *sharedTarget) has() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.calls)
}

// sharedBatches operates a sharedTarget in batches.
type sharedBatches struct{ *sharedTarget }

func (b sharedBatches) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*shared]) {
	for i, e := range batch {
		batch[i].Result = b.Update(ctx, txn, e.Revision, e.Object)
	}
}

func (b sharedBatches) DeleteBatch(context.Context, statedb.ReadTxn, []reconciler.BatchEntry[*shared]) {
}

// sharedEnv has a table that other writers change beside the reconciler under test.
type sharedEnv struct {
	// release lets the reconcilers begin.
	release func()
	*testing.T
	db    *statedb.DB
	table statedb.RWTable[*shared]
}

// start runs a reconciler with its own status, and returns its loop and its target. The loop stops with
// the test.
func (e *sharedEnv) start(name string, takes time.Duration, batches bool, opts ...reconciler.Option) (*reconciler.Loop[*shared], *sharedTarget) {
	x := &sharedTarget{takes: takes, calls: map[uint64]int{}}
	cfg := reconciler.Config[*shared]{
		DB: e.db, Table: e.table, Clone: (*shared).Clone,
		SetStatus: func(s *shared, st reconciler.Status) *shared {
			s.Statuses = s.Statuses.Set(name, st)
			return s
		},
		GetStatus: func(s *shared) reconciler.Status { return s.Statuses.Get(name) },
		Options:   append(exact(reconciler.WithName(name), reconciler.WithoutPruning()), opts...),
	}
	if batches {
		cfg.BatchOperations = sharedBatches{x}
	} else {
		cfg.Operations = x
	}
	loop, err := reconciler.New(cfg)
	require.NoError(e, err)
	reconcilertest.Go(e, loop.Run)
	return loop, x
}

func (e *sharedEnv) write(f func(wtxn statedb.WriteTxn)) statedb.Revision {
	wtxn := e.db.WriteTxn(e.table)
	f(wtxn)
	return e.table.Revision(wtxn.Commit())
}

// touch writes every row again without changing its statuses.
func (e *sharedEnv) touch() {
	e.write(func(wtxn statedb.WriteTxn) {
		for row := range e.table.All(wtxn) {
			_, _, err := e.table.Insert(wtxn, row.Clone())
			require.NoError(e, err)
		}
	})
}

// meddle calls f at an interval until the test ends.
func (e *sharedEnv) meddle(every time.Duration, f func(e *sharedEnv)) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-e.Context().Done():
				return
			case <-time.After(every):
				f(e)
			}
		}
	}()
	e.Cleanup(func() { <-ended })
}

// waitsFor returns each kind of wait for a revision by its name. until must be the revision of the
// table.
func waitsFor(loop *reconciler.Loop[*shared], until statedb.Revision) map[string]func(context.Context) error {
	wait := func(m reconciler.Milestone) func(context.Context) error {
		return func(ctx context.Context) error { _, err := loop.Wait(ctx, until, m); return err }
	}
	return map[string]func(context.Context) error{
		"Wait for Applied":   wait(reconciler.Applied),
		"Wait for Attempted": wait(reconciler.Attempted),
		"WaitAll":            func(ctx context.Context) error { _, err := loop.WaitAll(ctx, reconciler.Applied); return err },
		"WaitUntilReconciled": func(ctx context.Context) error {
			_, _, err := loop.WaitUntilReconciled(ctx, until)
			return err
		},
	}
}

// meddlers are the writers that move rows past the awaited revision without asking for another
// operation. meddle is called at the interval every; nil stands for another reconciler.
var meddlers = []struct {
	name   string
	every  time.Duration
	meddle func(e *sharedEnv)
}{
	{"another reconciler", 0, nil},
	{"a third party", 700 * time.Millisecond, (*sharedEnv).touch},
	{"a fast third party", 30 * time.Millisecond, (*sharedEnv).touch},
}

// testShared runs a test of 10 rows, each of which takes a second, with every combination of writer,
// kind of operations, number of workers, round size and kind of wait.
func testShared(t *testing.T, test func(e *sharedEnv, slow *reconciler.Loop[*shared], x *sharedTarget, until statedb.Revision, kind string)) {
	for _, who := range meddlers {
		for _, batches := range []bool{false, true} {
			for _, workers := range []int{1, 2} {
				for _, size := range []int{4, 1000} {
					for _, kind := range slices.Sorted(kindsOfWaits()) {
						t.Run(fmt.Sprintf("%s, %s, batches %t, workers %d, round size %d", kind, who.name, batches, workers, size), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) {
								e := &sharedEnv{T: t, db: reconcilertest.NewDB(t)}
								var err error
								e.table, err = statedb.NewTable(e.db, "shared", sharedIndex)
								require.NoError(t, err)
								slow, x := e.start("slow", time.Second, batches,
									reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(size, nil))
								// The other writers write the rows after the wait has begun and before
								// the main cursor reads the table.
								slow.Pause()
								e.release = slow.Resume
								if who.meddle == nil {
									fast, _ := e.start("fast", 0, false)
									fast.Pause()
									e.release = func() {
										fast.Resume()
										synctest.Wait()
										slow.Resume()
									}
								} else {
									e.meddle(who.every, who.meddle)
								}
								synctest.Wait()
								until := e.write(func(wtxn statedb.WriteTxn) {
									for id := range uint64(sharedRows) {
										_, _, err := e.table.Insert(wtxn, &shared{ID: id, Statuses: reconciler.NewStatusSet()})
										require.NoError(e, err)
									}
								})
								test(e, slow, x, until, kind)
							})
						})
					}
				}
			}
		}
	}
}

const sharedRows = 10

func kindsOfWaits() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for kind := range waitsFor(nil, 0) {
			if !yield(kind) {
				return
			}
		}
	}
}

// All rows that were pending when a wait began are applied when it ends, even if other writers have
// written them meanwhile with an unchanged status.
func TestWaitEndsWithEveryRowAppliedDespiteOtherWriters(t *testing.T) {
	testShared(t, func(e *sharedEnv, slow *reconciler.Loop[*shared], x *sharedTarget, until statedb.Revision, kind string) {
		// The main cursor gets at least a quarter of the operations.
		ctx, cancel := context.WithTimeout(e.Context(), mainShare*sharedRows*time.Second)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- waitsFor(slow, until)[kind](ctx) }()
		synctest.Wait()
		e.release()
		require.NoError(e, <-ended)
		require.Equal(e, sharedRows, x.has(), "rows in the target when the wait ended")
		for id, n := range x.calls {
			require.Equal(e, 1, n, "updates of row %d: its status kept its ID, so one is enough", id)
		}
	})
}
