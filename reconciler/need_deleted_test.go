// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// fill writes a role with grants, and waits until they are applied.
func (x *kinds) fill(role string, grants ...string) {
	x.put(&x.roles, role, "", 1)
	for _, g := range grants {
		x.put(&x.grants, g, role, 1)
	}
	x.pass(50 * time.Millisecond)
	for _, g := range grants {
		require.Equal(x, "Done", x.status(&x.grants, g))
	}
	x.set(func() { x.log = nil })
}

// drop deletes a role and its grants in one transaction.
func (x *kinds) drop(role string, grants ...string) {
	wtxn := x.db.WriteTxn(x.roles.table, x.grants.table)
	_, _, err := x.roles.table.Delete(wtxn, &node{ID: role})
	require.NoError(x, err)
	for _, g := range grants {
		_, _, err = x.grants.table.Delete(wtxn, &node{ID: g})
		require.NoError(x, err)
	}
	wtxn.Commit()
}

// dropsBefore checks that a role was dropped after grants.
func (x *kinds) dropsBefore(role string, grants ...string) {
	x.Helper()
	at := slices.Index(x.log, "-role "+role)
	require.GreaterOrEqual(x, at, 0, "the role is not dropped: %v", x.log)
	for _, g := range grants {
		before := slices.Index(x.log, "-grant "+g)
		require.True(x, before >= 0 && before < at, "grant %s is dropped after role %s: %v", g, role, x.log)
	}
}

// The loop of the grants may be slower than that of the roles, or still have to read their deletions.
func TestDeletionWaitsForOthers(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.fill("a", "g", "h")
		x.set(func() { x.fails["grant h"] = errServer })
		x.drop("a", "g", "h")
		x.pass(30 * time.Millisecond)
		require.Contains(x, x.holds(), "role a")
		require.NotContains(x, x.holds(), "grant g")
		x.pass(5 * time.Second)
		require.LessOrEqual(x, x.ran("role a"), 1+2, "failures of the grant are no reason to run")
		require.Greater(x, x.ran("grant h"), 5)

		rest, err := x.roles.loop.WaitFor(x.Context(), reconciler.Attempted, &node{ID: "a"})
		require.NoError(x, err)
		const reason = "a grant of a is not deleted (deletion of h (grants): the server refuses)"
		require.EqualError(x, rest.Err(), `deletion of "a": blocked: `+reason)
		explained := x.roles.loop.Explain(x.Context(), "a")
		require.Equal(x, "a grant of a is not deleted", explained.BlockedOn)
		require.Equal(x, "its operation waits for something: "+reason, explained.Why)
		page, err := x.roles.loop.Objects(x.Context(), inspect.ObjectQuery{Status: "Deleted"})
		require.NoError(x, err)
		require.Equal(x, "a grant of a is not deleted", page.Objects[0].BlockedOn)

		x.set(func() { delete(x.fails, "grant h") })
		x.pass(2 * time.Second)
		require.Empty(x, x.holds())
		x.dropsBefore("a", "g", "h")
		require.LessOrEqual(x, x.ran("role a"), 1+3)
	})
}

func TestDeletionWaitsForOthersThatAreNotRead(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.fill("a", "g", "h")
		// The loop of the grants is in an operation.
		x.set(func() { x.takes["grant g"] = time.Second })
		for i := range 4 {
			x.set(func() { x.takes[fmt.Sprint("grant slow", i)] = time.Second })
			x.put(&x.grants, fmt.Sprint("slow", i), "a", 1)
		}
		x.put(&x.grants, "g", "a", 2)
		x.pass(10 * time.Millisecond)
		x.drop("a", "g", "h", "slow0", "slow1", "slow2", "slow3")
		x.pass(10 * time.Millisecond)
		require.Contains(x, x.roles.loop.Explain(x.Context(), "a").BlockedOn, "a grant of a is n")
		x.pass(time.Minute)
		require.Empty(x, x.holds())
		x.dropsBefore("a", "g", "h")
		require.LessOrEqual(x, x.ran("role a"), 1+4)
	})
}

// It waits for its own loop, which must not wait for it.
func TestDeletionMayWaitForOthersOfItsTable(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.roles.remove = func(ctx context.Context, n *node) error {
			return reconciler.NeedDeleted(ctx, nil, func(child *node) bool { return child.On == n.ID }, "a child of "+n.ID)
		}
		const n = 20
		for i := range n {
			x.put(&x.roles, fmt.Sprint(i), fmt.Sprint(i-1), 1)
		}
		x.pass(50 * time.Millisecond)
		wtxn := x.db.WriteTxn(x.roles.table)
		for i := range n {
			_, _, err := x.roles.table.Delete(wtxn, &node{ID: fmt.Sprint(i)})
			require.NoError(x, err)
		}
		wtxn.Commit()
		x.pass(time.Second)
		require.Empty(x, x.holds())
		for i := range n - 1 {
			require.Less(x, slices.Index(x.log, fmt.Sprintf("-role %d", i+1)), slices.Index(x.log, fmt.Sprintf("-role %d", i)))
			require.LessOrEqual(x, x.ran(fmt.Sprintf("role %d", i)), 1+3)
		}
	})
}

