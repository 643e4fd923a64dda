// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// TestInvariantsOfARandomWalk checks the numbered invariants of docs/DESIGN.md section 6 on random
// histories. A history has writers, a target that fails, blocks, hangs and panics, a second
// reconciler of the same objects, a third party that rewrites them, pauses, prunes, refreshes and changed
// settings. Each reconciler has its ledger in the rows or beside the table, 1, 2 or 8 workers, and single
// operations, batches or rounds. A quarter of the histories is stopped in the middle.
func TestInvariantsOfARandomWalk(t *testing.T) {
	first := rand.Uint64()
	for i := range uint64(walks) {
		seed := first + i
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWalk(t, seed).run() })
		})
	}
}

// The walks have more than 10,000 steps in total.
const (
	walks = 72
	steps = 150
)

// walk is one random history, with the state that it must lead to.
type walk struct {
	*env
	// rng is for the writer. Each target has its own source in rngs, so that a seed determines the
	// actions of each party, but not how they interleave.
	rng   *rand.Rand
	mu    sync.Mutex // of rngs and applied: workers share a target
	rngs  map[*target]*rand.Rand
	other *target

	healed, initialized atomic.Bool

	// wanted is the desired state of the writers: value by ID.
	wanted map[uint64]int
	// written is the revision of the last write by the walk itself.
	written statedb.Revision
	// removed is the revision of the last deletion of an ID.
	removed map[uint64]statedb.Revision
	// applied is the highest revision of a started operation, by target and ID.
	applied  map[*target]map[uint64]statedb.Revision
	markInit func(statedb.WriteTxn)

	// gate is the channel of blocked operations; it is closed and replaced at random.
	gate chan struct{}
	// loops are both reconcilers. serial: at most one object of a group is in flight. busy counts
	// the objects in flight by target and group.
	loops  []*walkLoop
	serial bool
	// calls are the goroutines that ask a loop for something.
	calls sync.WaitGroup
	busy  map[*target]map[uint64]int
}

// patience is the deadline of operations in a walk.
const patience = 20 * time.Millisecond

// groupOf returns the group of an object, if the walk serialises groups.
func groupOf(id uint64) uint64 { return id % 3 }

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{
		env: newEnv(t), rng: rand.New(rand.NewPCG(seed, 0)), other: newTarget(),
		wanted: map[uint64]int{}, removed: map[uint64]statedb.Revision{},
		applied: map[*target]map[uint64]statedb.Revision{}, rngs: map[*target]*rand.Rand{},
		gate: make(chan struct{}), busy: map[*target]map[uint64]int{},
	}
	w.write(func(wtxn statedb.WriteTxn) { w.markInit = w.table.RegisterInitializer(wtxn, "walk") })
	for i, x := range []*target{w.target, w.other} {
		w.rngs[x] = rand.New(rand.NewPCG(seed, uint64(1+i)))
		w.applied[x] = map[uint64]statedb.Revision{}
		w.busy[x] = map[uint64]int{}
		x.before = func(ctx context.Context, c call) { w.started(ctx, x, c) }
	}
	options := []reconciler.Option{
		reconciler.WithRoundLimits(1+w.rng.IntN(12), nil),
		reconciler.WithRetry(10*time.Millisecond, time.Second),
		reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter, s.Timeout, s.BlockedRecheck = 0.1, patience, time.Second }),
		reconciler.WithPruning(time.Second),
		reconciler.WithRefreshing(5*time.Second, nil),
	}
	if w.rng.IntN(3) == 0 {
		options = append(options, reconciler.WithBreaker(reconciler.Breaker{Failures: 3}))
	}
	w.serial = w.rng.IntN(3) == 0
	w.startLoop(options, w.target, "reconcile", (*object).SetStatus, (*object).GetStatus)
	options = append(options, reconciler.WithName("other"))
	if w.rng.IntN(2) == 0 {
		// No prune repairs a deletion that was forgotten.
		options = append(options, reconciler.WithoutPruning())
	}
	w.startLoop(options, w.other, "reconcile-other", (*object).SetOther, (*object).GetOther)
	return w
}

