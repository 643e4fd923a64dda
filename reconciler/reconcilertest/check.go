// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/reconciler"
)

// Subject is what [Check] checks: operations, a derivation, a source, or all that stands between rows and a target. Obj
// is the type of the rows, T that of the target, such as a fake of the kernel.
type Subject[Obj, T any] struct {
	// Target returns an empty target. It is called once for each run; the cleanups of t run at its end. Required.
	Target func(t testing.TB) T
	// Dump returns all that the target has: a value for each name, both as a person reads them. It leaves out what may
	// differ between two targets that are equally right, such as numbers that are allocated. It should not use the
	// operations' own listing, which may forget what they forget. Required.
	Dump func(target T) map[string]string

	// Table makes the table whose rows are the states. It is called once for each start of the program. Required.
	Table func(db *statedb.DB) (statedb.RWTable[Obj], error)
	// States returns the states of the table: the rows of each. The rows have to be new ones each time; r is the same
	// each time, for states that are generated. If the rows carry the status, it is Pending. Two to five states with two
	// to five rows each are enough for most. Required.
	States func(r *rand.Rand) [][]Obj

	// Further are further tables with rows in each state, for a program of several kinds. A state is written to all tables in
	// one transaction; or row by row, where rows are deleted in the order of the tables, Table first, and inserted in
	// the opposite order, and each table is initialised after its own rows. So list a table after those that its rows need.
	// Start is required then; it gets the tables from [TableOf].
	Further []Further

	// Config returns the configuration of the reconciler, with new operations on the target, as at a start of the
	// program. DB and Table are those of the run. Either Config or Start is required.
	Config func(target T) reconciler.Config[Obj]
	// Start starts what the program starts, in place of Config: derivations, sources and triggers with [Go], and
	// reconcilers with [Env.Start] or [Start]. What it starts ends with e.Context, which also is the context to give to
	// the steps (package edge) of a target that has no context of an operation. Close derivations and sources with
	// e.Cleanup: statedb's trackers of deletions must end with the bubble.
	Start func(e *Env[Obj], target T)

	// Foreign adds objects of somebody else to the target, which must stay as they are. It is called once in each run,
	// before the first start. nil adds none.
	Foreign func(target T)
	// Refused are operations, as reports and plans name them, such as "update admin" or, of a table of Further, "users: update
	// admin". They must not succeed, because Foreign has made what their rows want, and the rows do not have to be applied.
	Refused []string
	// Outside are changes that somebody else makes to the target, by a name for the report, such as "a route is deleted".
	// One is made at each point of the operations. What a change adds has to be removed only if the configuration has a
	// Pruner or a Lister.
	Outside map[string]func(target T)

	// Without are the names of faults that the target cannot have, as reports and plans name them, such as "success
	// without effect". They are left out. An unknown name is an error.
	Without []string

	// Timeout is how long a call may take: one of an operation, if its configuration has no Settings.Timeout, and a listing.
	// Zero means a second for an operation and four for a listing, or ten seconds and a minute in real time. A negative one
	// is an error.
	Timeout time.Duration

	// RealTime is for a target that does not fit into a bubble of testing/synctest, such as a kernel or a server. A run
	// then takes some tenths of a second, and backoffs are short. The target is
	// compared when no reconciler has work and each goroutine of the program was seen blocked several times, however busy the
	// machine is. A goroutine that only looks at something from time to time has to do so every few milliseconds. The test must
	// not run in parallel with others, whose goroutines would count as those of the program, and as left behind.
	RealTime bool
	// Runs bounds the number of plans with faults; the ways without faults are always run. Zero means 1000, or 100 in real
	// time. A negative number is an error.
	Runs int
	// Seed chooses among the plans with faults if there are more than Runs, and is that of the rand.Rand of States. The test
	// logs it.
	Seed uint64
	// Plan is the plan of a report, to run it alone. Empty means all.
	Plan string
}

