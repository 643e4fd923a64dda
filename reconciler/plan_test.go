// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// plan returns the plan of now, without its times.
func (e *env) plan(loop *reconciler.Loop[*object]) inspect.Plan {
	e.Helper()
	p, err := loop.Plan(e.Context())
	require.NoError(e, err)
	p.Started, p.Took = time.Time{}, 0
	return p
}

// planning is a bubble with a loop that does not run yet. run runs it.
func planning(t *testing.T, rows, target map[uint64]int, change func(e *env, w *world, cfg *reconciler.Config[*object]), test func(e *env, w *world, loop *reconciler.Loop[*object], run func())) {
	for _, ledger := range []string{"rows", "beside"} {
		t.Run(ledger, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, w, loop, run := newPlanning(t, ledger, rows, target, change)
				test(e, w, loop, run)
				synctest.Wait()
				e.stop()
			})
		})
	}
}

func newPlanning(t *testing.T, ledger string, rows, target map[uint64]int, change func(e *env, w *world, cfg *reconciler.Config[*object])) (*env, *world, *reconciler.Loop[*object], func()) {
	e := newEnv(t)
	w := &world{target: e.target}
	w.as(target)
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		e.put(rows[id], id)
	}
	cfg := e.config()
	cfg.Lister, cfg.Equal = w, func(wanted, found *object) bool { return wanted.Value == found.Value }
	cfg.Diff = func(wanted, found *object) string { return fmt.Sprintf("%d != %d", wanted.Value, found.Value) }
	if ledger == "beside" {
		beside(e, &cfg)
	}
	if change != nil {
		change(e, w, &cfg)
	}
	loop, err := reconciler.New(cfg)
	require.NoError(e, err)
	e.loop = loop
	return e, w, loop, func() {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx) }()
		e.stop = func() { cancel(); require.NoError(t, <-ended) }
	}
}

func TestPlanSaysWhatTheStartDoes(t *testing.T) {
	rows, target := map[uint64]int{1: 1, 2: 2, 3: 3}, map[uint64]int{1: 1, 2: 7, 9: 9}
	planning(t, rows, target, nil, func(e *env, w *world, loop *reconciler.Loop[*object], run func()) {
		p := e.plan(loop)
		require.Equal(e, inspect.Plan{Reconciler: "objects", Resync: inspect.Resync{
			Listed: 3, Equal: 1, Different: 1, Missing: 1, Orphan: 1,
			Differences: []inspect.Difference{
				{Key: "2", Kind: inspect.Different, Status: "Pending", Diff: "2 != 7"},
				{Key: "3", Kind: inspect.Missing, Status: "Pending"},
				{Key: "9", Kind: inspect.Orphan},
			},
		}, Adopted: 1}, p)
		require.Equal(e, 3, p.Operations())
		require.Empty(e, w.changes(), "a plan calls no operation")
		run()
		e.pass(time.Second)
		require.Equal(e, []string{"delete(9)", "update(2)", "update(3)"}, w.changes())
		p = e.plan(loop)
		require.Zero(e, p.Operations())
		require.Equal(e, "nothing to do; 3 equal", p.Summary())
	})
}

// "Only report" is a pause, and plans.
func TestPlanDuringAPauseSaysWhatItsEndAndAResyncDo(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
	planning(t, rows, rows, nil, func(e *env, w *world, loop *reconciler.Loop[*object], run func()) {
		run()
		e.pass(time.Second)
		require.Empty(e, w.changes())
		loop.Pause()
		e.put(20, 2) // the target does not know
		e.put(30, 3) // the target has it already
		e.remove(4)
		w.as(map[uint64]int{1: 7, 2: 2, 3: 30, 4: 4, 8: 8})
		e.pass(time.Second)
		p := e.plan(loop)
		require.Equal(e, []inspect.Difference{
			{Key: "1", Kind: inspect.Different, Diff: "1 != 7"},
			{Key: "2", Kind: inspect.Different, Status: "Pending", Diff: "20 != 2"},
			{Key: "5", Kind: inspect.Missing},
			{Key: "4", Kind: inspect.Orphan}, {Key: "8", Kind: inspect.Orphan},
		}, p.Differences)
		require.Equal(e, 1, p.Equal)
		require.Equal(e, 1, p.Reapplied, "the loop no longer adopts")
		require.Equal(e, `objects: 6 operation(s) to do: 2 different, 1 missing, 2 orphan, 1 equal and not Done; 1 equal`,
			strings.SplitN(p.String(), "\n", 2)[0])
		e.pass(time.Hour)
		require.Empty(e, w.changes(), "it is paused")
		loop.Resume()
		loop.Resync()
		e.pass(time.Second)
		require.Equal(e, []string{"delete(4)", "delete(8)", "update(1)", "update(2)", "update(3)", "update(5)"}, w.changes())
	})
}