// startLoop starts a reconciler whose ledger is in the rows or beside the table.
func (w *walk) startLoop(options []reconciler.Option, x *target, health string, set func(*object, reconciler.Status) *object, get func(*object) reconciler.Status) {
	l := &walkLoop{w: w, target: x, done: map[version]bool{}, health: w.Health.Scope(health)}
	cfg := w.configure(options, x, set, get)
	if l.isBeside = w.rng.IntN(2) == 0; l.isBeside {
		beside(w.env, &cfg)
	}
	l.single = cfg.BatchOperations == nil && cfg.RoundOperations == nil
	w.Logf("%s: ledger beside the table: %t", health, l.isBeside)
	x.deciding(func(c call) error {
		err := w.decide(x, c)
		l.noteDone(c, err)
		return err
	})
	l.loop = w.start(cfg)
	l.stop, w.env.stop = w.env.stop, func() {}
	w.loops = append(w.loops, l)
}

func (w *walk) configure(options []reconciler.Option, x *target, set func(*object, reconciler.Status) *object, get func(*object) reconciler.Status) reconciler.Config[*object] {
	cfg := w.config(append(options, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = w.workers() }))...)
	cfg.Operations, cfg.SetStatus, cfg.GetStatus = x, set, get
	if w.serial {
		cfg.SerialBy = func(o *object) string { return strconv.FormatUint(groupOf(o.ID), 10) }
	}
	switch w.rng.IntN(3) {
	case 0:
		cfg.BatchOperations = batchTarget{x}
	case 1:
		cfg.RoundOperations = roundTarget{x}
	}
	return cfg
}

// write changes the table in one transaction.
func (w *walk) write(f func(wtxn statedb.WriteTxn)) { w.written = w.env.write(f) }

// workers draws the number of workers.
func (w *walk) workers() int { return []int{1, 2, 8}[w.rng.IntN(3)] }

// decide makes operations fail at random until the walk is healed, on some objects more often than
// on others.
func (w *walk) decide(x *target, c call) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	rng := w.rngs[x]
	if w.healed.Load() {
		return nil
	}
	outcomes := 12
	if c.id%3 == 0 {
		outcomes = 6
	}
	switch rng.IntN(outcomes) {
	case 0, 1, 2:
		return errors.New("no")
	case 3:
		return fmt.Errorf("no %d", rng.IntN(3))
	case 4:
		return reconciler.RetryAfter(errors.New("later"), 20*time.Millisecond)
	case 5:
		if rng.IntN(2) == 0 {
			return reconciler.Requeue(50 * time.Millisecond)
		}
		return fmt.Errorf("not yet: %w", reconciler.Blocked("gate", w.gate))
	}
	return nil
}

// started checks an operation at its start, and makes some operations slow.
func (w *walk) started(ctx context.Context, x *target, c call) {
	if c.op == "prune" {
		assert.True(w, w.initialized.Load(), "9: prune before the table was initialised")
		return
	}
	w.mu.Lock()
	assert.GreaterOrEqual(w, c.revision, w.applied[x][c.id], "2: %s(%d) started on an older version", c.op, c.id)
	w.applied[x][c.id] = c.revision
	w.busy[x][groupOf(c.id)]++
	assert.True(w, !w.serial || w.busy[x][groupOf(c.id)] == 1, "%s(%d) started beside another operation of its group", c.op, c.id)
	how := w.rngs[x].IntN(24)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.busy[x][groupOf(c.id)]--
		w.mu.Unlock()
	}()
	switch {
	case how < 3:
		time.Sleep(3 * time.Millisecond)
	case w.healed.Load():
	case how == 3:
		panic("out of cheese")
	case how == 4:
		<-ctx.Done()
	case how == 5:
		// The operation ignores its deadline for so long that it is stuck.
		time.Sleep(5 * patience)
	}
}

