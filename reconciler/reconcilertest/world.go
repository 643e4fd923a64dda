// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/internal/edgehook"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// mostFailures is how often an operation of a row may fail after the faults.
const mostFailures = 5

// world is one run of a plan.
type world[Obj, T any] struct {
	s      *Subject[Obj, T]
	t      *runTB
	x      *check.Injector
	rec    *check.Record
	target T
	tables []statedTable // the first one is that of Subject.Table, the others are those of Subject.Further
	hashes map[uintptr]uint64
	before map[string]string // the goroutines at the begin of the run

	env   *Env[Obj]
	tb    *lifeTB
	lives []*lifeTB
	txn   statedb.WriteTxn // of squashed steps; nil otherwise
	// initialised is true once the tables of the life are initialised.
	initialised bool
	at          check.Step // the latest one
	lists       bool
	// compares is true if each reconciler lists its target with values, and compares them.
	compares bool
}

func newWorld[Obj, T any](s *Subject[Obj, T], t testing.TB, p check.Plan) *world[Obj, T] {
	run := newRunTB(t, t.Context())
	w := &world[Obj, T]{s: s, t: &run, x: check.NewInjector(p.Faults), rec: &check.Record{}, hashes: map[uintptr]uint64{}}
	var err error
	if w.tables, err = s.tables(); err != nil {
		t.Fatal(err)
	}
	for _, table := range w.tables {
		for row, hash := range table.all() {
			if at := address(row); at != 0 {
				w.hashes[at] = hash
			}
		}
	}
	w.x.Refused = s.Refused
	w.x.Delay, w.x.Lapse, w.x.Grace = 3*time.Second, 5*time.Second, 5*time.Second
	if s.RealTime {
		// On a busy machine the kernel may keep a call for many seconds.
		w.x.Delay, w.x.Lapse, w.x.Grace = 20*time.Millisecond, 100*time.Millisecond, time.Minute
	}
	return w
}

// run runs the plan. It returns early if something goes wrong that makes the rest worthless.
func (w *world[Obj, T]) run(p check.Plan) (rec *check.Record) {
	defer func() {
		if rec != nil {
			return
		}
		v := recover()
		w.stop()
		w.t.end()
		if _, reported := v.(over); v != nil && !reported {
			panic(v)
		}
		if v != nil {
			rec = w.record()
		}
	}()
	w.before = check.Goroutines()
	w.target = w.s.Target(w.t)
	w.rec.Base = w.dump()
	if w.s.Foreign != nil {
		empty := w.rec.Base
		w.s.Foreign(w.target)
		w.rec.Base = w.dump()
		w.rec.Foreign = maps.Clone(w.rec.Base)
		maps.DeleteFunc(w.rec.Foreign, func(name, value string) bool { return empty[name] == value })
	}
	w.x.Outside = w.outside()

	for i, step := range p.Steps {
		step.Squashed = step.Squashed && i < len(p.Steps)-1
		w.x.Begin()
		w.step(step)
	}
	w.rec.Stuck = w.stuck()
	for w.x.Late() > 0 {
		time.Sleep(w.x.Delay)
	}
	w.x.Begin()
	w.rec.Used = w.x.Used()
	w.x.Heal()
	w.restart()
	if len(p.Faults) > 0 {
		w.repair(p.NeedsRefresh())
	} else if len(w.rest()) > 0 {
		w.settle(healTime)
	}
	w.rec.End, w.rec.Unapplied = w.dump(), w.unapplied()
	if name, times, err := w.x.FailedMoreThan(mostFailures); name != "" {
		w.x.Report("%s failed %d times after the last fault: %s", name, times, err)
	}
	if w.tb.resyncs && len(w.rec.Unapplied) == 0 {
		w.rec.Unequal = w.unequal()
	}

	w.x.Begin()
	w.each(refresh)
	w.settle(settleTime)
	w.rec.Again = w.dump()

	w.x.Begin()
	w.step(check.Step{State: check.Empty})
	w.rec.Deleted = w.dump()
	w.x.Begin()
	w.removeAbsent()
	w.rec.Absent = w.dump()

	if w.stop() {
		w.t.end()
		w.leaks()
	}
	for _, table := range w.tables {
		for row, hash := range table.all() {
			if check.Hash(row) != hash {
				w.x.Report("a row was changed after it was written: %s", describeRow(row))
				break
			}
		}
	}
	return w.record()
}

