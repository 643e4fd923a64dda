// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	ledgers "github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// TestStatusBesideIsTrueAtEveryCommit compares [reconciler.Loop.Status] of every row, after every
// commit of any table, with a model that knows what the operations returned, on random histories with
// one to three loops with the ledger beside the table, and sometimes one with the ledger in the row. At
// the end everything has to be applied, with nothing left in the tables of the ledgers.
//
// STATEKEEL_BESIDE_WALKS sets the number of walks; 60 make ten million checks. If STATEKEEL_BESIDE_WALK
// is set, only the walk with that seed runs.
func TestStatusBesideIsTrueAtEveryCommit(t *testing.T) {
	first, walks := rand.Uint64()>>1, uint64(4)
	for name, value := range map[string]*uint64{"STATEKEEL_BESIDE_WALKS": &walks, "STATEKEEL_BESIDE_WALK": &first} {
		if text := os.Getenv(name); text != "" {
			var err error
			*value, err = strconv.ParseUint(text, 10, 64)
			require.NoError(t, err)
		}
	}
	if os.Getenv("STATEKEEL_BESIDE_WALK") != "" {
		walks = 1
	}
	checks, ahead := 0, 0
	for i := range walks {
		seed := first + i
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newBesideWalk(t, seed)
				w.run()
				for _, l := range w.loops {
					checks += l.checks
					ahead += l.doneAhead
				}
			})
		})
	}
	t.Logf("%d statuses were checked, %d of them were Done above the mark", checks, ahead)
}

// besideWalk is one random history of a table with several loops.
type besideWalk struct {
	*testing.T
	env   *reconcilertest.Env[*object]
	rng   *rand.Rand
	keys  uint64
	loops []*besideLoop
	// inRow is a loop that writes its status into the rows; nil if there is none.
	inRow  *reconciler.Loop[*object]
	target *besideTarget
	healed atomic.Bool
	// removed has the revision at which each key was removed last.
	removed sync.Map
	// waits are the goroutines that wait for something.
	waits      sync.WaitGroup
	violations atomic.Int32
}

// besideLoop is a loop with the ledger beside the table.
type besideLoop struct {
	*besideTarget
	w    *besideWalk
	cfg  reconciler.Config[*object]
	loop *reconciler.Loop[*object]
	stop func()
	// restarted: deletions may have been lost with the former loop.
	restarted bool
}

// commits calls a function after each commit.
type commits struct {
	*statedb.ExpVarMetrics
	f func()
}

func (c *commits) WriteTxnDuration(string, []string, time.Duration) { c.f() }

func newBesideWalk(t *testing.T, seed uint64) *besideWalk {
	w := &besideWalk{T: t, rng: rand.New(rand.NewPCG(seed, 0))}
	rng := w.rng
	w.keys = pick[uint64](rng, 5, 20, 80, 200)
	hook := &commits{ExpVarMetrics: statedb.NewExpVarMetrics(false), f: w.check}
	w.env = reconcilertest.New(t, func(db *statedb.DB) (statedb.RWTable[*object], error) {
		return statedb.NewTable(db, "objects", idIndex)
	}, statedb.WithMetrics(hook))
	for i := range pick(rng, 1, 1, 1, 1, 2, 3) {
		l := &besideLoop{w: w, besideTarget: w.newTarget(fmt.Sprintf("loop-%d", i))}
		l.cfg = w.configure(l.besideTarget)
		w.loops = append(w.loops, l)
	}
	for _, l := range w.loops {
		l.start()
	}
	if rng.IntN(5) == 0 {
		w.target = w.newTarget("row")
		cfg := w.configure(w.target)
		cfg.Clone, cfg.SetStatus, cfg.GetStatus = (*object).Clone, (*object).SetStatus, (*object).GetStatus
		loop, err := reconciler.New(w.env.Config(cfg))
		require.NoError(t, err)
		w.inRow = loop
		reconcilertest.Go(t, loop.Run)
	}
	return w
}

func (w *besideWalk) newTarget(name string) *besideTarget {
	rng := w.rng
	return &besideTarget{
		name: name, violate: w.violate, healed: &w.healed, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)),
		takes:   pick(rng, 0, 0, 20*time.Microsecond, 100*time.Microsecond, 500*time.Microsecond, 3*time.Millisecond),
		failing: pick(rng, 0, 20, 100, 300), slow: pick(rng, 0, 2, 10, 50),
		gate: make(chan struct{}), state: map[uint64]int{}, keys: map[uint64]*attempted{},
	}
}