func (w *walk) run() {
	early := w.rng.IntN(4) == 0
	for range steps {
		w.step()
		w.requireDoneOnlyIfApplied()
	}
	if early {
		w.endEarly()
		return
	}
	if !w.initialized.Load() {
		w.initialize()
	}
	w.healed.Store(true)
	refreshing := w.rng.IntN(2) == 0
	for _, l := range w.loops {
		l.loop.Resume()
		if !refreshing {
			// No refresh repairs a change that was forgotten.
			l.stopRefreshing()
		}
	}
	w.open()
	w.keepBusy()

	// 1: the writes have stopped and the target works.
	w.pass(2 * time.Minute)
	w.calls.Wait()
	w.checkPruned()
	for _, l := range w.loops {
		l.stopRefreshing()
	}
	w.pass(10 * time.Second)
	w.requireDoneOnlyIfApplied()
	w.requireIdle()
	for _, l := range w.loops {
		l.requireEmpty()
	}
	w.stop()

	got := map[uint64]int{}
	for o := range w.table.All(w.db.ReadTxn()) {
		got[o.ID] = o.Value
		require.Equal(w, note(o.ID, o.Value), o.Note, "5: object %d", o.ID)
	}
	require.Equal(w, w.wanted, got, "5: the table equals the writes")
	for _, l := range w.loops {
		l.requireConverged(w.wanted)
	}
	w.requireTableNotWritten()
}

func note(id uint64, value int) string { return fmt.Sprintf("object %d is %d", id, value) }

func (w *walk) initialize() {
	w.initialized.Store(true)
	w.write(w.markInit)
}

// open releases the blocked operations.
func (w *walk) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.gate)
	w.gate = make(chan struct{})
}

// meddle pauses, resumes or reconfigures one of the reconcilers.
func (w *walk) meddle() {
	l := w.loops[w.rng.IntN(len(w.loops))].loop
	switch w.rng.IntN(5) {
	case 0:
		l.Pause()
	case 1:
		odd := w.rng.Uint64N(2)
		l.PauseObjects(func(o *object) bool { return o.ID%2 == odd })
	case 2:
		workers := w.workers()
		require.NoError(w, l.Reconfigure(func(s *reconciler.Settings) { s.Concurrency = workers }))
	default:
		l.Resume()
	}
}

// touch rewrites an object unchanged, as a third party does.
func (w *walk) touch(wtxn statedb.WriteTxn, id uint64) {
	o, _, found := w.table.Get(wtxn, idIndex.Query(id))
	if found {
		_, _, err := w.table.Insert(wtxn, o.Clone())
		require.NoError(w, err)
	}
}

// step does one random thing.
func (w *walk) step() {
	id := uint64(1 + w.rng.IntN(10))
	switch w.rng.IntN(16) {
	case 15:
		w.runAgain(id)
	case 12:
		w.meddle()
	case 13:
		w.open()
	case 14:
		w.write(func(wtxn statedb.WriteTxn) { w.touch(wtxn, id) })
	case 0, 1, 2, 3:
		w.write(func(wtxn statedb.WriteTxn) { w.want(wtxn, id) })
	case 4, 5:
		w.write(func(wtxn statedb.WriteTxn) { w.unwant(wtxn, id) })
	case 6:
		w.write(func(wtxn statedb.WriteTxn) { w.unwant(wtxn, id); w.want(wtxn, id) })
	case 7:
		w.write(func(wtxn statedb.WriteTxn) { w.want(wtxn, id); w.unwant(wtxn, id) })
	case 8:
		w.loop.Prune()
	case 9:
		if !w.initialized.Load() && w.rng.IntN(4) == 0 {
			w.initialize()
		}
	case 10:
		// An orphan appears in the target, for a prune to find.
		w.target.mu.Lock()
		w.target.state[1000+id] = 1
		w.target.mu.Unlock()
	default:
		time.Sleep(time.Duration(w.rng.IntN(30)) * time.Millisecond)
	}
	if w.rng.IntN(3) == 0 {
		synctest.Wait()
	}
}

func (w *walk) want(wtxn statedb.WriteTxn, id uint64) {
	value := w.rng.IntN(1000)
	_, _, err := w.table.Insert(wtxn, &object{
		ID: id, Value: value, Note: note(id, value),
		Status: reconciler.StatusPending(), Other: reconciler.StatusPending(),
	})
	require.NoError(w, err)
	w.wanted[id] = value
}