// Check tests that the target ends as a fresh start on the same rows leaves it: on whatever way the rows came there, and
// whatever went wrong on the way, once that is over. It runs plans of these kinds, and fails the test with the first
// that shows a bug, after it has left out of it what the bug does not need:
//
//  1. Ways through the states without faults: as listed, each from empty, backwards, with the keys in reverse, with an
//     empty table between, all at once, and via another state and back.
//  2. One fault at each point: at each call of an operation, and at each step that the target marks with edge.Do. The
//     faults are an error before or after the effect, success without effect, an effect that comes late, half a batch,
//     a timeout, a panic, a context that has ended, a kill and a new start on the same target, or with the next state,
//     and each change of Outside.
//  3. One point that fails for as long as the states change. Objects that have no part in it must be applied meanwhile.
//  4. Pairs of faults at random.
//
// With [reconciler.Config].Lister another resync must find nothing in the settled target. With Equal, too, a resync takes the
// place of the refresh, and neither another one nor a new start may call an operation. In a run Settings.ListTimeout is
// that of Subject.Timeout: a listing has to take less. There is no periodic refresh then.
//
// After the last fault everything that waits is retried and pruned, and refreshed if the operations cannot know of the
// fault: success without effect, a late effect, a change from outside. Then all rows have to be applied, the
// dump has to be that of a fresh start, another refresh must change nothing, and neither must the deletion of what is
// absent. Once all rows are deleted, what is left is what was there before. Operations must heed their context, must not
// change the row that they were given, and must leave no goroutine behind.
//
// A run has its own database and target, and runs in a bubble of testing/synctest, in virtual time. A goroutine that
// waits for a mutex holds up that time: after five seconds the test ends with the goroutines. So no lock may be held
// around edge.Do.
func Check[Obj, T any](t *testing.T, s Subject[Obj, T]) {
	t.Helper()
	if err := s.validate(); err != nil {
		t.Fatal(err)
	}
	if s.Runs == 0 {
		s.Runs = 1000
		if s.RealTime {
			s.Runs = 100
		}
	}
	tables, err := s.tables()
	if err != nil {
		t.Fatal(err)
	}
	states := tables[0].count()
	unknown := slices.Clone(s.Refused) // calls that no run has made
	subject := &check.Subject{
		States: states, Outside: slices.Sorted(maps.Keys(s.Outside)), Runs: s.Runs, Seed: s.Seed, Logf: t.Logf,
		Run: func(p check.Plan) *check.Record {
			rec := s.run(t, p)
			unknown = slices.DeleteFunc(unknown, rec.Has)
			return rec
		},
		Name:    func(state int) string { return describe(tables, state) },
		Without: append(check.Left(t), s.Without...),
	}
	if s.RealTime {
		t.Log("the target does not run in virtual time: the runs take real time")
	}
	var failure *check.Failure
	if s.Plan != "" {
		p, err := check.Parse(s.Plan, states)
		if err != nil {
			t.Fatalf("Subject.Plan %q: %s", s.Plan, err)
		}
		failure = check.Replay(subject, p)
	} else {
		failure = check.Find(subject)
	}
	if failure != nil && !check.Expected(t, failure) {
		t.Error(failure.Text)
	} else if failure == nil && s.Plan == "" && len(unknown) > 0 {
		t.Errorf("Subject.Refused: the program has called no %q", unknown)
	}
}