// listsTwice lists each object of a world, those in twice twice.
type listsTwice struct {
	*world
	twice map[uint64]bool
}

func (l listsTwice) List(ctx context.Context, txn statedb.ReadTxn, yield func(*object) bool) error {
	return l.world.List(ctx, txn, func(o *object) bool {
		return yield(o) && (!l.twice[o.ID] || yield(o))
	})
}

// chained are operations of which each needs the object before, if there is a row for it, and deletes after the object behind.
type chained struct {
	reconciler.Operations[*object]
	e    *env
	rows bool // they carry the status
}

func (n chained) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, o *object) error {
	before := idIndex.Query(o.ID - 1)
	if row, _, found := n.e.table.Get(txn, before); found && (!n.rows || row.Status.Kind != reconciler.StatusKindUnset) {
		if _, err := reconciler.NeedApplied[*object](ctx, txn, nil, before, "the object before"); err != nil {
			return err
		}
	}
	return n.Operations.Update(ctx, txn, revision, o)
}

func (n chained) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, o *object) error {
	behind := func(other *object) bool { return other.ID == o.ID+1 }
	if err := reconciler.NeedDeleted(ctx, nil, behind, "the object behind"); err != nil {
		return err
	}
	return n.Operations.Delete(ctx, txn, revision, o)
}

// Without other writers, the operations that follow a plan are those that it has, before the start, during a pause, and with
// rows that have failed or are blocked, even if they need each other.
func TestPlanEqualsTheOperationsThatFollow(t *testing.T) {
	first := rand.Uint64()
	t.Logf("the first seed is %d", first)
	adopted := 0
	defer func() { require.True(t, t.Failed() || adopted > 0, "no row has become Done without an operation") }()
	for i := range uint64(long.Times(1000)) {
		seed := first + i
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			adopted += planOnce(t, rand.New(rand.NewPCG(seed, 0)))
		})
		if t.Failed() {
			return
		}
	}
}