func (w *walk) unwant(wtxn statedb.WriteTxn, id uint64) {
	_, _, err := w.table.Delete(wtxn, &object{ID: id})
	require.NoError(w, err)
	w.removed[id] = w.table.Revision(wtxn)
	delete(w.wanted, id)
}

// checkPruned checks that prunes removed only objects that had been deleted from the table or had
// never been in it.
func (w *walk) checkPruned() {
	w.target.mu.Lock()
	defer w.target.mu.Unlock()
	for _, id := range w.target.pruned {
		require.True(w, id > 1000 || w.removed[id] > 0, "9: pruned %d, which was never deleted", id)
	}
}

// 5: a status write never brings a deleted object back.
func TestDeletedObjectIsNotBroughtBackByItsStatus(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.before = func(context.Context, call) { time.Sleep(time.Second) }
		e.put(1, 1)
		e.pass(100 * time.Millisecond)
		e.remove(1)
		e.pass(10 * time.Second)
		require.Nil(e, e.get(1))
		require.Equal(e, []string{"update(1)", "delete(1)"}, e.target.calls())
	}, nil)
}

// 2: a retry applies the current row, even if the row was written without a new status ID.
func TestRetryAppliesTheCurrentVersion(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		synctest.Wait()
		e.write(func(wtxn statedb.WriteTxn) {
			o := e.get(1).Clone()
			o.Value = 2
			_, _, err := e.table.Insert(wtxn, o)
			require.NoError(e, err)
		})
		e.target.failing("")
		e.pass(time.Second)
		e.eachDone()
	}, nil)
}

// 3: a failed delete is retried until it succeeds. The retries end when the object is back.
func TestDeleteIsRetriedUntilTheObjectIsBack(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1, 2)
		synctest.Wait()
		e.target.failing("no")
		e.remove(1, 2)
		e.pass(250 * time.Millisecond)
		e.target.take()
		e.target.failing("")
		e.put(2, 1)
		e.pass(time.Minute)
		require.Equal(e, []string{"update(1)", "delete(2)"}, e.target.calls())
		e.eachDone()
	}, nil)
}

// 3: the retries of a deletion also end when the object is back with the status Done.
func TestDeleteEndsWhenTheObjectIsBackAsDone(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		synctest.Wait()
		e.target.failing("no")
		e.remove(1)
		synctest.Wait()
		e.target.take()
		e.write(func(wtxn statedb.WriteTxn) {
			_, _, err := e.table.Insert(wtxn, &object{ID: 1, Value: 1, Status: reconciler.StatusDone()})
			require.NoError(e, err)
		})
		e.pass(time.Minute)
		require.Empty(e, e.target.calls())
		level, _, _ := e.health.Now()
		require.Equal(e, cell.StatusOK, level)
	}, nil)
}

// A deletion does not wait for the backoff of the failed updates of its object.
func TestDeletionDoesNotInheritTheWait(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.failing("no")
		e.put(1, 1)
		e.pass(10 * time.Minute)
		e.target.failing("")
		e.target.take()
		e.remove(1)
		synctest.Wait()
		require.Equal(e, []string{"delete(1)"}, e.target.calls())
	}, nil, reconciler.WithRetry(time.Second, time.Hour))
}

// 7: the number of keys that a round reads does not depend on the size of the table.
func TestRoundCostDoesNotDependOnTheTable(t *testing.T) {
	reads := func(size uint64) (n int64) {
		inBubble(t, func(e *env) {
			e.put(1, ids(1000, 1000+size)...)
			e.pass(time.Second)
			counted.Store(0)
			for id := range uint64(20) {
				e.put(1, id)
				synctest.Wait()
				e.remove(id)
				synctest.Wait()
			}
			n = counted.Load()
		}, countReads)
		return n
	}
	few := reads(1)
	require.Positive(t, few)
	require.Equal(t, few, reads(20_000))
}

