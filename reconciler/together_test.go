// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/trigger"
)

// TestEverythingTogetherKeepsItsPromises runs random walks of a program in which all features meet, with both ledgers
// and all kinds of operations: a Lister with Equal and resyncs, or prunes, workers, groups, a breaker, limiters, every
// outcome, a second reconciler of the rows, other writers of the rows, a trigger, every call, and processes that end and
// start with the rows that were kept. These are the invariants of DESIGN section 6. It checks these promises:
//
//	(a) After each commit: a row is Done only if the target has the value of the row, or had it before others
//	    changed the target.
//	(b) A wait for Applied ends without an error only when the target has, since the version of the row at its
//	    beginning or a later one was written, had the value of that version.
//	(c) Operations of an object or a group never overlap. Those of an object never go back to an older version. None
//	    begins after the stop.
//	(d) A resync repairs a row only if somebody has changed the target since the last operation of the row. It deletes
//	    no orphan before the table is initialised. A prune neither, and it overlaps no operation and gets every row that
//	    had one.
//	(e) When the faults end, all rows become Done within a minute, orphans and drift go, and each wait ends; rows that
//	    are rewritten faster than their operations take change none of that for the others.
//	(f) When the writes end, the target is as the table wants it, what is foreign is untouched, health is OK, and the
//	    loop holds no work. Then neither a resync nor a restart calls an operation, and a plan has none. Beside the
//	    table, a loop never writes it.
//	(g) A row that needs another one (NeedApplied) is applied when the target has that. If others have removed it, the row
//	    suspects it, and fails only when a look that began later has found it. Needs and deletions that wait for others
//	    (NeedDeleted) keep nothing waiting for ever.
//	(h) A program that hears of changes in the target, of all or some, once or twice, late or not, its own included, and
//	    asks for looks at them (Verify), breaks none of this; nor do other programs that undo what the loop does, effects
//	    that come late, nor a Get that fails, hangs, is slow or lies. Fights end with their reason.
//
// STATEKEEL_TOGETHER runs the walk with that seed only. The seed determines the actions of each party, but not how they
// interleave, so repeat a seed with -count.
func TestEverythingTogetherKeepsItsPromises(t *testing.T) {
	first, n, groups := rand.Uint64()>>1, long.Times(40), 2
	if one := os.Getenv("STATEKEEL_TOGETHER"); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		require.NoError(t, err)
		first, n, groups = seed, 1, 1
	}
	t.Logf("%d walks, seeds from %d", n, first)
	var failed atomic.Int64
	for g := range groups {
		t.Run(fmt.Sprintf("group %d", g), func(t *testing.T) {
			t.Parallel()
			for i := g; i < n && failed.Load() < 3; i += groups {
				if !runTogether(t, first+uint64(i)) {
					failed.Add(1)
				}
			}
		})
	}
}

// runTogether runs one walk in a bubble, and reports what it has found.
func runTogether(t *testing.T, seed uint64) bool {
	hung := time.AfterFunc(9*time.Minute, func() { panic(fmt.Sprintf("walk %d hangs", seed)) })
	defer hung.Stop()
	var w *together
	synctest.Test(t, func(t *testing.T) {
		w = newTogether(t, seed)
		w.run()
	})
	if len(w.world.violations) == 0 {
		return true
	}
	t.Errorf("STATEKEEL_TOGETHER=%d: %s\n%s\n    %s", seed, w.shape,
		strings.Join(w.world.violations, "\n"), strings.Join(w.world.log[max(0, len(w.world.log)-120):], "\n    "))
	return false
}

// part is a row. Each write of the program has a version of its own.
type part struct {
	ID             uint64
	Value, Version int
	// Handle is set by updates.
	Handle        int
	Status, Other reconciler.Status
}

func (p *part) Clone() *part          { c := *p; return &c }
func (p *part) TableHeader() []string { return []string{"ID"} }
func (p *part) TableRow() []string    { return []string{strconv.FormatUint(p.ID, 10)} }

var partIndex = statedb.Index[*part, uint64]{
	Name:       "id",
	FromObject: func(p *part) index.KeySet { return index.NewKeySet(index.Uint64(p.ID)) },
	FromKey:    index.Uint64,
	FromString: index.Uint64String,
	Unique:     true,
}

// Rows 1 to cold are written now and then, those up to hot all the time, for a while. Up to orphans, the target may have
// objects without a row. foreign is an object that is not the reconciler's: it is not listed.
const cold, hot, orphans, foreign = 8, 10, 14, 1000