// planOnce returns how many rows that have failed or are blocked have become Done.
func planOnce(t *testing.T, r *rand.Rand) (adopted int) {
	some := func(most int) map[uint64]int {
		m := map[uint64]int{}
		for range r.IntN(12) {
			m[r.Uint64N(12)+1] = r.IntN(most)
		}
		return m
	}
	ledger := []string{"rows", "beside"}[r.IntN(2)]
	compares := []string{"equal", "equal", "keys", "orphans only"}[r.IntN(4)]
	when := []string{"before", "before", "paused", "paused", "failing"}[r.IntN(5)]
	chains := r.IntN(3) == 0 && when != "failing" // what is released there may be called before the resync
	var l listsTwice
	e, w, loop, run := newPlanning(t, ledger, some(3), some(3), func(e *env, w *world, cfg *reconciler.Config[*object]) {
		if chains {
			cfg.Operations = chained{e.target, e, ledger == "rows"}
		} else {
			operate([]string{"single", "batches", "rounds"}[r.IntN(3)])(e, cfg)
		}
		l = listsTwice{w, map[uint64]bool{}}
		for id := range uint64(12) {
			l.twice[id+1] = r.IntN(8) == 0
		}
		cfg.Lister = l
		cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) {
			s.Concurrency, s.BlockedRecheck = 1+3*r.IntN(2), 0
			if r.IntN(4) == 0 {
				s.ListTimeout = 0 // nothing is adopted
			}
		}))
		if compares != "equal" {
			cfg.Equal, cfg.Diff = nil, nil
			cfg.OrphansOnly = compares == "orphans only"
		}
	})
	if ledger == "rows" && r.IntN(2) == 0 {
		e.Insert(&object{ID: 11, Value: 1}) // without a status: it is left alone
		e.Insert(&object{ID: 12, Value: 1, Status: reconciler.StatusRefreshing()})
	}
	write := func(remove bool) {
		for range r.IntN(6) {
			switch id := r.Uint64N(10) + 1; {
			case remove && r.IntN(3) == 0:
				if e.get(id) != nil {
					e.remove(id)
				}
			default:
				e.put(r.IntN(3), id)
			}
		}
	}
	switch when {
	case "failing":
		run()
		e.pass(time.Minute)
		w.deciding(func(c call) error {
			return []error{
				reconciler.TerminalError(errors.New("bad")), reconciler.RetryAfter(errors.New("down"), time.Hour), reconciler.Blocked("odd"), nil,
			}[c.id%4]
		})
		write(false)
		e.pass(time.Second)
		w.deciding(nil)
		w.as(some(3))
	case "paused":
		run()
		if r.IntN(4) > 0 {
			e.pass(time.Minute) // else the pause begins before the first listing has ended
		}
		loop.Pause()
		e.pass(time.Millisecond)
		w.as(some(3))
		write(true)
		e.pass(time.Duration(r.IntN(100)) * time.Millisecond)
	}
	before := w.holds()
	w.take()
	p := e.plan(loop)
	require.Empty(t, w.changes(), "a plan calls no operation")
	again := e.plan(loop)
	require.Equal(t, p, again, "a plan leaves no trace")
	if e.stop != nil {
		loop.Resume()
	}
	if !loop.Snapshot(t.Context()).Started.IsZero() {
		loop.Resync()
	} else {
		run()
	}
	e.pass(time.Minute)
	if when == "failing" {
		adopted = p.Adopted
		_, err := loop.Retry(t.Context())
		require.NoError(t, err)
		e.pass(time.Minute)
	}

	operations := map[string]string{}
	n := 0
	for _, c := range w.take() {
		if _, had := before[c.id]; c.op == "delete" && !had {
			continue // the deletion of a row that the target never had changes nothing
		}
		n++
		operations[strconv.FormatUint(c.id, 10)] = c.op
	}
	for _, d := range p.Differences {
		op := "update"
		if d.Kind == inspect.Orphan {
			op = "delete"
		}
		require.Equal(t, op, operations[d.Key], "%s, %s: %+v of the plan\n%s\noperations: %v", ledger, compares, d, p, operations)
	}
	least, most := p.Operations(), p.Operations()
	if chains {
		// What is equal may be blocked until the resync, and Done then. What was blocked when the pause began may be released
		// by a deletion during the pause, and called before the resync.
		least, most = least-p.Reapplied, most+p.Adopted
	}
	require.True(t, least <= n && n <= most, "%s, %s:\n%soperations: %v, target before: %v", ledger, compares, p, operations, before)
	require.Len(t, operations, n, "one operation a key")
	p = e.plan(loop)
	require.Zero(t, p.Operations()+p.Adopted, "afterwards there is nothing to do")
	return adopted
}

func TestPlanWaitsForTheTableAndForTheListingOfTheLoop(t *testing.T) {
	var done func()
	planning(t, map[uint64]int{1: 1}, nil, func(e *env, w *world, _ *reconciler.Config[*object]) {
		e.write(func(wtxn statedb.WriteTxn) {
			end := e.table.RegisterInitializer(wtxn, "source")
			done = func() { e.write(end) }
		})
		w.set(nil, func(context.Context) { time.Sleep(10 * time.Second) })
	}, func(e *env, w *world, loop *reconciler.Loop[*object], run func()) {
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		_, err := loop.Plan(ctx)
		cancel()
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.ErrorContains(e, err, "the table is not initialised, it waits for source")
		require.Zero(e, w.listed())

		done()
		run()
		e.pass(time.Second) // the first listing lists
		began := time.Now()
		p := e.plan(loop)
		require.Equal(e, 19*time.Second, time.Since(began), "it lists after the loop")
		// The operation of the row has ended while the plan listed.
		require.Zero(e, p.Operations())
		ctx, cancel = context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		_, err = loop.Plan(ctx)
		require.ErrorIs(e, err, context.DeadlineExceeded)
	})
}

