// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package needs

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type row struct {
	id   string
	done bool
}

var byID = statedb.Index[*row, string]{
	Name: "id", Unique: true, FromKey: index.String,
	FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.id)) },
}

// env is a table whose rows say whether they are done, with the needs of a loop of it. The test is the loop.
type env struct {
	*testing.T
	*Needs[*row]
	db    *statedb.DB
	table statedb.RWTable[*row]
	// deletions are those that the loop has and has not carried out.
	deletions map[string]*row
	// entries are the keys of which the loop knows something else.
	entries map[string]bool
	// woken counts the calls of Wake.
	woken atomic.Int64
}

func newEnv(t *testing.T) *env {
	e := &env{T: t, db: statedb.New(), deletions: map[string]*row{}, entries: map[string]bool{}}
	var err error
	e.table, err = statedb.NewTableAny(e.db, "rows", nil, nil, byID)
	require.NoError(t, err)
	e.Needs = New(Config[*row]{
		Rows: rows.NewBeside(e.db, e.table), Name: "keeper", Started: func() bool { return true },
		Paused: func() bool { return false }, Wake: func() { e.woken.Add(1) },
		Status: func(_ statedb.ReadTxn, r *row, _ statedb.Revision) status.Status {
			if r.done {
				return status.Done()
			}
			return status.Pending()
		},
		Key: func(key string) (core.KeyInfo[*row], bool) {
			_, has := e.deletions[key]
			return core.KeyInfo[*row]{Deleted: has}, has || e.entries[key]
		},
		Deletions: func() iter.Seq2[string, *row] { return maps.All(e.deletions) },
	})
	return e
}

func (e *env) put(id string, done bool) statedb.Revision {
	wtxn := e.db.WriteTxn(e.table)
	_, _, err := e.table.Insert(wtxn, &row{id, done})
	require.NoError(e, err)
	return e.table.Revision(wtxn.Commit())
}

func (e *env) check() {
	for e.Check(e.table.Revision(e.db.ReadTxn())) {
	}
}

// applied returns the need of an operation for a row; nil if it is met.
func (e *env) applied(id string, waits ...core.Wait) core.Need {
	_, err := e.Applied(e.db.ReadTxn(), byID.Query(id), "row "+id, slices.Values(waits))
	return needOf(err)
}

// deleted returns the need of an operation for deletions whose key begins with a prefix; nil if it is met. Before the
// loop knows all deletions, it waits until it does.
func (e *env) deleted(prefix string) core.Need {
	for {
		err := e.Deleted(func(r *row) bool { return strings.HasPrefix(r.id, prefix) }, "a "+prefix)
		if !errors.Is(err, ErrNotKnown) {
			return needOf(err)
		}
		if !watch.IsClosed(e.Needs.deletions.known) {
			e.check()
		}
		runtime.Gosched()
	}
}

// delete deletes a row, and returns the revision of that. The loop has not read it.
func (e *env) delete(id string) statedb.Revision {
	wtxn := e.db.WriteTxn(e.table)
	_, _, err := e.table.Delete(wtxn, &row{id: id})
	require.NoError(e, err)
	return e.table.Revision(wtxn.Commit())
}

func needOf(err error) core.Need {
	if err == nil {
		return nil
	}
	return outcome.Of(err).Needs[0]
}

func released(w core.Wait) bool { return watch.IsClosed(w.Released()) }

// requireEmpty requires that nothing is left of waits.
func (e *env) requireEmpty() {
	e.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Empty(e, e.rows)
	require.Empty(e, e.Needs.deletions.awaited)
	require.Empty(e, e.Needs.deletions.ahead)
	require.Empty(e, e.waits)
	require.Empty(e, e.suspicions)
}

// An operation may return one error for all objects of a batch.
func TestObjectsMayHaveTheSameNeed(t *testing.T) {
	e := newEnv(t)
	need := e.applied("a")
	first, second := need.Begin(), need.Begin()
	first.End()
	revision := e.put("a", true)
	e.NoteOperation(&row{id: "a"}, revision, false, true)
	require.True(t, released(second))
	second.End()

	e.deletions["b1"] = &row{id: "b1"}
	need = e.deleted("b")
	one, two := need.Begin(), need.Begin()
	one.End()
	require.False(t, released(two))
	delete(e.deletions, "b1")
	e.NoteOperation(&row{id: "b1"}, 1, true, true)
	e.check()
	require.True(t, released(two))
	two.End()
	e.requireEmpty()
	require.Nil(t, e.deleted("b"))
}