// A deleted row that is back is wanted: nothing waits for its deletion, which does not come.
func TestReinsertionEndsTheWaitForADeletion(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.fill("a", "g", "h")
		x.set(func() { x.fails["grant g"] = errServer })
		x.drop("a", "g")
		x.pass(50 * time.Millisecond)
		require.Contains(x, x.holds(), "role a")
		// The update of the row that is back needs the role, whose deletion waits for it.
		x.put(&x.grants, "g", "a", 2)
		x.pass(2 * time.Second)
		require.NotContains(x, x.holds(), "role a")
		require.Equal(x, "Blocked role a is missing", x.status(&x.grants, "g"))
		require.Equal(x, "Done", x.status(&x.grants, "h"))
		x.set(func() { delete(x.fails, "grant g") })

		// The role comes back while its deletion waits, and the grant is gone for good.
		x.put(&x.roles, "a", "", 2)
		x.pass(2 * time.Second)
		x.set(func() { x.fails["grant g"] = errServer })
		x.drop("a", "g")
		x.pass(50 * time.Millisecond)
		x.put(&x.roles, "a", "", 3)
		x.pass(50 * time.Millisecond)
		require.Equal(x, "Done", x.status(&x.roles, "a"))
		x.set(func() { delete(x.fails, "grant g") })
		x.pass(2 * time.Second)
		require.Equal(x, map[string]int{"role a": 3, "grant h": 1}, x.holds())
	})
}

// Whenever the deletion of the role is tried, both tables have changes that were not read.
func TestBusyTableDoesNotKeepADeletionWaiting(t *testing.T) {
	inKinds(t, func(x *kinds) {
		n := 0
		x.roles.remove = func(ctx context.Context, r *node) error {
			if r.ID != "a" {
				return nil
			}
			n++
			x.put(&x.roles, "hot", "", n)
			x.put(&x.grants, "hot", "hot", n)
			if err := reconciler.NeedDeleted(ctx, x.grants.loop, func(g *node) bool { return g.On == r.ID }, "a grant of "+r.ID); err != nil {
				return err
			}
			return reconciler.NeedDeleted(ctx, nil, func(below *node) bool { return below.On == r.ID }, "a role below "+r.ID)
		}
		x.fill("a", "g", "h")
		x.put(&x.roles, "below", "a", 1)
		x.pass(50 * time.Millisecond)
		x.remove(&x.roles, "below")
		x.drop("a", "g", "h")
		x.pass(time.Second)
		require.NotContains(x, x.holds(), "role a")
		x.dropsBefore("a", "g", "h")
		require.Less(x, slices.Index(x.log, "-role below"), slices.Index(x.log, "-role a"))
		require.LessOrEqual(x, n, 5)
	})
}

func TestDeletionsThatWaitDoNotRunForOtherDeletions(t *testing.T) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprintf("beside %t", beside), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newKinds(t, beside, "single")
				stopRoles, stopGrants := x.run(&x.roles), x.run(&x.grants)
				const n = 1000
				wtxn := x.db.WriteTxn(x.roles.table, x.grants.table)
				for i := range n {
					id, s := fmt.Sprint(i), reconciler.StatusPending()
					_, _, err := x.roles.table.Insert(wtxn, &node{ID: id, Status: s})
					require.NoError(x, err)
					_, _, err = x.grants.table.Insert(wtxn, &node{ID: id, On: id, Status: s})
					require.NoError(x, err)
					x.fails["grant "+id] = nil
				}
				wtxn.Commit()
				x.pass(time.Second)
				x.set(func() {
					for i := range n {
						x.fails["grant "+fmt.Sprint(i)] = errServer
					}
					clear(x.runs)
				})
				wtxn = x.db.WriteTxn(x.roles.table, x.grants.table)
				require.NoError(x, x.roles.table.DeleteAll(wtxn))
				require.NoError(x, x.grants.table.DeleteAll(wtxn))
				wtxn.Commit()
				x.pass(100 * time.Millisecond)
				runs := func() (sum int) {
					x.mu.Lock()
					defer x.mu.Unlock()
					for name, runs := range x.runs {
						if strings.HasPrefix(name, "role ") {
							sum += runs
						}
					}
					return sum
				}
				before := runs()
				require.LessOrEqual(x, before, 2*n, "once before the deletions of the grants are read, once after")
				x.set(func() {
					for i := range n / 2 {
						delete(x.fails, "grant "+fmt.Sprint(2*i))
					}
				})
				x.pass(10 * time.Second)
				require.Equal(x, before+n/2, runs())
				require.Len(x, x.holds(), n)
				x.set(func() { clear(x.fails) })
				x.pass(10 * time.Second)
				require.Equal(x, before+n, runs())
				require.Empty(x, x.holds())
				stopGrants()
				stopRoles()
			})
		})
	}
}

