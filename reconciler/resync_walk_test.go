// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// resyncWalk is a random walk of a loop with a Lister, and of its processes: the target outlives them.
type resyncWalk struct {
	*testing.T
	rng    *lockedRand
	target *target
	// wanted has the rows, in the store that each process reads.
	wanted map[uint64]int
	ledger string
	kind   string
	// wild: operations and listings fail, hang or take long.
	wild atomic.Bool
	// slow: each operation takes 5 ms.
	slow atomic.Bool
	// hot is a row that is written all the time in a process that starts, until cool is called; 0 for none.
	hot  uint64
	cool func()
	// settings draws the settings of a process. shape, if it is set, changes its configuration, and returns what to start
	// beside its loop.
	settings func(s *reconciler.Settings)
	shape    func(e *env, cfg *reconciler.Config[*object]) (beside func())

	e    *env
	done func()
	// drifted has the objects that others have changed in the target, until they are as wanted again; it is true after
	// an operation. read is how many operations of the process were checked.
	drifted map[uint64]bool
	read    int
	// initialized is when the table of the process was initialised; zero before.
	initialized time.Time
}

// lockedRand is a source of random numbers for several goroutines.
type lockedRand struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (l *lockedRand) IntN(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.IntN(n)
}

// foreign is an object that is not this reconciler's: it is not listed.
const foreign = 1000

func (w *resyncWalk) List(ctx context.Context, _ statedb.ReadTxn, yield func(*object) bool) error {
	way := 9
	if w.wild.Load() {
		way = w.rng.IntN(10)
	}
	held := w.target.holds()
	for id, value := range held {
		if id >= foreign {
			continue
		}
		yield(&object{ID: id, Value: value})
		if way == 0 {
			yield(&object{ID: id, Value: value})
		}
		if way <= 1 {
			// What the target has changes while it is listed.
			time.Sleep(time.Duration(1+w.rng.IntN(20)) * time.Millisecond)
		}
	}
	switch way {
	case 2:
		return errors.New("interrupted")
	case 3:
		<-ctx.Done()
	case 4:
		time.Sleep(time.Duration(w.rng.IntN(40)) * time.Second)
	case 5:
		panic("odd")
	}
	return nil
}

// start starts a process: a table that a source fills, and a loop.
func (w *resyncWalk) start() {
	e := newEnv(w.T)
	e.target = w.target
	w.e, w.read = e, 0
	e.write(func(wtxn statedb.WriteTxn) {
		end := e.table.RegisterInitializer(wtxn, "source")
		w.initialized = time.Time{}
		w.done = func() {
			if w.initialized.IsZero() {
				e.write(end)
				w.initialized = time.Now()
			}
		}
	})
	cfg := e.config(reconciler.WithJournal(1<<15, 1<<15), reconciler.WithSettings(w.settings))
	if !w.wild.Load() {
		cfg.Options = append(cfg.Options, reconciler.WithSettings(quiet))
	}
	cfg.Lister, cfg.Equal = w, func(wanted, found *object) bool { return wanted.Value == found.Value }
	operate(w.kind)(e, &cfg)
	if w.ledger == "beside" {
		beside(e, &cfg)
	}
	if w.hot > 0 {
		w.cool = e.writeOn(2*time.Millisecond, w.hot)
	}
	loop := func() { e.start(cfg) }
	if w.shape != nil {
		besideIt := w.shape(e, &cfg)
		loop = func() { e.start(cfg); besideIt() }
	}
	rows := func() {
		for id, value := range w.wanted {
			e.put(value, id)
		}
	}
	sleep := func() { e.pass(time.Duration(w.rng.IntN(1000)) * time.Millisecond) }
	// The rows come before the loop, or after it; so does the end of the initialiser, which may be left to a later step.
	for _, do := range [][]func(){
		{rows, w.done, loop}, {loop, sleep, rows, w.done}, {rows, loop, sleep, w.done}, {loop, sleep, rows, sleep, w.done}, {rows, loop},
	}[w.rng.IntN(5)] {
		do()
	}
	if !w.wild.Load() {
		w.done()
	}
}

// quiet are settings without faults, and without anything that calls operations by itself.
func quiet(s *reconciler.Settings) {
	s.RefreshLimiter, s.OperationLimiter, s.RoundLimiter = nil, nil, nil
	s.RefreshInterval, s.ListTimeout, s.Timeout = 0, 30*time.Second, 0
}

// kill ends a process: its table is lost.
func (w *resyncWalk) kill() {
	w.e.stop()
	w.check()
}