// There may be many of both.
func TestObjectsThatNeedTheSameDeletionsWaitForThemOnce(t *testing.T) {
	e := newEnv(t)
	const many = 300
	require.Nil(t, e.deleted("b"))
	for i := range many {
		id := fmt.Sprint("b", i)
		e.deletions[id] = &row{id: id}
		e.NoteOrphan(e.deletions[id])
	}
	var waits []core.Wait
	for range many {
		waits = append(waits, e.deleted("b").Begin())
	}
	kept := 0
	for _, of := range e.Needs.deletions.awaited {
		kept += len(of)
	}
	require.Equal(t, many, kept)
	waits[0].End()
	for i := range many {
		require.False(t, released(waits[many-1]))
		id := fmt.Sprint("b", i)
		delete(e.deletions, id)
		e.NoteOperation(&row{id: id}, 1, true, true)
		e.check()
	}
	for _, w := range waits {
		require.True(t, released(w))
	}
	for _, w := range waits[1:] {
		w.End()
	}
	e.requireEmpty()
}

// What happens between the end of the operation and the begin of its wait is not lost.
func TestWaitBeginsWithALook(t *testing.T) {
	e := newEnv(t)
	missing := e.applied("a")
	e.put("a", false)
	w := missing.Begin()
	require.True(t, released(w), "it has appeared")
	w.End()
	there := e.applied("a")
	e.put("a", true)
	w = there.Begin()
	require.True(t, released(w), "it is applied")
	w.End()

	e.deleted("b")
	e.deletions["b1"] = &row{id: "b1"}
	e.NoteOrphan(&row{id: "b1"})
	need := e.deleted("b")
	delete(e.deletions, "b1")
	e.NoteChange(&row{id: "b1"})
	e.check()
	w = need.Begin()
	require.True(t, released(w), "it is carried out")
	w.End()
	e.requireEmpty()
}

// The loop may know that a row is applied before the row shows it. It looks when somebody begins to wait.
func TestLoopIsWokenForARowThatItKnowsToBeApplied(t *testing.T) {
	e := newEnv(t)
	e.cfg.Applied = func(*row, statedb.Revision) bool { return true }
	e.put("a", false)
	need := e.applied("a")
	before := e.woken.Load()
	w := need.Begin()
	require.False(t, released(w))
	require.Equal(t, before+1, e.woken.Load())
	e.check()
	require.True(t, released(w))
	w.End()
	e.requireEmpty()
}

// An object is deleted, comes back and is deleted again, while the loop carries out the first deletion.
func TestDeletionCountsFromItsCommitOn(t *testing.T) {
	e := newEnv(t)
	e.put("b1", true)
	require.Nil(t, e.deleted("b"))
	first := e.delete("b1")
	need := e.deleted("b")
	require.NotNil(t, need, "the loop has not read it")
	e.deletions["b1"] = &row{id: "b1"}
	e.Check(first)
	e.put("b1", false)
	require.Nil(t, e.deleted("b"), "it is back")
	second := e.delete("b1")
	need = e.deleted("b")
	require.NotNil(t, need)
	w := need.Begin()
	delete(e.deletions, "b1")
	e.NoteOperation(&row{id: "b1"}, first, true, true)
	e.Check(first)
	require.False(t, released(w), "only the first is carried out")
	require.NotNil(t, e.deleted("b"))
	e.deletions["b1"] = &row{id: "b1"}
	e.Check(second)
	require.False(t, released(w))
	delete(e.deletions, "b1")
	e.NoteOperation(&row{id: "b1"}, second, true, true)
	e.Check(second)
	require.True(t, released(w))
	require.Nil(t, e.deleted("b"))
	w.End()
	e.requireEmpty()
}