// record returns what the run has shown so far.
func (w *world[Obj, T]) record() *check.Record {
	w.rec.Journal, w.rec.Wrong, w.rec.Lists = w.x.Journal(), w.x.Wrong(), w.lists
	w.rec.Compares = w.compares
	return w.rec
}

func (w *world[Obj, T]) dump() map[string]string { return w.s.Dump(w.target) }

// outside returns the changes from outside. What one adds is left out of the comparison if nothing lists the target. They
// are made at points of operations and listings, which run on several goroutines.
func (w *world[Obj, T]) outside() map[string]func() {
	changes := map[string]func(){}
	var one sync.Mutex
	for name, change := range w.s.Outside {
		changes[name] = func() {
			one.Lock()
			defer one.Unlock()
			had := w.dump()
			change(w.target)
			for added := range w.dump() {
				if _, ok := had[added]; !ok {
					if w.rec.Added == nil {
						w.rec.Added = map[string]bool{}
					}
					w.rec.Added[added] = true
				}
			}
		}
	}
	return changes
}

// start begins a life of the program, with the rows of a state. Sources fill the table after the start of the
// reconcilers, as in a program.
func (w *world[Obj, T]) start(s check.Step) {
	l := &life{Process: w.x.Start(), x: w.x, virtual: !w.s.RealTime, hashes: w.hashes, started: map[string]int{}, compares: true}
	l.timeout, l.listTimeout = w.s.timeouts()
	w.tb = &lifeTB{runTB: newRunTB(w.t.TB, edgehook.With(w.t.TB.Context(), l.Hook())), life: l}
	w.lives = append(w.lives, w.tb)
	main := w.tables[0].(*stated[Obj])
	w.env = New(w.tb, func(db *statedb.DB) (statedb.RWTable[Obj], error) { err := main.open(db); return main.table, err })
	w.env.life = l
	l.main = main.table.Name()
	for _, table := range w.tables[1:] {
		if err := table.open(w.env.DB); err != nil {
			w.t.Fatalf("making a table of Subject.Further: %s", err)
		}
		w.env.further = append(w.env.further, table.meta())
	}
	w.initialised = false
	w.startProgram()
	w.lists = w.lists || l.lists
	if w.begun(); len(w.env.Registry.All()) == 0 {
		w.x.Report("the program has no reconciler: start it with Env.Start or reconcilertest.Start, or give it e.Registry")
		panic(over{})
	}
	known := 0
	for _, n := range l.started {
		known += n
	}
	loops := 0
	for _, c := range w.env.Registry.All() {
		if _, loop := c.(inspect.LoopController); loop { // a derivation has no target
			loops++
		}
	}
	w.compares = l.compares && known == loops // of those that the program starts itself the kit knows nothing
	w.write(s)
}

// begun waits until what the program has started runs.
func (w *world[Obj, T]) begun() {
	if !w.s.RealTime {
		synctest.Wait()
		return
	}
	// Once is not enough: a goroutine that was seen blocked may run when the one that it waited for has ended.
	for q, looks := (quiet{}), 0; q.rounds < stillRounds && looks < mostLooks; looks++ {
		time.Sleep(time.Millisecond)
		q.look(w.events(), w.goroutines)
	}
}

// startProgram starts what the program starts. If that panics, the run is over.
func (w *world[Obj, T]) startProgram() {
	defer func() {
		if v := recover(); v != nil {
			w.x.Report("the start of the program panics: %v\n%s", v, debug.Stack())
			panic(over{})
		}
	}()
	if w.s.Start != nil {
		w.s.Start(w.env, w.target)
	} else {
		w.env.Start(w.s.Config(w.target))
	}
}

// over ends a run that cannot go on. It has been reported.
type over struct{}