// together is one walk: a world that outlives processes, and the process that runs.
type together struct {
	*testing.T
	seed  uint64
	rng   *rand.Rand // of the goroutine of the walk
	world *togetherWorld
	// shape describes the walk: its configuration, which is the same for each process.
	shape                     string
	beside, second, triggered bool
	// prunes: the target is not listed, but pruned. watches: the program asks for looks at what has changed there.
	prunes, watches bool
	config          reconciler.Config[*part]

	e       *reconcilertest.Env[*part]
	devices statedb.RWTable[*part]
	loop    atomic.Pointer[reconciler.Loop[*part]]
	// stops end what the process has started, the latest first. done ends the initialiser of the table; nil if it has
	// ended.
	stops []func()
	done  func()
	// judging is held while operations are judged.
	judging sync.Mutex
	// plans are those that run.
	plans sync.WaitGroup
	// heat rewrites the hot rows.
	heat party
	// foes are other programs, which change the target.
	foes party
}

// party is what goes on beside the walk until it is stopped.
type party struct {
	sync.WaitGroup
	stop chan struct{}
}

func newTogether(t *testing.T, seed uint64) *together {
	w := &together{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0))}
	w.world = newTogetherWorld(w)
	rng, x := w.rng, w.world
	w.beside = w.one(2)
	w.second = !w.beside && w.one(2)
	w.triggered = w.one(2)
	w.prunes = w.one(3)
	x.takes = pick(rng, time.Microsecond, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond, 80*time.Millisecond)
	x.trouble = pick(rng, 0, 2, 6, 10)
	cfg := &w.config
	kind := pick(rng, "single", "batches", "rounds")
	switch kind {
	case "single":
		cfg.Operations = x
	case "batches":
		cfg.BatchOperations = togetherBatches{x}
	default:
		cfg.RoundOperations = togetherRounds{togetherBatches{x}}
	}
	gets := !w.prunes && !w.one(3)
	w.watches = gets && !w.one(3)
	if !w.prunes {
		cfg.Lister, cfg.Equal = x, func(wanted, found *part) bool { return wanted.Value == found.Value }
	}
	if gets {
		cfg.Lister = gettingParts{x}
	}
	if !w.beside {
		cfg.Clone = (*part).Clone
		cfg.GetStatus = func(p *part) reconciler.Status { return p.Status }
		cfg.SetStatus = func(p *part, s reconciler.Status) *part { p.Status = s; return p }
		if w.one(2) {
			cfg.Merge = func(current, reconciled *part) *part { current.Handle = reconciled.Handle; return current }
		}
	}
	if x.groups = w.one(4); x.groups {
		cfg.SerialBy = func(p *part) string { return x.groupOf(p.ID) }
	}
	cfg.Options = []reconciler.Option{reconciler.WithSettings(w.draw)}
	breaker := w.one(4)
	if breaker {
		cfg.Options = append(cfg.Options, breaksAfter(2))
	}
	w.shape = fmt.Sprintf("%s, beside %t, prunes %t, gets %t, watches %t, second %t, trigger %t, merge %t, groups %t, breaker %t, %s an operation, trouble %d",
		kind, w.beside, w.prunes, gets, w.watches, w.second, w.triggered, cfg.Merge != nil, x.groups, breaker, x.takes, x.trouble)
	return w
}

// one is true in one of n cases.
func (w *together) one(n int) bool { return w.rng.IntN(n) == 0 }

func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// every sets the interval of resyncs, or of prunes.
func (w *together) every(s *reconciler.Settings, interval time.Duration) {
	if w.prunes {
		s.PruneInterval = interval
	} else {
		s.ResyncInterval = interval
	}
}

// draw draws settings.
func (w *together) draw(s *reconciler.Settings) {
	rng := w.rng
	s.Concurrency = pick(rng, 1, 1, 4)
	s.RoundSize = pick(rng, 1, 3, 1000)
	s.Jitter, s.MinBackoff, s.MaxBackoff = 0.1, 20*time.Millisecond, 500*time.Millisecond
	s.BlockedRecheck = time.Second
	s.MaxRetries = pick(rng, 0, 0, 2)
	s.Timeout = pick(rng, 0, 50*time.Millisecond)
	w.every(s, pick(rng, 0, 100*time.Millisecond, 2*time.Second))
	s.ListTimeout = pick(rng, 0, 100*time.Millisecond, 2*time.Second, 30*time.Second)
	s.RefreshInterval = pick(rng, 0, 0, 500*time.Millisecond)
	s.RefreshLimiter = pick(rng, nil, nil, rate.NewLimiter(20, 1))
	s.OperationLimiter = pick(rng, nil, nil, nil, rate.NewLimiter(50, 2))
	s.RoundLimiter = pick(rng, nil, nil, nil, rate.NewLimiter(50, 1))
}

