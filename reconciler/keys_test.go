// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/operator"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// named is a row whose key may be empty. The name "keyless" has no key at all.
type named struct {
	Name   string
	Status reconciler.Status
}

func (*named) TableHeader() []string { return []string{"Name"} }

func (n *named) TableRow() []string { return []string{n.Name} }

var byName = statedb.Index[*named, string]{
	Name: "name", FromKey: index.String, FromString: index.FromString, Unique: true,
	FromObject: func(n *named) index.KeySet {
		if n.Name == "keyless" {
			return index.EmptyKeySet
		}
		return index.NewKeySet(index.String(n.Name))
	},
}

// nameTarget is a target of names. It also lists what is in found.
type nameTarget struct {
	mu      sync.Mutex
	has     map[string]bool
	found   []string
	updated []string
	lists   int
	// trims: the target drops the dot at the end of a name.
	trims bool
	// rename is the name that an update gives its clone; nil to leave it.
	rename *string
	// fails has the names whose updates fail.
	fails map[string]error
}

// holds reports whether the target has a name.
func (n *nameTarget) holds(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.has[name]
}

// take returns the names of the updates since the last call.
func (n *nameTarget) take() (updated []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	updated, n.updated = n.updated, nil
	return updated
}

// list sets what is listed besides what the target has.
func (n *nameTarget) list(found ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.found = found
}

func (n *nameTarget) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, row *named) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.updated = append(n.updated, row.Name)
	if err := n.fails[row.Name]; err != nil {
		return err
	}
	name := row.Name
	if n.trims {
		name = strings.TrimSuffix(name, ".")
	}
	n.has[name] = true
	if n.rename != nil {
		row.Name = *n.rename
	}
	return nil
}

func (n *nameTarget) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, row *named) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.has, row.Name)
	return nil
}

func (n *nameTarget) List(_ context.Context, _ statedb.ReadTxn, yield func(*named) bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lists++
	for name := range n.has {
		yield(&named{Name: name})
	}
	for _, name := range n.found {
		yield(&named{Name: name})
	}
	return nil
}

func newNames(db *statedb.DB) (statedb.RWTable[*named], error) {
	return statedb.NewTable(db, "names", byName)
}

// eachLedger runs a test against a loop of names with each ledger.
func eachLedger(t *testing.T, target func() *nameTarget, test func(e *reconcilertest.Env[*named], target *nameTarget)) {
	for _, ledger := range []string{"rows", "beside"} {
		t.Run(ledger, func(t *testing.T) {
			target := target()
			reconcilertest.Run(t, newNames, func(e *reconcilertest.Env[*named]) {
				cfg := reconciler.Config[*named]{Operations: target, Lister: target, OrphansOnly: true, Options: exact()}
				if ledger == "rows" {
					cfg = inNames(cfg)
				}
				e.Start(cfg)
				test(e, target)
			})
		})
	}
}

// inNames has the status in the rows of names.
func inNames(cfg reconciler.Config[*named]) reconciler.Config[*named] {
	cfg.Clone = func(n *named) *named { c := *n; return &c }
	cfg.GetStatus = func(n *named) reconciler.Status { return n.Status }
	cfg.SetStatus = func(n *named, s reconciler.Status) *named { n.Status = s; return n }
	return cfg
}

func wantedName(name string) *named { return &named{Name: name, Status: reconciler.StatusPending()} }

func noNames() *nameTarget { return &nameTarget{has: map[string]bool{}, fails: map[string]error{}} }

func TestEmptyKeyIsAKeyAsAnyOther(t *testing.T) {
	orphaned := func() *nameTarget { return &nameTarget{has: map[string]bool{}, found: []string{""}} }
	eachLedger(t, orphaned, func(e *reconcilertest.Env[*named], target *nameTarget) {
		target.list()
		e.Insert(wantedName(""), wantedName("a"))
		_, err := e.Loop.WaitFor(e.Context(), reconciler.Applied, &named{})
		require.NoError(e, err)
		require.True(e, target.holds(""))
		s, found := e.Loop.Status(e.DB.ReadTxn(), &named{})
		require.True(e, found)
		require.Equal(e, reconciler.StatusKindDone, s.Kind)
		x := e.Loop.Explain(e.Context(), `""`)
		require.Equal(e, inspect.StateDone, x.State, "%s", x)
		_, err = e.Loop.Reapply(e.Context(), &named{})
		require.NoError(e, err)
		synctest.Wait()
		require.ElementsMatch(e, []string{"", "a", ""}, target.take())
		e.Delete(&named{})
		_, err = e.Loop.WaitFor(e.Context(), reconciler.Applied, &named{})
		require.NoError(e, err)
		require.False(e, target.holds(""))

		target.list("")
		e.Loop.Prune()
		synctest.Wait()
		time.Sleep(time.Second)
		require.False(e, target.holds(""), "the orphan with the empty key is deleted")
		require.True(e, target.holds("a"))
	})
}