func (s *Subject[Obj, T]) validate() error {
	var missing []string
	for name, absent := range map[string]bool{
		"Target": s.Target == nil, "Dump": s.Dump == nil, "Table": s.Table == nil, "States": s.States == nil,
		"Config or Start": s.Config == nil && s.Start == nil,
	} {
		if absent {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	var errs []error
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("Subject lacks %s", strings.Join(missing, ", ")))
	}
	if s.Config != nil && s.Start != nil {
		errs = append(errs, errors.New("Subject has both Config and Start"))
	}
	if s.Runs < 0 {
		errs = append(errs, fmt.Errorf("Subject.Runs is %d, to be at least 0", s.Runs))
	}
	if s.Timeout < 0 {
		errs = append(errs, fmt.Errorf("Subject.Timeout is %s, to be at least 0", s.Timeout))
	}
	if len(s.Further) > 0 && s.Config != nil {
		errs = append(errs, errors.New("Subject has both Further and Config: start the reconcilers of all tables in Start"))
	}
	for i, further := range s.Further {
		if further == nil {
			errs = append(errs, fmt.Errorf("Subject.Further[%d] is nil", i))
		} else if missing := further.missing(); len(missing) > 0 {
			errs = append(errs, fmt.Errorf("Subject.Further[%d] lacks %s", i, strings.Join(missing, ", ")))
		}
	}
	for _, name := range s.Without {
		if !slices.Contains(check.Names(), name) {
			errs = append(errs, fmt.Errorf("Subject.Without: there is no fault %q, there are: %s", name, strings.Join(check.Names(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// tables returns the tables of a run, with rows of their own: that of Table, and those of Further.
func (s *Subject[Obj, T]) tables() ([]statedTable, error) {
	tables := []statedTable{Rows[Obj]{s.Table, s.States}.begin(s.Seed)}
	states := tables[0].count()
	if states == 0 {
		return nil, errors.New("Subject.States returns no state")
	}
	for i, further := range s.Further {
		table := further.begin(s.Seed)
		if n := table.count(); n != states {
			return nil, fmt.Errorf("Subject.Further[%d].States returns %d states, and Subject.States %d: each needs as many",
				i, n, states)
		}
		tables = append(tables, table)
	}
	return tables, nil
}

// timeouts returns how long an operation and a listing may take. That of a listing is over before a state is: while a
// listing fails for ever, the rows are applied without it.
func (s *Subject[Obj, T]) timeouts() (operation, listing time.Duration) {
	switch {
	case s.Timeout > 0:
		return s.Timeout, s.Timeout
	case s.RealTime:
		return callTime, stopTime
	default:
		return time.Second, 4 * time.Second
	}
}

// patience is how long a run may take in real time before the watchdog ends the test if everything is blocked. It waits
// mostPatience for one that computes: on a busy machine a run may take long.
const (
	patience     = 5 * time.Second
	mostPatience = time.Minute
)

// run runs a plan, in a bubble unless it is in real time.
func (s *Subject[Obj, T]) run(t *testing.T, p check.Plan) (rec *check.Record) {
	if s.RealTime {
		return newWorld(s, t, p).run(p)
	}
	var shown atomic.Pointer[world[Obj, T]]
	begun, ended := time.Now(), make(chan struct{})
	defer close(ended)
	watchdog := time.AfterFunc(patience, func() {
		for !allBlocked() && time.Since(begun) < mostPatience {
			select {
			case <-ended:
				return
			case <-time.After(patience):
			}
		}
		w := shown.Load()
		if w == nil || s.Plan != "" {
			return // the states take long, or somebody looks at one plan with a debugger
		}
		buf := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "reconcilertest: a run takes longer than %s, plan %q.\nSomething waits for a mutex that a step holds, "+
			"or does not end.\nThese calls have not returned: %q. At these the program was killed: %q.\n\n%s\n",
			time.Since(begun).Round(time.Second), p, w.x.Running(), w.x.Parked(), buf[:runtime.Stack(buf, true)])
		panic("reconcilertest: a run does not go on")
	})
	defer watchdog.Stop()
	defer func() {
		// What outlives the bubble makes it panic. The run has reported it.
		w := shown.Load()
		if v := recover(); v != nil {
			if !strings.Contains(fmt.Sprint(v), "deadlock") || w == nil {
				panic(v)
			}
			rec = w.record()
			if len(rec.Wrong) == 0 {
				rec.Wrong = []string{fmt.Sprint(v)}
			}
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(s, t, p)
		shown.Store(w)
		rec = w.run(p)
	})
	if rec == nil {
		t.SkipNow() // Target has skipped the test
	}
	return rec
}

// allBlocked reports whether no other goroutine runs, or waits for the processor.
func allBlocked() bool {
	for _, stack := range check.Goroutines() {
		if !check.Blocked(stack) {
			return false
		}
	}
	return true
}

// describe returns the rows of a state in one line.
func describe(tables []statedTable, state int) string {
	var texts []string
	for _, table := range tables {
		if text := table.describe(state); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// describeRow returns the text of the row, or its fields.
func describeRow(obj any) string {
	if s, ok := obj.(fmt.Stringer); ok {
		return s.String()
	}
	return strings.TrimPrefix(fmt.Sprintf("%+v", obj), "&")
}