// check checks the operations since the last check: a repair has to have a reason.
func (w *resyncWalk) check() {
	w.Helper()
	synctest.Wait()
	events := w.e.loop.Events(inspect.EventQuery{})
	for _, event := range events[min(w.read, len(events)):] {
		id, _ := strconv.ParseUint(event.Key, 10, 64)
		_, drifted := w.drifted[id]
		if event.Cause == inspect.CauseSweep && (w.initialized.IsZero() || event.Started.Before(w.initialized)) {
			w.Fatalf("orphan %d is deleted before the table is initialised: %+v", id, event)
		}
		if event.Cause == inspect.CauseRepair && !drifted {
			w.Fatalf("object %d is repaired without a reason at %s: %+v", id, event.Started, event)
		}
		if drifted && (event.Result == inspect.ResultDone || event.Result == inspect.ResultRequeue) {
			w.drifted[id] = true
		}
	}
	w.read = len(events)
	w.target.mu.Lock()
	running := len(w.target.running)
	w.target.mu.Unlock()
	if running > 0 {
		// The effects of a call are in the target before its operations are in the journal.
		return
	}
	held := w.target.holds()
	for id, value := range w.wanted {
		if _, drifted := w.drifted[id]; !drifted && w.e.told(id).Kind == reconciler.StatusKindDone {
			has, there := held[id]
			require.True(w, there && has == value, "object %d is Done at %d, and the target has %d, %t", id, value, has, there)
		}
	}
	for id, attempted := range w.drifted {
		value, wanted := w.wanted[id]
		if has, there := held[id]; attempted && there == wanted && has == value {
			delete(w.drifted, id)
		}
	}
}

func (w *resyncWalk) step() string {
	w.check()
	id := 1 + uint64(w.rng.IntN(12))
	switch w.rng.IntN(13) {
	case 10:
		w.done()
		return "the table is initialised"
	case 11:
		return w.rewrite(id)
	case 12:
		return w.pauseDuring(id)
	case 0, 1:
		w.wanted[id] = w.rng.IntN(3)
		w.e.put(w.wanted[id], id)
		return fmt.Sprintf("row %d = %d", id, w.wanted[id])
	case 2:
		delete(w.wanted, id)
		w.e.remove(id)
		return fmt.Sprintf("row %d is deleted", id)
	case 3, 4:
		// Never to what is wanted: then a listing has seen a difference that nothing shows any more.
		want, wanted := w.wanted[id]
		w.target.mu.Lock()
		defer w.target.mu.Unlock()
		w.drifted[id] = false
		if wanted && w.rng.IntN(3) == 0 {
			delete(w.target.state, id)
			return fmt.Sprintf("the target loses %d", id)
		}
		w.target.state[id] = want + 1
		return fmt.Sprintf("the target gets %d = %d", id, want+1)
	case 5:
		w.e.loop.Resync()
		return "resync"
	case 6:
		w.kill()
		w.start()
		return "restart"
	case 7:
		if w.rng.IntN(3) == 0 {
			w.e.loop.Pause()
			w.e.pass(time.Duration(w.rng.IntN(300)) * time.Millisecond)
			w.e.loop.Resume()
		} else {
			w.e.loop.PauseObjects(func(o *object) bool { return o.ID == id })
			w.e.pass(time.Duration(w.rng.IntN(300)) * time.Millisecond)
			w.e.loop.Resume()
		}
		return "pause and resume"
	}
	d := time.Millisecond << w.rng.IntN(10)
	w.e.pass(d)
	return "pass " + d.String()
}

// rewrite writes a row faster than its operations end.
func (w *resyncWalk) rewrite(id uint64) string {
	w.slow.Store(true)
	n := w.rng.IntN(200)
	for range n {
		w.wanted[id] = w.rng.IntN(3)
		w.e.put(w.wanted[id], id)
		time.Sleep(time.Millisecond)
	}
	w.slow.Store(false)
	return fmt.Sprintf("row %d is written %d times, and = %d", id, n, w.wanted[id])
}

// pauseDuring pauses the loop during an operation, and resumes it before the operation has ended or after. Then the row
// is written as it was before.
func (w *resyncWalk) pauseDuring(id uint64) string {
	before, had := w.wanted[id]
	w.slow.Store(true)
	if w.e.put(3, id); w.rng.IntN(2) == 0 {
		w.e.remove(id)
	}
	time.Sleep(time.Duration(w.rng.IntN(5)) * time.Millisecond)
	w.e.loop.Pause()
	time.Sleep(time.Duration(w.rng.IntN(5)) * time.Millisecond)
	w.e.loop.Resume()
	time.Sleep(time.Duration(w.rng.IntN(20)) * time.Millisecond)
	if had {
		w.e.put(before, id)
	} else {
		w.e.remove(id)
	}
	w.slow.Store(false)
	return fmt.Sprintf("pause during an operation of %d", id)
}

// updates returns the calls so far that change the target.
func (w *resyncWalk) updates() []string { return w.target.ops() }