// calm are settings without faults, and without anything but resyncs that calls operations by itself.
func calm(s *reconciler.Settings) {
	s.RefreshLimiter, s.OperationLimiter, s.RoundLimiter = nil, nil, nil
	s.RefreshInterval, s.ListTimeout, s.Timeout, s.MaxRetries = 0, 30*time.Second, 0, 0
}

// start starts a process with the rows that the last one has left.
func (w *together) start(rows []*part) {
	x := w.world
	w.e = reconcilertest.New(w.T, func(db *statedb.DB) (statedb.RWTable[*part], error) {
		return statedb.NewTable(db, "parts", partIndex)
	}, statedb.WithMetrics(&commits{statedb.NewExpVarMetrics(false), w.committed}))
	var err error
	w.devices, err = statedb.NewTable(w.e.DB, "devices", partIndex)
	require.NoError(w, err)
	if x.isCalm() {
		w.release()
	}
	w.e.Write(func(wtxn statedb.WriteTxn) {
		end := w.e.Table.RegisterInitializer(wtxn, "source")
		w.done = func() { x.setInitialized(true); w.e.Write(end); w.done = nil }
	})
	x.setInitialized(false)
	fill := func() { w.e.Insert(rows...) }
	sleep := func() { time.Sleep(pick(w.rng, 0, 10*time.Millisecond, 300*time.Millisecond)) }
	done := func() { w.done() }
	// The initialiser may end much later.
	for _, do := range pick(w.rng, []func(){fill, done, w.startLoop}, []func(){w.startLoop, sleep, fill, done}, []func(){fill, w.startLoop, sleep, done},
		[]func(){fill, w.startLoop}, []func(){fill, w.startLoop}, []func(){w.startLoop, fill}) {
		do()
	}
}

// startLoop starts a loop, and what is beside it.
func (w *together) startLoop() {
	cfg := w.config
	if w.world.isCalm() {
		cfg.Options = append(cfg.Options[:len(cfg.Options):len(cfg.Options)], reconciler.WithSettings(calm))
	}
	loop, err := reconciler.New(w.e.Config(cfg))
	require.NoError(w, err)
	w.world.newLoop()
	w.loop.Store(loop)
	run := func() { w.stops = append(w.stops, reconcilertest.Go(w, loop.Run)) }
	if w.triggered {
		// It is made before the loop runs: then it hands over no row that the loop has not applied by itself.
		mark, err := trigger.New(trigger.Config[*part, *part]{
			Loop: loop, Source: w.devices,
			Dependents: func(c statedb.Change[*part]) []statedb.Query[*part] {
				return []statedb.Query[*part]{partIndex.Query(c.Object.ID), partIndex.Query(c.Object.ID + 3)}
			},
		})
		require.NoError(w, err)
		run()
		w.stops = append(w.stops, mark.Close, reconcilertest.Go(w, mark.Run))
	} else {
		run()
	}
	if w.second {
		other := reconciler.Config[*part]{
			Operations: otherTarget{w.world}, Clone: (*part).Clone,
			GetStatus: func(p *part) reconciler.Status { return p.Other },
			SetStatus: func(p *part, s reconciler.Status) *part { p.Other = s; return p },
			Options:   []reconciler.Option{reconciler.WithName("other")},
			Health:    &reconcilertest.Health{},
		}
		loop, err := reconciler.New(w.e.Config(other))
		require.NoError(w, err)
		w.stops = append(w.stops, reconcilertest.Go(w, loop.Run))
	}
	w.world.event("a loop starts: %+v", loop.Settings())
}

// stop ends the loop, and what is beside it.
func (w *together) stop() {
	for i := range w.stops {
		w.stops[len(w.stops)-1-i]()
	}
	w.stops = nil
	w.world.stop()
	// The next loop adopts what it lists, and cannot know what comes of operations of this one.
	time.Sleep(w.world.untilShown())
	w.checkRepairs()
	w.loop.Store(nil)
	w.world.event("the loop has stopped")
}