func TestObjectWithoutAKeyIsAnErrorOfItsOwn(t *testing.T) {
	eachLedger(t, noNames, func(e *reconcilertest.Env[*named], target *nameTarget) {
		e.Insert(wantedName("a"), wantedName("b"))
		e.Write(func(wtxn statedb.WriteTxn) {
			_, _, err := e.Table.Insert(wtxn, wantedName("keyless"))
			require.NoError(e, err, "statedb drops it silently")
		})
		_, err := e.Loop.WaitFor(e.Context(), reconciler.Applied, &named{Name: "a"}, &named{Name: "keyless"})
		require.ErrorContains(e, err, "object 1 of 2 to wait for: the primary index makes no key of the object")
		_, found := e.Loop.Status(e.DB.ReadTxn(), &named{Name: "keyless"})
		require.False(e, found)
		_, found, watch := e.Loop.StatusWatch(e.DB.ReadTxn(), &named{Name: "keyless"})
		require.False(e, found)
		require.Empty(e, watch)

		_, err = e.Loop.WaitAll(e.Context(), reconciler.Applied)
		require.NoError(e, err)
		target.take()
		_, err = e.Loop.Reapply(e.Context(), &named{Name: "a"}, &named{Name: "keyless"}, &named{Name: "b"})
		require.ErrorContains(e, err, "object 1 of 3 to apply again: the primary index makes no key of the object")
		synctest.Wait()
		require.ElementsMatch(e, []string{"a", "b"}, target.take())
	})
}

// listingNames runs a test with a Lister and each ledger.
func listingNames(t *testing.T, target func() *nameTarget, interval time.Duration, test func(e *reconcilertest.Env[*named], target *nameTarget)) {
	for _, ledger := range []string{"rows", "beside"} {
		t.Run(ledger, func(t *testing.T) {
			target := target()
			reconcilertest.Run(t, newNames, func(e *reconcilertest.Env[*named]) {
				cfg := reconciler.Config[*named]{Operations: target, Lister: target}
				cfg.Equal = func(wanted, found *named) bool { return wanted.Name == found.Name }
				cfg.Options = []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.ResyncInterval = interval })}
				if ledger == "rows" {
					cfg = inNames(cfg)
				}
				e.Insert(wantedName("a"))
				e.Start(cfg)
				test(e, target)
			})
		})
	}
}

func TestListedObjectWithoutAKeyIsNoReasonToListAgain(t *testing.T) {
	listing := func() *nameTarget { return &nameTarget{has: map[string]bool{}, found: []string{"keyless"}} }
	listingNames(t, listing, 0, func(e *reconcilertest.Env[*named], target *nameTarget) {
		e.Pass(time.Hour)
		require.Equal(e, 2, target.lists, "the listing at the start, and the one after it")
		const why = "1 of 2 listed objects are left alone: the primary index makes no key of the object"
		require.Contains(e, e.Loop.Snapshot(e.Context()).PruneFailure, why)
		target.list()
		e.Loop.Resync()
		e.Pass(time.Minute)
		require.Empty(e, e.Loop.Snapshot(e.Context()).PruneFailure)
		require.Equal(e, 3, target.lists)
	})
}

// slowDeletes takes an hour for a deletion.
type slowDeletes struct{ *nameTarget }

func (s slowDeletes) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, n *named) error {
	time.Sleep(time.Hour)
	return s.nameTarget.Delete(ctx, txn, revision, n)
}