// In the end the target is as the table wants it, what is foreign is untouched, and neither a resync nor a restart
// calls an operation.
func TestResyncsAndRestartsKeepTheirPromisesInRandomWalks(t *testing.T) {
	seed := rand.Uint64()
	for i := range long.Times(20) {
		for _, ledger := range []string{"rows", "beside"} {
			for _, kind := range []string{"single", "batches", "rounds"} {
				var log []string
				ok := t.Run(fmt.Sprintf("%s, %s, seed %d %d", ledger, kind, seed, i), func(t *testing.T) {
					defer func() {
						if t.Failed() {
							for _, line := range log {
								t.Log(line)
							}
						}
					}()
					synctest.Test(t, func(t *testing.T) {
						w := &resyncWalk{
							T: t, rng: &lockedRand{r: rand.New(rand.NewPCG(seed, uint64(i)))}, target: newTarget(), wanted: map[uint64]int{}, drifted: map[uint64]bool{},
							ledger: ledger, kind: kind,
						}
						w.settings = func(s *reconciler.Settings) {
							s.Concurrency, s.Jitter = 1+3*w.rng.IntN(2), 0.1
							s.ResyncInterval = []time.Duration{0, 300 * time.Millisecond, 10 * time.Second}[w.rng.IntN(3)]
							s.ListTimeout = []time.Duration{0, 100 * time.Millisecond, 30 * time.Second}[w.rng.IntN(3)]
							s.RefreshLimiter = nil
						}
						w.wild.Store(true)
						w.target.state[foreign] = 7
						w.target.deciding(func(c call) error {
							if w.slow.Load() {
								time.Sleep(5 * time.Millisecond)
							}
							switch w.rng.IntN(12) {
							case 0:
								return errors.New("no")
							case 1:
								time.Sleep(time.Duration(w.rng.IntN(200)) * time.Millisecond)
							case 2:
								return reconciler.Requeue(time.Duration(w.rng.IntN(1000)) * time.Millisecond)
							}
							return nil
						})
						w.start()
						for range 60 {
							log = append(log, w.step())
						}
						w.settle()
						w.kill()
					})
				})
				if !ok {
					return
				}
			}
		}
	}
}

// settle ends the faults, and checks the promises.
func (w *resyncWalk) settle() {
	w.wild.Store(false)
	w.target.deciding(nil)
	w.done()
	// What hangs or waits ends, failures are retried, and requeued objects are run.
	w.e.pass(2 * time.Minute)
	w.check()
	for id, value := range w.wanted {
		if _, drifted := w.drifted[id]; !drifted {
			require.Equal(w, value, w.target.holds()[id], "object %d, before another resync", id)
		}
	}
	if w.e.loop.Snapshot(w.Context()).Listing.IsZero() {
		w.e.loop.Resync()
	} else {
		// A listing hangs until its context ends.
		w.kill()
		w.start()
	}
	w.e.pass(20 * time.Second)
	want := maps.Clone(w.wanted)
	want[foreign] = 7
	require.Equal(w, want, w.target.holds())

	w.e.loop.Resync()
	w.e.pass(20 * time.Second)
	w.target.take()
	w.e.loop.Resync()
	w.e.pass(20 * time.Second)
	require.Empty(w, w.updates(), "a resync of an equal target")
	require.Equal(w, inspect.Resync{Listed: len(w.wanted), Equal: len(w.wanted)}, w.e.resync())
	w.kill()
	w.start()
	w.e.pass(20 * time.Second)
	require.Empty(w, w.updates(), "a restart on an equal target")
	w.e.eachDoneIn(w.wanted)
	require.Equal(w, want, w.target.holds())
	w.restartHot()
}

// restartHot starts a process while a row is written faster than its operations end: orphans go, and what is lost comes back.
func (w *resyncWalk) restartHot() {
	const orphan, lost = 21, 22
	w.kill()
	w.hot, w.wanted[lost] = 20, 1
	w.target.mu.Lock()
	w.target.state[orphan], w.target.state[lost] = 1, 1
	w.target.mu.Unlock()
	w.target.deciding(func(call) error { time.Sleep(5 * time.Millisecond); return nil })
	w.start()
	defer func() { w.cool(); w.target.deciding(nil) }()
	time.Sleep(2 * time.Second)
	require.NotContains(w, w.target.holds(), uint64(orphan), "the orphan, while a row is hot")
	w.target.mu.Lock()
	delete(w.target.state, lost)
	w.target.mu.Unlock()
	w.drifted[lost] = false
	w.e.loop.Resync()
	time.Sleep(2 * time.Second)
	require.Contains(w, w.target.holds(), uint64(lost), "what was lost, while a row is hot")
}

// eachDoneIn checks that the given rows are Done.
func (e *env) eachDoneIn(rows map[uint64]int) {
	e.Helper()
	for id := range rows {
		require.Equal(e, reconciler.StatusKindDone, e.told(id).Kind, "object %d", id)
	}
}