// The loop lists after a plan, and the plan is not its first listing.
func TestPlanTakesNoPartInTheAdoption(t *testing.T) {
	planning(t, map[uint64]int{1: 1}, map[uint64]int{1: 1}, func(_ *env, w *world, _ *reconciler.Config[*object]) {
		w.set(nil, func(context.Context) { time.Sleep(10 * time.Second) })
	}, func(e *env, w *world, loop *reconciler.Loop[*object], run func()) {
		planned := make(chan inspect.Plan)
		go func() { planned <- e.plan(loop) }()
		synctest.Wait()
		run()
		e.pass(9 * time.Second)
		require.Equal(e, 1, w.listed())
		w.as(map[uint64]int{1: 7})
		require.Zero(e, (<-planned).Operations())
		e.pass(11 * time.Second)
		require.Equal(e, []string{"update(1)"}, w.changes(), "the first listing comes after the plan")
		require.Equal(e, 3, w.listed())
	})
}

func TestListKnowsThatItIsForAPlan(t *testing.T) {
	var asked []bool
	planning(t, nil, nil, func(_ *env, w *world, _ *reconciler.Config[*object]) {
		asked = nil
		w.set(nil, func(ctx context.Context) { asked = append(asked, reconciler.IsPlan(ctx)) })
	}, func(e *env, w *world, loop *reconciler.Loop[*object], run func()) {
		e.plan(loop)
		run()
		e.pass(time.Second)
		require.Equal(e, []bool{true, false, false}, asked)
	})
}

func TestPlanReportsWhatItCannot(t *testing.T) {
	planning(t, map[uint64]int{1: 1}, nil, nil, func(e *env, w *world, loop *reconciler.Loop[*object], run func()) {
		without := e.config()
		none, err := reconciler.New(without)
		require.NoError(e, err)
		_, err = none.Plan(e.Context())
		require.EqualError(e, err, `reconciler "objects": there is no plan without a list of the target: set Config.Lister`)

		w.set(errors.New("no route"), nil)
		_, err = loop.Plan(e.Context())
		require.EqualError(e, err, `reconciler "objects": plan: no route`)
		w.set(nil, func(context.Context) { panic("oh") })
		_, err = loop.Plan(e.Context())
		require.ErrorContains(e, err, "panic in list: oh")
		var inside error
		w.set(nil, func(ctx context.Context) { _, inside = loop.Plan(ctx) })
		e.plan(loop)
		require.ErrorIs(e, inside, reconciler.ErrInOperation)
		w.set(nil, nil)

		run()
		e.pass(time.Second)
		entered := make(chan struct{})
		w.set(nil, func(ctx context.Context) { close(entered); <-ctx.Done() })
		failed := make(chan error)
		go func() { _, err := loop.Plan(e.Context()); failed <- err }()
		<-entered
		stopped := make(chan struct{})
		go func() { e.stop(); close(stopped) }()
		require.ErrorIs(e, <-failed, inspect.ErrStopped)
		<-stopped
		_, err = loop.Plan(e.Context())
		require.ErrorIs(e, err, inspect.ErrStopped)
		e.stop = func() {}
	})
}

func TestPlanNamesWhatNeedsAPerson(t *testing.T) {
	planning(t, map[uint64]int{1: 1}, map[uint64]int{1: 1, 7: 7, 8: 8, 9: 9}, func(_ *env, _ *world, cfg *reconciler.Config[*object]) {
		cfg.Options = append(cfg.Options, reconciler.WithOrphanBudget(2, 0))
	}, func(e *env, _ *world, loop *reconciler.Loop[*object], _ func()) {
		p := e.plan(loop)
		require.Equal(e, 3, p.Orphan)
		require.Contains(e, p.Error, "the table has no row for 3 of the 4 objects in the target, more than the budget of 2 objects")
		require.Contains(e, p.Summary(), "until a person approves it")
	})
}