// Somebody holds the table for long: neither the loop nor an operation waits for it. A hang is the failure.
func TestALockedTableIsNotWaitedFor(t *testing.T) {
	wanted := func(*row) bool { return true }
	e := newEnv(t)
	wtxn := e.db.WriteTxn(e.table)
	require.ErrorIs(t, e.Deleted(wanted, "a row"), ErrNotKnown)
	for range 100 {
		e.check()
		runtime.Gosched()
	}
	wtxn.Abort()
	require.Nil(t, e.deleted("b"))
	wtxn = e.db.WriteTxn(e.table)
	e.Stop()
	require.ErrorContains(t, e.Deleted(wanted, "a row"), "has stopped")
	wtxn.Abort()
}

func TestStopWakesAll(t *testing.T) {
	e := newEnv(t)
	e.deletions["b1"] = &row{id: "b1"}
	require.NotNil(t, e.deleted("b"))
	e.put("a", false)
	waits := []core.Wait{e.applied("a").Begin(), e.applied("missing").Begin(), e.deleted("b").Begin()}
	e.check()
	for _, w := range waits {
		require.False(t, released(w))
	}
	other := newEnv(t)
	other.Block(&row{id: "own"}, nil, []core.Need{e.applied("a")})
	other.Stop()
	other.requireEmpty()
	e.Stop()
	for _, w := range waits {
		require.True(t, released(w))
		w.End()
	}
	require.Empty(t, e.rows)
	_, err := e.Applied(e.db.ReadTxn(), byID.Query("a"), "row a", slices.Values([]core.Wait(nil)))
	require.EqualError(t, err, `row a is not applied: reconciler "keeper" has stopped`)
	require.True(t, errors.Is(err, ErrNotKnown))
}

func TestCircleIsFound(t *testing.T) {
	a, b := newEnv(t), newEnv(t)
	block := func(from *env, key string, on *env, needs ...string) {
		var list []core.Need
		for _, id := range needs {
			list = append(list, on.applied(id))
		}
		from.Block(&row{id: key}, nil, list)
	}
	names := func(from *env, key string) (text string) {
		for _, o := range Circle(core.Needed{In: from.Needs, Key: key}) {
			text += o.In.NameOf(o.Key) + " "
		}
		return text
	}
	block(a, "1", b, "2", "3")
	block(b, "2", a, "4", "5")
	block(b, "3", b, "2", "6")
	require.Empty(t, names(a, "1"))
	block(b, "6", a, "1")
	require.Equal(t, "1 (keeper) 3 (keeper) 6 (keeper) ", names(a, "1"))
	require.Equal(t, "3 (keeper) 6 (keeper) 1 (keeper) ", names(b, "3"))
	block(a, "x", a, "x")
	require.Equal(t, "x (keeper) ", names(a, "x"))
	block(a, "y", a, "x")
	require.Equal(t, "x (keeper) ", names(a, "y"))
	// Many ways lead to the same objects.
	for i := range 500 {
		next := []string{fmt.Sprint("l", i+1), fmt.Sprint("r", i+1)}
		block(a, fmt.Sprint("l", i), a, next...)
		block(a, fmt.Sprint("r", i), a, next...)
	}
	require.Empty(t, names(a, "l0"))
	for _, e := range []*env{a, b} {
		for key := range maps.Clone(e.waits) {
			e.Unblock(&row{id: key})
		}
	}
	a.requireEmpty()
	b.requireEmpty()
}