// configure draws a configuration of a loop.
func (w *besideWalk) configure(x *besideTarget) reconciler.Config[*object] {
	rng := w.rng
	workers, size, groups := pick(rng, 1, 1, 2, 8), pick(rng, 3, 10, 1000), pick[uint64](rng, 0, 0, 0, 3, 20)
	options := exact(reconciler.WithName(x.name), reconciler.WithSettings(func(s *reconciler.Settings) {
		s.Concurrency, s.RoundSize, s.Timeout = workers, size, patience
		s.MinBackoff, s.MaxBackoff = pick(rng, time.Millisecond, 10*time.Millisecond, 40*time.Millisecond), time.Second
		s.BlockedRecheck = pick(rng, 0, 100*time.Millisecond, time.Minute)
		s.RefreshInterval = pick(rng, 0, 0, 20*time.Millisecond, time.Second)
		s.RefreshLimiter = nil
		if rng.IntN(6) == 0 {
			s.OperationLimiter = rate.NewLimiter(2000, 1+rng.IntN(20))
		}
		if rng.IntN(6) == 0 {
			s.MaxRetries = 2
		}
	}))
	if rng.IntN(4) == 0 {
		options = append(options, reconciler.WithBreaker(reconciler.Breaker{Failures: 3}))
	}
	if rng.IntN(3) > 0 {
		options = append(options, reconciler.WithoutPruning())
	}
	cfg := reconciler.Config[*object]{Operations: besideOperations{x}, Options: options}
	if groups > 0 {
		cfg.SerialBy = func(o *object) string { return strconv.FormatUint(o.ID%groups, 10) }
	}
	x.parallel = workers > 1
	switch rng.IntN(4) {
	case 0:
		cfg.BatchOperations, x.batched = besideBatches{x}, true
	case 1:
		cfg.RoundOperations, x.batched = besideRounds{x}, true
	}
	w.Logf("%s: %d keys, %d workers, round %d, %d groups, batched %t, takes %s, failing %d, slow %d",
		x.name, w.keys, workers, size, groups, x.batched, x.takes, x.failing, x.slow)
	return cfg
}

// start makes the loop and runs it.
func (l *besideLoop) start() {
	loop, err := reconciler.New(l.w.env.Config(l.cfg))
	require.NoError(l.w, err)
	txn := l.w.env.DB.ReadTxn()
	marks := l.w.env.DB.GetTable(txn, l.name+"-mark").(statedb.Table[*ledgers.Mark])
	l.loop = loop
	l.use(loop, marks)
	l.stop = reconcilertest.Go(l.w, loop.Run)
}

// restart replaces the loop by a new one.
func (l *besideLoop) restart() {
	l.stopping()
	l.stop()
	l.forget()
	l.start()
	l.restarted = true
}

// violate fails the test. Only the first violations are reported.
func (w *besideWalk) violate(format string, args ...any) {
	if w.violations.Add(1) < 5 {
		w.Errorf("%s: "+format, append([]any{clock(time.Now())}, args...)...)
	}
}

// check checks all loops. It is called after each commit.
func (w *besideWalk) check() {
	if w.env == nil {
		return
	}
	for _, l := range w.loops {
		l.check(w.env.DB, w.env.Table)
	}
}

func (w *besideWalk) put(wtxn statedb.WriteTxn, id uint64) {
	_, _, err := w.env.Table.Insert(wtxn, &object{ID: id, Value: w.rng.IntN(1000), Status: reconciler.StatusPending()})
	require.NoError(w, err)
}

func (w *besideWalk) remove(wtxn statedb.WriteTxn, id uint64) {
	_, _, err := w.env.Table.Delete(wtxn, &object{ID: id})
	require.NoError(w, err)
	w.removed.Store(id, w.env.Table.Revision(wtxn))
}

func (w *besideWalk) id() uint64 { return 1 + w.rng.Uint64N(w.keys) }

// ids returns some random keys.
func (w *besideWalk) someObjects() (objs []*object, keys []string) {
	for range 1 + w.rng.IntN(4) {
		id := w.id()
		objs, keys = append(objs, &object{ID: id}), append(keys, strconv.FormatUint(id, 10))
	}
	return objs, keys
}

const besideSteps = 120