// kept returns the rows as a store keeps them, which another process has filled: IDs of statuses are from there.
func (w *together) kept() (rows []*part) {
	// This process never gives out so many IDs, so it does not take them for its own.
	shift := uint64(w.rng.IntN(3)) << 40
	for row := range w.e.Table.All(w.e.DB.ReadTxn()) {
		if w.beside {
			rows = append(rows, row)
			continue
		}
		text, err := json.Marshal(row)
		require.NoError(w, err)
		again := &part{}
		require.NoError(w, json.Unmarshal(text, again))
		if again.Status.ID > 0 {
			again.Status.ID += shift
		}
		rows = append(rows, again)
	}
	return rows
}

// restart ends the process and starts another.
func (w *together) restart() {
	w.cool()
	w.stop()
	w.start(w.kept())
}

func (w *together) run() {
	var rows []*part
	for id := uint64(1); id <= hot; id++ {
		if w.one(2) {
			rows = append(rows, w.world.newRow(id, w.rng.IntN(3)))
		}
		if w.one(2) {
			w.world.drift(id, w.rng.IntN(3))
		}
	}
	w.start(rows)
	for range 20 + w.rng.IntN(50) {
		w.step()
		w.checkRepairs()
	}
	w.settle()
	w.stop()
	w.plans.Wait()
	w.world.events.Wait()
}

// settle checks (e) and (f).
func (w *together) settle() {
	x := w.world
	if w.one(2) {
		w.warm()
	}
	w.peace()
	close(x.calm)
	if w.one(3) {
		warm := w.heat.stop != nil
		w.restart()
		if warm {
			w.warm()
		}
	}
	if w.done != nil {
		w.done()
	}
	w.release()
	loop := w.loop.Load()
	loop.Resume()
	asks := w.one(2)
	require.NoError(w, loop.Reconfigure(func(s *reconciler.Settings) {
		calm(s)
		if w.every(s, 0); !asks {
			w.every(s, 2*time.Second)
		}
	}))
	w.e.Pass(2 * time.Second)
	for range 2 {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		_, _ = loop.Retry(ctx)
		cancel()
		w.e.Pass(2 * time.Second)
	}
	resync := func() {
		if asks {
			w.resync(0)
		}
	}
	last := uint64(hot)
	if w.heat.stop != nil {
		last = cold
	}
	x.event("the faults have ended; resyncs by call: %t; hot rows: %t", asks, w.heat.stop != nil)
	resync()
	w.within(time.Minute, "(e) all is applied", func() string { return w.unequal(last) })
	w.quarrel(last)
	w.driftAll(last)
	resync()
	w.within(time.Minute, "(e) drift is repaired", func() string { return w.unequal(last) })
	w.within(10*time.Second, "(e) all waits end", x.openWaits)
	w.cool()
	w.within(time.Minute, "(f) all is applied", func() string { return w.unequal(hot) })
	if x.failed() {
		return
	}
	written := w.e.Table.Revision(w.e.DB.ReadTxn())
	require.NoError(w, loop.Reconfigure(func(s *reconciler.Settings) { w.every(s, 0) }))
	w.resync(0)
	w.e.Pass(10 * time.Second)
	before := x.changed()
	w.resync(0)
	w.e.Pass(10 * time.Second)
	w.same("a resync of an equal target", before)
	if !w.prunes {
		if p, err := loop.Plan(w.Context()); err != nil || p.Operations() > 0 {
			x.violate("(f) the plan of an equal target is %s, %v", p, err)
		}
	}
	n := w.e.Table.NumObjects(w.e.DB.ReadTxn())
	if r := loop.Snapshot(w.Context()).Resync; !w.prunes && (r == nil || r.Listed != n || r.Equal != n || r.Error != "") {
		x.violate("(f) the last resync of %d rows: %+v", n, r)
	}
	if now := w.e.Table.Revision(w.e.DB.ReadTxn()); now != written {
		x.violate("(f) a resync of an equal target writes the table")
	}
	w.checkEmpty()
	// With a trigger, rows that carry Done of an earlier loop are applied again.
	w.triggered = w.triggered && w.beside
	w.restart()
	if w.done != nil {
		w.done()
	}
	w.e.Pass(10 * time.Second)
	if !w.prunes || !w.beside {
		w.same("a restart on an equal target", before)
	}
	if text := w.unequal(hot); text != "" {
		x.violate("(f) after a restart: %s", text)
	}
}