// No budget bounds deletions of rows.
func TestPlanAboveTheBudgetSaysThatDeletionsOfRowsNeedNoApproval(t *testing.T) {
	rows := map[uint64]int{1: 1, 2: 2, 3: 3, 4: 4}
	planning(t, rows, rows, func(_ *env, _ *world, cfg *reconciler.Config[*object]) {
		cfg.Options = append(cfg.Options, reconciler.WithOrphanBudget(2, 0))
	}, func(e *env, w *world, loop *reconciler.Loop[*object], run func()) {
		run()
		e.pass(time.Second)
		loop.Pause()
		for id := range uint64(3) {
			e.remove(id + 1)
		}
		require.Contains(e, e.plan(loop).Error, "deletions of rows, which are counted here too, need none")
		loop.Resume()
		loop.Resync()
		e.pass(time.Second)
		require.Equal(e, []string{"delete(1)", "delete(2)", "delete(3)"}, w.changes())
		require.Empty(e, e.plan(loop).Error)
	})
}

// It is on the goroutine of the caller.
func TestListOfAPlanThatEndsItsGoroutineKeepsNothingWaiting(t *testing.T) {
	planning(t, map[uint64]int{1: 1}, map[uint64]int{1: 1, 2: 2}, nil, func(e *env, w *world, loop *reconciler.Loop[*object], run func()) {
		for _, start := range []func(){run, func() {}} {
			w.set(nil, func(context.Context) { runtime.Goexit() })
			ended := make(chan struct{})
			go func() { defer close(ended); _, _ = loop.Plan(e.Context()) }()
			<-ended
			w.set(nil, nil)
			p := e.plan(loop)
			start()
			e.pass(time.Second)
			require.Len(e, w.take(), p.Operations())
		}
	})
}

func TestPlanKeepsTheFirstThousandDifferences(t *testing.T) {
	target := map[uint64]int{}
	for id := range uint64(1500) {
		target[id+1] = 1
	}
	planning(t, nil, target, nil, func(e *env, _ *world, loop *reconciler.Loop[*object], _ func()) {
		p := e.plan(loop)
		require.Equal(e, 1500, p.Orphan)
		require.Len(e, p.Differences, 1000)
		require.Contains(e, p.String(), "500 further difference(s)")
	})
}

func TestFirstListingThatFailsIsInExplainAndInWaits(t *testing.T) {
	resyncing(t, begin{rows: map[uint64]int{1: 1, 2: 2}, change: func(_ *env, w *world, _ *reconciler.Config[*object]) {
		w.set(errors.New("no route"), nil)
	}}, func(e *env, w *world, _ func()) {
		e.pass(500 * time.Millisecond) // after 0, 100 and 300 ms
		const why = "waits for the first listing of the target, which has failed 3 times: no route"
		require.Equal(e, "it "+why, e.loop.Explain(e.Context(), "1").Why)
		wait := func(wait func(ctx context.Context) (inspect.Unapplied, error), keys ...string) {
			e.Helper()
			ctx, cancel := context.WithTimeout(e.Context(), time.Millisecond)
			defer cancel()
			rest, err := wait(ctx)
			require.ErrorIs(e, err, context.DeadlineExceeded)
			require.Len(e, rest.Keys, len(keys))
			for i, u := range rest.Keys {
				require.Equal(e, inspect.StateUnseen, u.State)
				require.Equal(e, keys[i]+": unseen: "+why, u.Error())
			}
		}
		wait(func(ctx context.Context) (inspect.Unapplied, error) { return e.loop.WaitAll(ctx, reconciler.Applied) },
			"0x0000000000000001", "0x0000000000000002")
		wait(func(ctx context.Context) (inspect.Unapplied, error) {
			return e.loop.WaitFor(ctx, reconciler.Applied, &object{ID: 2})
		}, "0x0000000000000002")
		w.set(nil, nil)
		_, err := e.loop.WaitAll(e.Context(), reconciler.Applied)
		require.NoError(e, err)
	})
}