// 7: an idle loop costs nothing: it reads no keys and reports no health.
func TestIdleLoopReadsNothing(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, ids(1, 100)...)
		synctest.Wait()
		counted.Store(0)
		reports := len(e.health.History())
		e.pass(24 * time.Hour)
		require.Zero(e, counted.Load())
		require.Len(e, e.health.History(), reports)
	}, countReads, reconciler.WithoutPruning())
}

// 8: an idle loop does not keep replaced objects alive, in its own table or in another.
func TestIdleLoopKeepsNothingOfOtherTablesAlive(t *testing.T) {
	inBubble(t, func(e *env) {
		others, err := statedb.NewTable(e.db, "others", idIndex)
		require.NoError(e, err)
		write := func(o *object) {
			wtxn := e.db.WriteTxn(others)
			_, _, err := others.Insert(wtxn, o)
			require.NoError(e, err)
			wtxn.Commit()
		}
		old := &object{ID: 1}
		kept := weak.Make(old)
		write(old)
		old = nil
		e.put(1, 1)
		e.pass(time.Millisecond)
		// Two writes, since statedb remembers the transaction before the last one.
		write(&object{ID: 1})
		write(&object{ID: 1})
		runtime.GC()
		require.Nil(e, kept.Value())
	}, nil)
}

// 9: a prune waits until the table is initialised, even if the caller requested it, and then runs.
func TestPruneWaitsForTheInitialisers(t *testing.T) {
	for _, asked := range []bool{false, true} {
		for _, periodic := range []bool{false, true} {
			t.Run(fmt.Sprintf("asked %t, periodic %t", asked, periodic), func(t *testing.T) {
				var markInit func(statedb.WriteTxn)
				options := []reconciler.Option{reconciler.WithoutPruning()}
				if periodic {
					options = []reconciler.Option{reconciler.WithPruning(time.Hour)}
				}
				inBubble(t, func(e *env) {
					e.put(1, 1)
					if asked {
						e.loop.Prune()
					}
					e.pass(10 * time.Hour)
					require.Equal(e, []string{"update(1)"}, e.target.calls())
					e.write(markInit)
					synctest.Wait()
					if asked || periodic {
						require.Equal(e, []string{"prune(1)"}, e.target.calls())
					} else {
						require.Empty(e, e.target.calls())
					}
					e.pass(3*time.Hour + time.Minute)
					if periodic {
						require.Equal(e, []string{"prune(1)", "prune(1)", "prune(1)"}, e.target.calls())
					} else {
						require.Empty(e, e.target.calls())
					}
				}, func(e *env, _ *reconciler.Config[*object]) {
					e.write(func(wtxn statedb.WriteTxn) { markInit = e.table.RegisterInitializer(wtxn, "init") })
				}, options...)
			})
		}
	}
}

// 10: a stop commits what has finished, cancels the context of what runs, and starts nothing more.
func TestStopCommitsWhatWasFinished(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.before = func(ctx context.Context, c call) {
			if c.id == 3 {
				<-ctx.Done()
			}
		}
		e.target.deciding(func(c call) error {
			if c.id == 3 {
				return context.Canceled
			}
			return nil
		})
		e.put(1, ids(1, 5)...)
		e.pass(10 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindPending, e.kind(1))
		e.stop()
		require.Equal(e, []string{"update(1)", "update(2)", "update(3) fail"}, e.target.calls())
		for id, kind := range map[uint64]reconciler.StatusKind{
			1: reconciler.StatusKindDone, 2: reconciler.StatusKindDone, 3: reconciler.StatusKindPending,
			4: reconciler.StatusKindPending, 5: reconciler.StatusKindPending,
		} {
			require.Equal(e, kind, e.kind(id), "object %d", id)
		}
	}, nil)
}

// The longest possible interval does not overflow into a prune that is due at once.
func TestHugePruneIntervalIsNotDueAtOnce(t *testing.T) {
	inBubble(t, func(e *env) {
		e.pass(time.Hour)
		e.loop.Prune()
		e.pass(time.Hour)
		require.Equal(e, []string{"prune(0)"}, e.target.calls())
	}, nil, reconciler.WithPruning(math.MaxInt64), reconciler.WithRefreshing(math.MaxInt64, nil))
}