func (w *besideWalk) run() {
	for range besideSteps {
		w.step()
	}
	w.healed.Store(true)
	if w.inRow != nil {
		w.inRow.Resume()
		w.target.open()
		// Its refreshes write the rows again and again.
		require.NoError(w, w.inRow.Reconfigure(func(s *reconciler.Settings) { s.RefreshInterval = 0 }))
	}
	for _, l := range w.loops {
		l.loop.Resume()
		l.open()
	}
	time.Sleep(time.Minute)
	for _, l := range w.loops {
		l.open()
		if l.restarted {
			l.loop.Prune()
		}
		_, err := l.loop.Retry(w.Context())
		require.NoError(w, err)
	}
	if w.inRow != nil {
		w.target.open()
		_, err := w.inRow.Retry(w.Context())
		require.NoError(w, err)
	}
	time.Sleep(2 * time.Minute)
	w.waits.Wait()
	for _, l := range w.loops {
		l.stop()
		l.converged()
	}
}

// step does one random thing.
func (w *besideWalk) step() {
	rng, l := w.rng, w.loops[w.rng.IntN(len(w.loops))]
	write := w.env.Write
	switch rng.IntN(30) {
	case 0, 1, 2, 3, 4, 5:
		write(func(wtxn statedb.WriteTxn) {
			for range 1 + rng.IntN(5) {
				w.put(wtxn, w.id())
			}
		})
	case 6, 7:
		write(func(wtxn statedb.WriteTxn) {
			for range 1 + rng.IntN(3) {
				w.remove(wtxn, w.id())
			}
		})
	case 8:
		id := w.id()
		write(func(wtxn statedb.WriteTxn) { w.remove(wtxn, id); w.put(wtxn, id) })
	case 9:
		id := w.id()
		write(func(wtxn statedb.WriteTxn) { w.put(wtxn, id); w.remove(wtxn, id) })
	case 10:
		id := w.id()
		write(func(wtxn statedb.WriteTxn) { w.remove(wtxn, id) })
		w.pause()
		write(func(wtxn statedb.WriteTxn) { w.put(wtxn, id) })
	case 11, 12:
		// A backlog, and fresh changes meanwhile.
		write(func(wtxn statedb.WriteTxn) {
			for id := range w.keys {
				w.put(wtxn, id+1)
			}
		})
		for range rng.IntN(40) {
			write(func(wtxn statedb.WriteTxn) {
				for range 1 + rng.IntN(3) {
					if rng.IntN(4) == 0 {
						w.remove(wtxn, w.id())
					} else {
						w.put(wtxn, w.id())
					}
				}
			})
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
		}
	case 13:
		l.loop.Pause()
	case 14:
		odd := rng.Uint64N(2)
		l.loop.PauseObjects(func(o *object) bool { return o.ID%2 == odd })
	case 15:
		_, keys := w.someObjects()
		// Another pause may be in force.
		_ = l.loop.PauseOnly(keys...)
	case 16, 17, 18:
		l.loop.Resume()
	case 19, 20:
		l.open()
		if w.inRow != nil {
			w.target.open()
		}
	case 21:
		workers := pick(rng, 1, 8)
		l.mu.Lock()
		l.parallel = l.parallel && workers > 1
		l.mu.Unlock()
		require.NoError(w, l.loop.Reconfigure(func(s *reconciler.Settings) { s.Concurrency = workers }))
	case 22, 23, 24:
		w.call(l)
	case 25, 26:
		w.await(l)
	case 27:
		if rng.IntN(4) == 0 {
			l.restart()
		}
	default:
		w.pause()
	}
	if rng.IntN(2) == 0 {
		w.pause()
	}
	if rng.IntN(4) == 0 {
		synctest.Wait()
		w.check()
	}
}

// pause lets a little time pass, or none.
func (w *besideWalk) pause() {
	time.Sleep(pick(w.rng, 0, 50*time.Microsecond, time.Millisecond, 4*time.Millisecond, 11*time.Millisecond, 40*time.Millisecond))
}

// in runs a function in a goroutine that ends before the walk does.
func (w *besideWalk) in(f func(ctx context.Context)) {
	w.waits.Go(func() { f(w.Context()) })
}