func TestDeletionNeedsALoopThatRuns(t *testing.T) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprintf("beside %t", beside), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newKinds(t, beside, "single")
				stopRoles := x.run(&x.roles)
				x.put(&x.roles, "a", "", 1)
				x.put(&x.roles, "b", "", 1)
				x.pass(50 * time.Millisecond)
				x.remove(&x.roles, "a")
				x.pass(50 * time.Millisecond)
				why := func(id string) string { return x.roles.loop.Explain(x.Context(), id).BlockedOn }
				require.Equal(x, `a grant of a is not known yet: reconciler "grants" has not been started`, why("a"))
				stopGrants := x.run(&x.grants)
				x.pass(50 * time.Millisecond)
				require.NotContains(x, x.holds(), "role a")

				x.put(&x.grants, "g", "b", 1)
				x.pass(50 * time.Millisecond)
				x.grants.loop.Pause()
				x.drop("b", "g")
				x.pass(time.Minute)
				require.Equal(x, "a grant of b is not deleted", why("b"))
				stopGrants()
				x.pass(50 * time.Millisecond)
				require.Equal(x, `a grant of b may not be deleted: reconciler "grants" has stopped`, why("b"))
				ran := x.ran("role b")
				x.pass(time.Minute)
				require.Equal(x, ran, x.ran("role b"), "it spins")
				stopRoles()
			})
		})
	}
}

// listed is a server whose objects a resync lists.
type listed struct {
	kindOperations
}

func (l listed) List(_ context.Context, _ statedb.ReadTxn, yield func(*node) bool) error {
	for name := range l.x.holds() {
		if id, is := strings.CutPrefix(name, l.k.name+" "); is {
			role, _, _ := strings.Cut(id, "/")
			yield(&node{ID: id, On: role, Value: 1})
		}
	}
	return nil
}

// What was deleted while the program was down, resyncs find.
func TestOrphansAreDeletedInOrder(t *testing.T) {
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			x := newKinds(t, beside, "single")
			for _, k := range []*kind{&x.roles, &x.grants} {
				cfg := k.loop.Config()
				cfg.Lister = listed{kindOperations{x, k}}
				cfg.Options = append(cfg.Options, reconciler.WithName(k.name))
				var err error
				k.loop, err = reconciler.New(cfg)
				require.NoError(t, err)
			}
			x.has = map[string]int{"role a": 1, "grant a/1": 1, "grant a/2": 1}
			x.takes["grant a/1"] = 100 * time.Millisecond
			stopGrants := x.run(&x.grants)
			x.pass(10 * time.Millisecond)
			stopRoles := x.run(&x.roles)
			x.pass(time.Second)
			require.Empty(x, x.holds())
			x.dropsBefore("a", "a/1", "a/2")
			x.set(func() {
				x.has = map[string]int{"role b": 1, "grant b/1": 1}
				x.takes["grant b/1"] = 100 * time.Millisecond
			})
			x.grants.loop.Resync()
			x.pass(10 * time.Millisecond)
			x.roles.loop.Resync()
			x.pass(time.Second)
			require.Empty(x, x.holds())
			x.dropsBefore("b", "b/1")
			stopRoles()
			stopGrants()
		})
	}
}

// The match of a deletion is a function of the program: it may panic, or ask.
func TestMatchOfANeedIsCalledWithoutALock(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.fill("a", "g")
		x.set(func() { x.fails["grant g"] = errServer })
		var panics atomic.Bool
		panics.Store(true)
		x.roles.remove = func(ctx context.Context, n *node) error {
			return reconciler.NeedDeleted(ctx, x.grants.loop, func(g *node) bool {
				if panics.Swap(false) {
					panic("odd")
				}
				// It takes the same lock.
				err := reconciler.NeedDeleted(ctx, x.grants.loop, func(*node) bool { return true }, "any grant")
				require.True(x, err == nil || reconciler.IsBlocked(err))
				return g.On == n.ID
			}, "a grant of "+n.ID)
		}
		x.drop("a", "g")
		x.pass(time.Second)
		require.False(x, panics.Load())
		x.set(func() { delete(x.fails, "grant g") })
		x.pass(2 * time.Second)
		require.Empty(x, x.holds())
	})
}

func TestDeletionNeedsALoop(t *testing.T) {
	err := reconciler.NeedDeleted(t.Context(), nil, func(*node) bool { return true }, "a grant")
	require.ErrorContains(t, err, "a grant is needed from a nil loop")
	require.False(t, reconciler.IsBlocked(err))
	require.False(t, errors.Is(err, reconciler.ErrNotKnown))
}