// restart begins a life of the program if there is none.
func (w *world[Obj, T]) restart() {
	if w.env == nil {
		w.start(w.again())
		w.settle(settleTime)
	}
}

// again is the latest step for a new start of the program, in which the tables are filled in the same way.
func (w *world[Obj, T]) again() check.Step {
	return check.Step{State: w.at.State, Reversed: w.at.Reversed}
}

// step brings the table to a state.
func (w *world[Obj, T]) step(s check.Step) {
	w.at = s
	if w.env == nil {
		w.start(s)
	} else {
		w.write(s)
	}
	if w.txn == nil {
		w.settle(settleTime)
	}
}

// write writes what differs between the tables and a state: in one transaction, or one by one if the step is reversed. The
// transaction goes on with the next state if the step is squashed. The tables of a new life are initialised after that, or
// each after its own rows if the step is reversed.
func (w *world[Obj, T]) write(s check.Step) {
	if w.txn == nil {
		w.txn = w.writeTxn()
	}
	var deletes, inserts []change
	for _, table := range w.tables {
		gone, came, err := table.changes(w.txn, s.State)
		if err != nil {
			w.t.Fatal(err)
		}
		deletes = append(deletes, gone...)
		if !s.Reversed {
			inserts = append(inserts, came...)
			continue
		}
		slices.Reverse(came)
		if !w.initialised {
			came = append(came, table.initialise)
		}
		inserts = slices.Concat(came, inserts)
	}
	changes := slices.Concat(deletes, inserts)
	for i, change := range changes {
		change(w.txn)
		if s.Reversed && i < len(changes)-1 {
			w.txn.Commit()
			w.env.idle()
			w.txn = w.writeTxn()
		}
	}
	if !s.Reversed && !w.initialised {
		if !s.Squashed {
			w.txn.Commit()
			w.txn = w.writeTxn()
		}
		for _, table := range w.tables {
			table.initialise(w.txn)
		}
	}
	w.initialised = true
	if !s.Squashed {
		w.txn.Commit()
		w.txn = nil
	}
}

// writeTxn returns a transaction of the tables of the states.
func (w *world[Obj, T]) writeTxn() statedb.WriteTxn {
	var metas []statedb.TableMeta
	for _, table := range w.tables {
		metas = append(metas, table.meta())
	}
	return w.env.DB.WriteTxn(metas...)
}

// removeAbsent deletes each row that is deleted already once more: it is inserted and deleted in one transaction, so that
// the reconcilers of its table see a deletion.
func (w *world[Obj, T]) removeAbsent() {
	txn := w.writeTxn()
	for _, table := range w.tables {
		if w.tb.started[table.meta().Name()] > 0 {
			table.insertAndDelete(txn)
		}
	}
	txn.Commit()
	w.settle(settleTime)
	for _, c := range w.x.Failed() {
		w.x.Report("%s, which the target does not have, fails: %s", c.Name, c.Err)
	}
}

// stop stops all lives of the program, and reports one that does not stop.
func (w *world[Obj, T]) stop() (stopped bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, tb := range w.lives {
			tb.Release()
			tb.end()
		}
	}()
	select {
	case <-done:
		return true
	case <-time.After(stopTime):
		for _, c := range w.x.Running() {
			w.x.Report("%s does not heed its context: it runs a minute after the stop", c.Name)
		}
		w.x.Report("the program does not stop within a minute")
		return false
	}
}

// leaks reports the goroutines that outlive the stop. In real time each has 20 s, since those of a client may wait for a busy
// server.
func (w *world[Obj, T]) leaks() {
	looks, pause := 100, stopTime
	if w.s.RealTime {
		looks, pause = mostLooks, 10*time.Millisecond
	}
	for ; ; looks-- {
		left := slices.Collect(maps.Values(w.goroutines()))
		if len(left) == 0 {
			return
		}
		if looks == 0 {
			w.x.Report("%d goroutines outlive the stop, such as\n%s", len(left), left[0])
			return
		}
		if !w.s.RealTime {
			synctest.Wait()
		}
		time.Sleep(pause)
	}
}