// call asks the loop to run objects again.
func (w *besideWalk) call(l *besideLoop) {
	objs, keys := w.someObjects()
	loop, what := l.loop, w.rng.IntN(6)
	w.in(func(ctx context.Context) {
		var err error
		switch what {
		case 0, 1, 2:
			_, err = loop.Reapply(ctx, objs...)
		case 3:
			_, err = loop.Refresh(ctx, keys...)
		case 4:
			_, err = loop.Refresh(ctx)
		default:
			_, err = loop.Retry(ctx, keys...)
		}
		w.allow(err)
	})
}

// allow reports an error of a call, unless it is an expected one.
func (w *besideWalk) allow(err error) {
	if err != nil && !errors.Is(err, inspect.ErrNotStarted) && !errors.Is(err, inspect.ErrStopped) && !errors.Is(err, inspect.ErrNotFound) {
		w.violate("a call returns %v", err)
	}
}

// await starts a goroutine that waits for objects.
func (w *besideWalk) await(l *besideLoop) {
	objs, _ := w.someObjects()
	loop, what := l.loop, w.rng.IntN(3)
	w.in(func(ctx context.Context) {
		txn := w.env.DB.ReadTxn()
		since := map[uint64]statedb.Revision{}
		switch what {
		case 0:
			for _, o := range objs {
				since[o.ID] = 0
				if _, revision, found := w.env.Table.Get(txn, idIndex.Query(o.ID)); found {
					since[o.ID] = revision
				}
			}
			_, err := loop.WaitFor(ctx, reconciler.Applied, objs...)
			w.allow(err)
			if err != nil {
				return
			}
		case 1:
			for o, revision := range w.env.Table.All(txn) {
				since[o.ID] = revision
			}
			_, err := loop.WaitAll(ctx, reconciler.Applied)
			w.allow(err)
			if err != nil {
				return
			}
		default:
			w.watch(ctx, l, loop, objs[0])
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		txn = w.env.DB.ReadTxn()
		for id, revision := range since {
			if _, now, found := w.env.Table.Get(txn, idIndex.Query(id)); what == 1 && (!found || now != revision) {
				// WaitAll does not wait for later versions.
				continue
			}
			if removed, was := w.removed.Load(id); was && removed.(statedb.Revision) > revision {
				if _, has := l.state[id]; !has {
					// It was gone when its turn came, and the deletion of an older version had ended.
					continue
				}
			}
			if k := l.key(id); l.besideTarget.loop == loop && k.done < revision {
				w.violate("%s: a wait (%d) for %d at %d is over, but only %d was applied", l.name, what, id, revision, k.done)
			}
		}
	})
}

// watch waits until an object is Done or gone.
func (w *besideWalk) watch(ctx context.Context, l *besideLoop, loop *reconciler.Loop[*object], o *object) {
	for {
		l.mu.Lock()
		replaced := l.besideTarget.loop != loop
		l.mu.Unlock()
		s, found, channels := loop.StatusWatch(w.env.DB.ReadTxn(), o)
		if replaced || !found || s.Kind == reconciler.StatusKindDone {
			return
		}
		set := statedb.NewWatchSet()
		set.Add(channels...)
		// The channels may never close if the loop was replaced.
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		_, err := set.Wait(ctx, 0)
		cancel()
		if s, found := loop.Status(w.env.DB.ReadTxn(), o); err != nil && found && s.Kind == reconciler.StatusKindDone {
			w.violate("%s: no channel of %d closed, and it is Done", l.name, o.ID)
		}
	}
}

// converged checks that everything is applied, and that nothing is left beside the table.
func (l *besideLoop) converged() {
	w := l.w
	txn := w.env.DB.ReadTxn()
	want := map[uint64]int{}
	for o := range w.env.Table.All(txn) {
		want[o.ID] = o.Value
		s, _ := l.loop.Status(txn, o)
		require.Equal(w, reconciler.StatusKindDone, s.Kind, "%s: object %d: %s", l.name, o.ID, s)
	}
	for o := range l.loop.Outcomes().All(txn) {
		require.Fail(w, "an outcome is left", "%s: %+v", l.name, o)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, value := range l.state {
		if want[id] != value {
			w.violate("the target of %s has %d for %d, want %d", l.name, value, id, want[id])
		}
	}
	require.Len(w, l.state, len(want), "the target of %s", l.name)
	for m := range l.marks.All(txn) {
		require.Equal(w, w.env.Table.Revision(txn), m.Revision, "the mark of %s", l.name)
		require.Empty(w, m.Intervals)
	}
	require.Positive(w, l.checks)
}