// Operations begin and end waits while the loop applies and deletes rows: each wait ends, and nothing is left.
func TestConcurrentWaitsLoseNoWakeUp(t *testing.T) {
	e := newEnv(t)
	// From now on, only the goroutine of the loop checks.
	require.Nil(t, e.deleted("k"))
	const keys, rounds, waiters = 5, 300, 4
	id := func(i int) string { return fmt.Sprint("k", i) }
	var waiting sync.WaitGroup
	stop := make(chan struct{})
	for n := range waiters {
		waiting.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 0))
			for range rounds {
				key := id(rng.IntN(keys))
				var last core.Wait
				for {
					var need core.Need
					if n%2 == 0 {
						need = e.applied(key, seen(last)...)
					} else {
						need = e.deleted(key)
					}
					if last != nil {
						last.End()
					}
					if need == nil {
						break
					}
					last = need.Begin()
					<-last.Released()
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { waiting.Wait(); close(stop) }()
	go func() {
		defer close(done)
		rng := rand.New(rand.NewPCG(99, 0))
		for ended := false; !ended; {
			select {
			case <-stop:
				ended = true
			default:
			}
			r := &row{id: id(rng.IntN(keys))}
			switch rng.IntN(4) {
			case 0:
				// It is deleted, and the deletion is carried out some time.
				e.delete(r.id)
				e.deletions[r.id] = r
			case 1:
				delete(e.deletions, r.id)
				e.NoteOperation(r, 1, true, true)
			case 2:
				delete(e.deletions, r.id)
				e.put(r.id, false)
				e.NoteChange(r)
			default:
				delete(e.deletions, r.id)
				e.NoteOperation(r, e.put(r.id, true), false, true)
			}
			e.check()
		}
	}()
	<-done
	e.requireEmpty()
}

func seen(last core.Wait) []core.Wait {
	if last == nil {
		return nil
	}
	return []core.Wait{last}
}

// asked lets the loop look at rows, and returns how often it was asked for each. running and paused are its answers.
func (e *env) asked(running, paused bool) map[string]int {
	asked := map[string]int{}
	e.cfg.Verify = func(r *row, _ statedb.Revision) bool { asked[r.id]++; return running }
	e.cfg.Pauses = func(*row) bool { return paused }
	return asked
}

// suspected returns the need of an operation that suspects a row; nil if that does not help.
func (e *env) suspected(id string, waits ...core.Wait) core.Need {
	why := errors.New("no such row")
	err := e.Suspect(&row{id: id}, why, slices.Values(waits))
	if err == why {
		return nil
	}
	return needOf(err)
}

// An operation may suspect two rows. What is known of the one counts until the other was looked at.
func TestTwoSuspicionsEnd(t *testing.T) {
	e := newEnv(t)
	a, b := &row{id: "a", done: true}, &row{id: "b", done: true}
	e.put("a", true)
	e.put("b", true)
	e.asked(false, false)
	first, second := e.suspected("a").Begin(), e.suspected("b").Begin()
	e.check()
	e.NoteLook(a, true)
	require.True(t, released(first))
	require.Nil(t, e.suspected("a", first, second))
	again := e.suspected("b", first, second).Begin()
	require.True(t, first.Outlives([]core.Wait{again}))
	require.False(t, second.Outlives([]core.Wait{again}))
	require.False(t, first.Outlives([]core.Wait{e.suspected("a").Begin()}), "it is suspected again")
	e.check()
	e.NoteLook(b, true)
	require.Nil(t, e.suspected("a", first, again))
	require.Nil(t, e.suspected("b", first, again))
}

// An operation that ran when the look was asked for says nothing, unless it was not begun, and runs later.
func TestSuspicionEndsWithAnOperationThatWasRecalled(t *testing.T) {
	for _, recalled := range []bool{false, true} {
		e := newEnv(t)
		e.asked(true, false)
		a := &row{id: "a", done: true}
		revision := e.put("a", true)
		w := e.suspected("a").Begin()
		e.check()
		if recalled {
			e.NoteRecall(a)
		}
		e.NoteOperation(a, revision, false, true)
		require.Equal(t, recalled, released(w))
		w.End()
		e.requireEmpty()
	}
}

// What the loop has seen before it is asked may be from before the suspicion.
func TestLookThatBeganBeforeASuspicionSaysNothing(t *testing.T) {
	e := newEnv(t)
	asked := e.asked(false, false)
	a := &row{id: "a", done: true}
	revision := e.put("a", true)
	w := e.suspected("a").Begin()
	e.NoteLook(a, true)
	e.NoteOperation(a, revision, false, true)
	require.False(t, released(w))
	require.NotNil(t, e.suspected("a", w))
	e.check()
	e.check()
	require.Equal(t, map[string]int{"a": 1}, asked)
	e.NoteLook(a, true)
	require.True(t, released(w))
	require.Nil(t, e.suspected("a", w))
	w.End()
	e.requireEmpty()
}

// Each recheck of what waits begins another suspicion.
func TestLoopThatHangsIsAskedOnceForEachRow(t *testing.T) {
	e := newEnv(t)
	asked := e.asked(false, false)
	e.put("a", true)
	e.put("b", true)
	e.put("c", true)
	var waits []core.Wait
	for range 1000 {
		for _, id := range []string{"a", "b", "c"} {
			w := e.suspected(id).Begin()
			if len(waits) < 30 && id != "c" {
				waits = append(waits, w)
			} else {
				w.End()
			}
		}
	}
	require.Empty(t, asked, "the loop is asked when it answers")
	require.Len(t, e.due, 3)
	e.check()
	require.Equal(t, map[string]int{"a": 1, "b": 1}, asked, "nothing waits for c any more")
	e.NoteLook(&row{id: "a"}, false)
	for i, w := range waits {
		require.Equal(t, i%2 == 0, released(w))
		w.End()
	}
	e.check()
	e.requireEmpty()
}

// A resync judges rows that are Done only.
func TestResyncSaysNothingOfASuspectedRowThatFails(t *testing.T) {
	for _, done := range []bool{true, false} {
		e := newEnv(t)
		asked := e.asked(false, false)
		e.put("a", true)
		w := e.suspected("a").Begin()
		e.NoteResync(time.Now().Add(time.Second), func(*row) bool { return false })
		require.False(t, released(w), "the loop was not asked yet")
		e.check()
		e.put("a", done)
		e.NoteResync(time.Now().Add(time.Second), func(*row) bool { return true })
		require.False(t, released(w), "it is repaired")
		e.NoteResync(time.Now().Add(-time.Hour), func(*row) bool { return false })
		require.False(t, released(w), "it began before")
		e.check()
		require.Equal(t, map[string]int{"a": 2}, asked, "another is asked for")
		e.NoteResync(time.Now().Add(time.Second), func(*row) bool { return false })
		require.True(t, released(w), "what waits is told")
		e.put("a", true)
		require.Equal(t, done, e.suspected("a", w) == nil)
		w.End()
	}
}

func TestSuspicionSaysThatItsObjectIsPausedWhileItIs(t *testing.T) {
	e := newEnv(t)
	asked := e.asked(false, true)
	e.put("a", true)
	w := e.suspected("a").Begin()
	require.Empty(t, w.Why())
	e.entries["a"] = true
	for _, paused := range []bool{true, false, true} {
		e.cfg.Pauses = func(*row) bool { return paused }
		e.NotePause()
		e.check()
		require.Equal(t, paused, w.Why() == "a (keeper) is paused")
	}
	e.entries["a"] = false
	e.NoteLook(&row{id: "a"}, true)
	e.NotePause()
	e.check()
	require.Equal(t, map[string]int{"a": 1}, asked)
	w.End()
	e.NotePause()
	e.check()
	e.requireEmpty()
}

// What the loop knows of a key may end without a look: the program has written the row as Done, for example.
func TestSuspicionIsAskedForAgainIfItsLookDoesNotCome(t *testing.T) {
	e := newEnv(t)
	asked, a := e.asked(false, false), &row{id: "a"}
	e.put("a", true)
	w := e.suspected("a").Begin()
	e.entries["a"] = true
	e.check()
	e.NoteChange(a)
	e.check()
	require.Equal(t, map[string]int{"a": 1}, asked, "it comes")
	e.entries["a"] = false
	e.NoteChange(a)
	e.check()
	require.Equal(t, map[string]int{"a": 2}, asked)
	e.NoteLook(a, true)
	require.True(t, released(w))
	e.NoteChange(a)
	e.check()
	require.Equal(t, map[string]int{"a": 2}, asked)
	w.End()
	e.requireEmpty()
}

// An operation that needs two rows hands the error of the first call to the second.
func TestTwoRowsAreSuspectedOneAfterTheOther(t *testing.T) {
	e := newEnv(t)
	e.asked(false, false)
	e.put("a", true)
	e.put("b", true)
	err := e.Suspect(&row{id: "a"}, errors.New("no such row"), slices.Values(seen(nil)))
	err = e.Suspect(&row{id: "b"}, err, slices.Values(seen(nil)))
	require.EqualError(t, err, "no such row: looking at a (keeper): looking at b (keeper)")
	require.Len(t, outcome.Of(err).Needs, 2)
}