// quarrel checks that a fight which the program hears of is seen, and over soon after its end. A maximum backoff is 500 ms.
func (w *together) quarrel(last uint64) {
	row, _, found := w.e.Table.Get(w.e.DB.ReadTxn(), partIndex.Query(1+w.rng.Uint64N(cold)))
	if !w.watches || !found {
		return
	}
	w.world.event("another program undoes %d", row.ID)
	w.undo(row.ID, 3, 20*time.Millisecond)
	unheld := func() int { return w.loop.Load().Figures().Unheld }
	w.within(20*time.Second, "(h) a fight is seen", func() string {
		if unheld() == 0 {
			return "no repair counts as undone"
		}
		return ""
	})
	w.peace()
	w.within(2*time.Second, "(h) a fight is over", func() string {
		if n := unheld(); n > 0 {
			return fmt.Sprintf("%d repairs do not hold", n)
		}
		return w.unequal(last)
	})
}

// within waits until f returns "", and reports what it returned at last.
func (w *together) within(d time.Duration, what string, f func() (missing string)) {
	for end := time.Now().Add(d); !w.world.failed(); time.Sleep(100 * time.Millisecond) {
		w.checkRepairs()
		missing := f()
		if missing == "" {
			return
		} else if !time.Now().Before(end) {
			w.world.violate("%s: not within %s: %s", what, d, missing)
			return
		}
	}
}

// unequal returns how the table and the target differ, apart from objects above last that have a row.
func (w *together) unequal(last uint64) string {
	txn, held, loop := w.e.DB.ReadTxn(), w.world.holds(), w.loop.Load()
	var odd []string
	for row := range w.e.Table.All(txn) {
		value, found := held[row.ID]
		delete(held, row.ID)
		s, _ := loop.Status(txn, row)
		if row.ID <= last && (!found || value != row.Value || s.Kind != reconciler.StatusKindDone || w.second && row.Other.Kind != reconciler.StatusKindDone) {
			odd = append(odd, fmt.Sprintf("row %d = %d is %s, other %s, and in the target: %t, %d; %s", row.ID, row.Value, s, row.Other, found, value,
				loop.Explain(w.Context(), strconv.FormatUint(row.ID, 10)).Why))
		}
	}
	if value := held[foreign]; value != 7 {
		odd = append(odd, fmt.Sprintf("what is foreign has %d", value))
	}
	delete(held, foreign)
	for id := range held {
		if id <= last || id > hot {
			odd = append(odd, fmt.Sprintf("object %d is left", id))
		}
	}
	return strings.Join(odd, "; ")
}

func (w *together) same(what string, before int) {
	if now := w.world.changed(); now != before {
		w.world.violate("(f) %s calls %d operations", what, now-before)
	}
}

// checkEmpty checks that the loop holds no work, and reports nothing.
func (w *together) checkEmpty() {
	s := w.loop.Load().Snapshot(w.Context())
	for _, c := range append(s.States, s.Lanes...) {
		if c.Count != 0 {
			w.world.violate("(f) the loop holds %+v, %+v", s.States, s.Lanes)
			break
		}
	}
	if n := w.loop.Load().Figures().Unheld; n > 0 {
		w.world.violate("(h) %d repairs do not hold", n)
	}
	if level, message, err := w.e.Health.Scope("reconcile").Now(); level != cell.StatusOK {
		w.world.violate("(f) health is %s: %s, %v", level, message, err)
	}
}

// checkDone checks (a). The world is locked before the transaction begins, so that it shows all that was applied.
func (w *together) checkDone() {
	x := w.world
	x.mu.Lock()
	defer x.mu.Unlock()
	loop := w.loop.Load()
	if loop == nil || w.e == nil {
		return
	}
	txn := w.e.DB.ReadTxn()
	for row := range w.e.Table.All(txn) {
		if s, _ := loop.Status(txn, row); s.Kind == reconciler.StatusKindDone && !x.explained(row.ID, row.Value) {
			x.violateLocked("(a) object %d is %s with value %d of version %d\n%s", row.ID, s, row.Value, row.Version, x.history(row.ID))
		}
	}
}

// committed is called after each commit.
func (w *together) committed() {
	w.checkDone()
	// Often, because the journal forgets.
	w.judgeEvents()
}

// checkRepairs checks (d).
func (w *together) checkRepairs() {
	synctest.Wait()
	w.judgeEvents()
}

// judgeEvents judges the operations that were added to the journal since its last call.
func (w *together) judgeEvents() {
	w.judging.Lock()
	defer w.judging.Unlock()
	loop := w.loop.Load()
	if loop == nil {
		return
	}
	events := loop.Operations(inspect.OperationQuery{})
	for _, event := range events {
		if event.Round > w.world.judgedTo {
			w.world.judge(event)
		}
	}
	if n := len(events); n > 0 {
		w.world.judgedTo = events[n-1].Round
	}
}