// Objects that are left alone are no failure, and Ready does not wait for them.
func TestReadySaysWhatItWaitsForThoughObjectsAreLeftAlone(t *testing.T) {
	reconcilertest.Run(t, newNames, func(e *reconcilertest.Env[*named]) {
		target := &nameTarget{has: map[string]bool{"stray": true}, found: []string{"keyless", "stray"}}
		e.Start(reconciler.Config[*named]{Operations: slowDeletes{target}, Lister: target, OrphansOnly: true, Options: exact()})
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		_, err := e.Loop.Ready(ctx)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.ErrorContains(e, err, "what the first resync has found is not deleted or repaired yet")
		e.Pass(2 * time.Hour)
		_, err = e.Loop.Ready(e.Context())
		require.NoError(e, err)
		require.False(e, target.holds("stray"))
	})
}

func TestRepairThatDoesNotHoldIsReported(t *testing.T) {
	const why = "the target lists it under another key"
	listingNames(t, noNames, 10*time.Second, func(e *reconcilertest.Env[*named], target *nameTarget) {
		health := e.Health.Scope("reconcile")
		fails := func(key string) string { return e.Loop.Explain(e.Context(), key).Error }
		// It is lost now and then, and holds in between.
		for range 5 {
			e.Pass(30 * time.Second)
			require.True(e, target.holds("a"))
			target.mu.Lock()
			delete(target.has, "a")
			target.mu.Unlock()
		}
		e.Pass(30 * time.Second)
		level, message, _ := health.Now()
		require.Equal(e, cell.StatusOK, level, message)

		target.mu.Lock()
		target.trims = true
		target.mu.Unlock()
		e.Insert(wantedName("www."))
		e.Pass(25 * time.Second)
		level, message, _ = health.Now()
		require.Equal(e, cell.StatusOK, level, message)
		e.Pass(40 * time.Second)
		level, message, err := health.Now()
		require.Equal(e, cell.StatusDegraded, level)
		require.Contains(e, message, "repairs do not hold")
		require.ErrorContains(e, err, why)
		require.Contains(e, fails("www."), "again after each of its last")
		require.Contains(e, fails("www."), why)
		require.Contains(e, fails("www"), "deletions: another program")
		require.Empty(e, fails("a"))

		target.mu.Lock()
		target.trims = false
		target.mu.Unlock()
		e.Pass(40 * time.Second)
		level, message, _ = health.Now()
		require.Equal(e, cell.StatusOK, level, message)
		require.Empty(e, fails("www."))
		require.Empty(e, fails("www"))
	})
}

// The key of one object is, byte for byte, the text of the other object's key.
func TestTextOfAKeyMeansOneObject(t *testing.T) {
	const number, bytes = 55555555, 0x3535353535353535
	inBubble(t, func(e *env) {
		e.put(1, number, bytes)
		e.pass(time.Second)
		text := strconv.Itoa(number)
		for _, event := range e.loop.Operations(inspect.OperationQuery{Key: text}) {
			require.Equal(e, text, event.Key)
		}
		require.NotEmpty(e, e.loop.Operations(inspect.OperationQuery{Key: strconv.Itoa(bytes)}))
		require.NoError(e, operator.Pause(e.Context(), e.loop, strconv.Itoa(bytes)))
		require.ErrorContains(e, operator.Resume(e.Context(), e.loop, text), "object 55555555 is not paused by its key")
		require.NoError(e, operator.Resume(e.Context(), e.loop, strconv.Itoa(bytes)))
	}, nil)
}

// A page of long texts ends early, and the next page continues after it.
func TestPagesOfObjectsEndEarlyAtLongTexts(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(call) error { return errors.New(strings.Repeat("x", reconciler.MaxErrorText)) })
		e.put(1, ids(1, 200)...)
		e.pass(time.Second)
		walk := func(status string) {
			seen := map[string]bool{}
			for after, pages := "", 0; pages == 0 || after != ""; pages++ {
				page := e.objects(inspect.ObjectQuery{Status: status, Limit: 1000, After: after})
				size := 0
				for _, o := range page.Objects {
					require.False(e, seen[o.Key], o.Key)
					seen[o.Key] = true
					size += len(o.Error)
				}
				require.LessOrEqual(e, size, 3<<18+reconciler.MaxErrorText)
				after = page.Next
			}
			require.Len(e, seen, 200, status)
		}
		walk("error")
		e.remove(ids(1, 200)...)
		e.pass(time.Second)
		walk("deleted")
		e.target.prompt()
		e.pass(2 * time.Minute)
	}, nil)
}

