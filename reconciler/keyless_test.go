// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

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
func (n *named) TableRow() []string  { return []string{n.Name} }

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
	n.has[row.Name] = true
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

func (n *nameTarget) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*named, statedb.Revision]) error {
	return nil
}

func (n *nameTarget) List(_ context.Context, _ statedb.ReadTxn, yield func(*named) bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.has {
		yield(&named{Name: name})
	}
	for _, name := range n.found {
		yield(&named{Name: name})
	}
	return nil
}

// eachLedger runs a test against a loop of names with each ledger.
func eachLedger(t *testing.T, target func() *nameTarget, test func(e *reconcilertest.Env[*named], target *nameTarget)) {
	for _, ledger := range []string{"rows", "beside"} {
		t.Run(ledger, func(t *testing.T) {
			target := target()
			reconcilertest.Run(t, func(db *statedb.DB) (statedb.RWTable[*named], error) {
				return statedb.NewTable(db, "names", byName)
			}, func(e *reconcilertest.Env[*named]) {
				cfg := reconciler.Config[*named]{
					DB: e.DB, Table: e.Table, Operations: target, Sweeper: target, Health: e.Health,
					Options: exact(),
				}
				if ledger == "rows" {
					cfg.Clone = func(n *named) *named { c := *n; return &c }
					cfg.GetStatus = func(n *named) reconciler.Status { return n.Status }
					cfg.SetStatus = func(n *named, s reconciler.Status) *named { n.Status = s; return n }
				}
				e.Start(cfg)
				test(e, target)
			})
		})
	}
}

func wantedName(name string) *named { return &named{Name: name, Status: reconciler.StatusPending()} }

func noNames() *nameTarget { return &nameTarget{has: map[string]bool{}} }

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
		require.False(e, target.holds(""), "the orphan with the empty key is swept")
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

func TestListedObjectWithoutAKeyDoesNotStopASweep(t *testing.T) {
	listing := func() *nameTarget {
		return &nameTarget{has: map[string]bool{"orphan": true}, found: []string{"keyless"}}
	}
	eachLedger(t, listing, func(e *reconcilertest.Env[*named], target *nameTarget) {
		e.Insert(wantedName("a"))
		time.Sleep(time.Second)
		require.False(e, target.holds("orphan"))
		require.True(e, target.holds("a"))
		s := e.Loop.Snapshot(e.Context())
		require.Contains(e, s.PruneFailure, "1 of 2 listed objects are left alone: the primary index makes no key of the object")
	})
}

func TestUpdateThatLosesTheKeyOfItsObjectIsDone(t *testing.T) {
	for _, name := range []string{"keyless", "other"} {
		losing := func() *nameTarget { return &nameTarget{has: map[string]bool{}, rename: &name} }
		eachLedger(t, losing, func(e *reconcilertest.Env[*named], target *nameTarget) {
			if e.Loop.Outcomes() != nil {
				return // beside, an operation must not change its object
			}
			for _, key := range []string{"", "a"} {
				e.Insert(wantedName(key))
				_, err := e.Loop.WaitFor(e.Context(), reconciler.Applied, &named{Name: key})
				require.NoError(e, err)
				row, _, found := e.Table.Get(e.DB.ReadTxn(), byName.Query(key))
				require.True(e, found)
				require.Equal(e, reconciler.StatusKindDone, row.Status.Kind)
			}
			require.Equal(e, 2, e.Table.NumObjects(e.DB.ReadTxn()))
		})
	}
}
