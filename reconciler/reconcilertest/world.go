// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/internal/edgehook"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/rows"
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
	states [][]Obj
	hashes map[uintptr]uint64
	hashed []hashed[Obj]
	before map[string]string // the goroutines at the begin of the run

	env   *Env[Obj]
	tb    *lifeTB
	lives []*lifeTB
	txn   statedb.WriteTxn // of squashed steps; nil otherwise
	rows  map[string]Obj   // as they were written to the table, by key
	state int
	lists bool
	// compares is true if each reconciler lists its target with values, and compares them.
	compares bool
}

type hashed[Obj any] struct {
	obj  Obj
	hash uint64
}

func newWorld[Obj, T any](s *Subject[Obj, T], t testing.TB, p check.Plan) *world[Obj, T] {
	run := newRunTB(t, t.Context())
	w := &world[Obj, T]{s: s, t: &run, x: check.NewInjector(p.Faults), rec: &check.Record{}, hashes: map[uintptr]uint64{}}
	w.states = s.States(rand.New(rand.NewPCG(s.Seed, 0)))
	for _, state := range w.states {
		for _, obj := range state {
			hash := check.Hash(obj)
			w.hashed = append(w.hashed, hashed[Obj]{obj, hash})
			if at := address(obj); at != 0 {
				w.hashes[at] = hash
			}
		}
	}
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
	for _, row := range w.hashed {
		if check.Hash(row.obj) != row.hash {
			w.x.Report("a row was changed after it was written: %s", describeRow(row.obj))
			break
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
	w.tb = &lifeTB{runTB: newRunTB(w.t.TB, edgehook.With(w.t.TB.Context(), l.Hook())), life: l}
	w.lives = append(w.lives, w.tb)
	w.env = New(w.tb, w.s.Table)
	w.env.life = l
	w.rows = map[string]Obj{}
	var initialised func(statedb.WriteTxn)
	w.env.Write(func(wtxn statedb.WriteTxn) { initialised = w.env.Table.RegisterInitializer(wtxn, "states") })
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
	if w.txn != nil {
		initialised(w.txn)
		return
	}
	w.env.Write(initialised)
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
		w.start(check.Step{State: w.state})
		w.settle(settleTime)
	}
}

// step brings the table to a state.
func (w *world[Obj, T]) step(s check.Step) {
	w.state = s.State
	if w.env == nil {
		w.start(s)
	} else {
		w.write(s)
	}
	if w.txn == nil {
		w.settle(settleTime)
	}
}

// write writes what differs between the table and a state: in one transaction, or one by one if the step is reversed. The
// transaction goes on with the next state if the step is squashed.
func (w *world[Obj, T]) write(s check.Step) {
	type keyed struct {
		key string
		obj Obj
	}
	var wanted []keyed
	index := w.env.Table.PrimaryIndexer()
	if s.State != check.Empty {
		for _, obj := range w.states[s.State] {
			key, err := rows.KeyOf(index, obj)
			if err != nil {
				w.t.Fatalf("a row of state %d: %s", s.State, err)
			}
			wanted = append(wanted, keyed{string(key), obj})
		}
	}
	slices.SortStableFunc(wanted, func(a, b keyed) int { return bytes.Compare([]byte(a.key), []byte(b.key)) })
	if s.Reversed {
		slices.Reverse(wanted)
	}
	if w.txn == nil {
		w.txn = w.env.DB.WriteTxn(w.env.Table)
	}
	var changes []func()
	for row := range w.env.Table.All(w.txn) {
		key, err := rows.KeyOf(index, row)
		if err != nil || !slices.ContainsFunc(wanted, func(k keyed) bool { return k.key == string(key) }) {
			changes = append(changes, func() { _, _, _ = w.env.Table.Delete(w.txn, row) })
			delete(w.rows, string(key))
		}
	}
	for _, k := range wanted {
		if had, ok := w.rows[k.key]; !ok || !reflect.DeepEqual(had, k.obj) {
			changes = append(changes, func() { _, _, _ = w.env.Table.Insert(w.txn, k.obj) })
			w.rows[k.key] = k.obj
		}
	}
	for i, change := range changes {
		change()
		if s.Reversed && i < len(changes)-1 {
			w.txn.Commit()
			w.env.idle()
			w.txn = w.env.DB.WriteTxn(w.env.Table)
		}
	}
	if !s.Squashed {
		w.txn.Commit()
		w.txn = nil
	}
}

// removeAbsent deletes each row that is deleted already once more.
func (w *world[Obj, T]) removeAbsent() {
	seen := map[string]bool{}
	for _, row := range w.hashed {
		key, err := rows.KeyOf(w.env.Table.PrimaryIndexer(), row.obj)
		if err != nil || seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		for _, remove := range w.tb.removes {
			if err := w.removed(row.obj, remove); err != nil && outcome.Of(err) == nil {
				w.x.Report("the deletion of %s, which the target does not have, fails: %s", describeRow(row.obj), err)
			}
		}
	}
}

// removed deletes a row that is absent. A panic is an error.
func (w *world[Obj, T]) removed(obj Obj, remove func(context.Context, statedb.ReadTxn, any) error) (err error) {
	ctx, cancel := context.WithTimeout(w.env.Context(), timeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return remove(ctx, w.env.DB.ReadTxn(), obj)
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

// leaks reports the goroutines that outlive the stop. One that is not blocked may be about to end.
func (w *world[Obj, T]) leaks() {
	var left []string
	for looks, all := 0, 0; looks < 100 && all < mostLooks; all++ {
		left = left[:0]
		blocked := true
		for _, stack := range w.goroutines() {
			left = append(left, stack)
			blocked = blocked && check.Blocked(stack)
		}
		if len(left) == 0 {
			return
		}
		if !w.s.RealTime {
			looks++
			synctest.Wait()
			time.Sleep(stopTime)
			continue
		}
		if blocked {
			looks++
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.x.Report("%d goroutines outlive the stop, such as\n%s", len(left), left[0])
}