// insertAs inserts a row under one name, and then gives it another, as a program with a bug does that changes
// a row in the table: the index makes a key of the row then that finds nothing.
func insertAs(e *reconcilertest.Env[*named], key string, row *named) {
	name := row.Name
	e.Write(func(wtxn statedb.WriteTxn) {
		row.Name = key
		_, _, err := e.Table.Insert(wtxn, row)
		require.NoError(e, err, "statedb inserts it and says nothing")
		row.Name = name
	})
}

// requireUnfound requires that a row whose key no look-up finds is reported everywhere, and that the others of the
// table are applied.
func requireUnfound(e *reconcilertest.Env[*named], row *named, why string) {
	_, err := e.Loop.WaitFor(e.Context(), reconciler.Applied, &named{Name: "a"}, &named{Name: "b"})
	require.NoError(e, err)
	rest, err := e.Loop.WaitAll(e.Context(), reconciler.Attempted)
	require.NoError(e, err)
	require.Len(e, rest.Keys, 1)
	require.ErrorContains(e, rest.Keys[0].Err, why)

	x := e.Loop.Explain(e.Context(), row.Name)
	require.Contains(e, x.Error, why)
	level, _, told := e.Health.Scope("reconcile").Now()
	require.Equal(e, cell.StatusDegraded, level)
	require.ErrorContains(e, told, why)

	briefly, cancel := context.WithTimeout(e.Context(), time.Minute)
	defer cancel()
	rest, err = e.Loop.WaitAll(briefly, reconciler.Applied)
	require.ErrorIs(e, err, context.DeadlineExceeded)
	require.Len(e, rest.Keys, 1)
	require.ErrorContains(e, rest.Keys[0].Err, why)
}

func TestObjectWithATooLongKeyIsNamedAndGivenUp(t *testing.T) {
	const why = "the primary key is longer than the 65535 bytes that statedb can look up"
	for _, length := range []int{1 << 16, 1 << 17} {
		eachLedger(t, noNames, func(e *reconcilertest.Env[*named], target *nameTarget) {
			long, longest := wantedName(strings.Repeat("x", length)), wantedName(strings.Repeat("y", 1<<16-1))
			e.Insert(wantedName("a"), longest)
			insertAs(e, long.Name, long)
			e.Insert(wantedName("b"))
			requireUnfound(e, long, why)
			require.Equal(e, inspect.StateTerminal, e.Loop.Explain(e.Context(), long.Name).State)
			_, err := e.Loop.WaitFor(e.Context(), reconciler.Applied, longest)
			require.NoError(e, err)
			require.Equal(e, e.Loop.Outcomes() == nil, target.holds(long.Name), "in the rows only the write shows it")

			_, err = e.Loop.WaitFor(e.Context(), reconciler.Attempted, wantedName("a"), long)
			require.ErrorContains(e, err, "object 1 of 2 to wait for: "+why)
			_, err = e.Loop.WaitKey(e.Context(), long.Name, reconciler.Attempted)
			require.ErrorContains(e, err, why)
			target.take()
			_, err = e.Loop.Reapply(e.Context(), long, &named{Name: "b"})
			require.ErrorContains(e, err, "object 0 of 2 to apply again: "+why)
			synctest.Wait()
			require.Equal(e, []string{"b"}, target.take())
			if e.Loop.Outcomes() == nil {
				return // the target lists it twice: it has the object, too
			}
			target.list(long.Name)
			e.Loop.Prune()
			time.Sleep(time.Second)
			require.Contains(e, e.Loop.Snapshot(e.Context()).PruneFailure, "1 of 4 listed objects are left alone: "+why)

			require.Zero(e, e.Loop.Outcomes().NumObjects(e.DB.ReadTxn()), "an outcome could not be removed again")
			page, err := e.Loop.Objects(e.Context(), inspect.ObjectQuery{Status: "Error"})
			require.NoError(e, err)
			require.Len(e, page.Objects, 1)
			require.Contains(e, page.Objects[0].Error, why)
		})
	}
}
