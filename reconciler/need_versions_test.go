// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// A version of a row that was applied counts for the version of the object that was blocked, and not for the next one,
// which may have been written together with another version of the row.
func TestAppliedRowCountsForTheVersionThatWasBlocked(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.grants.update = func(ctx context.Context, txn statedb.ReadTxn, n *node) error {
			if n.ID != "g" {
				return nil
			}
			_, err := reconciler.NeedApplied(ctx, txn, x.roles.loop, nodeID.Query(n.On), "role "+n.On)
			if role := x.holds()["role "+n.On]; err == nil && role < n.Value {
				x.Errorf("version %d of the grant runs while the role is in version %d", n.Value, role)
			}
			return err
		}
		x.takes["role a"] = 30 * time.Millisecond
		x.put(&x.roles, "a", "", 1)
		x.put(&x.grants, "g", "a", 1)
		x.pass(10 * time.Millisecond)
		require.Equal(x, "Blocked role a is not applied", x.status(&x.grants, "g"))
		x.grants.loop.PauseObjects(func(n *node) bool { return n.ID == "g" })
		x.pass(40 * time.Millisecond)
		require.Equal(x, map[string]int{"role a": 1}, x.holds())
		wtxn := x.db.WriteTxn(x.roles.table, x.grants.table)
		for _, k := range []*kind{&x.roles, &x.grants} {
			id, on := "a", ""
			if k == &x.grants {
				id, on = "g", "a"
			}
			_, _, err := k.table.Insert(wtxn, &node{ID: id, On: on, Value: 2, Status: reconciler.StatusPending()})
			require.NoError(x, err)
		}
		wtxn.Commit()
		x.pass(10 * time.Millisecond)
		x.grants.loop.Resume()
		x.pass(time.Second)
		require.Equal(x, map[string]int{"role a": 2, "grant g": 2}, x.holds())
	})
}

// The deletion of an earlier version may not be carried out when the row is back, and is deleted again.
func TestMatchOfANeedGetsTheLastVersionOfADeletedRow(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.fill("a", "g")
		x.fill("b")
		x.fill("c")
		x.drop("c")
		x.set(func() { x.fails["grant g"] = errServer })
		x.remove(&x.grants, "g")
		x.pass(30 * time.Millisecond)
		require.NotContains(x, x.holds(), "role c")
		x.put(&x.grants, "g", "b", 2)
		x.remove(&x.grants, "g")
		x.pass(time.Millisecond)
		x.drop("b")
		x.pass(200 * time.Millisecond)
		require.Contains(x, x.holds(), "role b")
		require.Contains(x, x.roles.loop.Explain(x.Context(), "b").Why, "a grant of b is not deleted (deletion of g (grants): the server refuses)")
		x.set(func() { delete(x.fails, "grant g") })
		x.pass(2 * time.Second)
		require.Equal(x, map[string]int{"role a": 1}, x.holds())
	})
}

// Without the reason, somebody would look for a fault of the role or of the grants.
func TestPauseThatHoldsANeedUpIsInExplain(t *testing.T) {
	inKinds(t, func(x *kinds) {
		x.fill("b", "h")
		why := func(k *kind, id string) string { return k.loop.Explain(x.Context(), id).Why }
		x.roles.loop.Pause()
		x.put(&x.roles, "a", "", 1)
		x.put(&x.grants, "g", "a", 1)
		x.pass(30 * time.Millisecond)
		require.Equal(x, `its operation waits for something: role a is not applied (reconciler "roles" is paused)`, why(&x.grants, "g"))
		x.roles.loop.Resume()
		x.pass(30 * time.Millisecond)
		require.Equal(x, "Done", x.status(&x.grants, "g"))

		x.grants.loop.Pause()
		x.drop("a", "g")
		x.pass(30 * time.Millisecond)
		require.Equal(x, `its operation waits for something: a grant of a is not known yet: reconciler "grants" is paused`, why(&x.roles, "a"))
		x.grants.loop.Resume()
		x.set(func() { x.fails["grant h"] = errServer })
		x.drop("b", "h")
		x.pass(30 * time.Millisecond)
		x.grants.loop.Pause()
		require.Equal(x, `its operation waits for something: a grant of b is not deleted`+
			` (deletion of h (grants): the server refuses, reconciler "grants" is paused)`, why(&x.roles, "b"))
		x.set(func() { delete(x.fails, "grant h") })
		x.grants.loop.Resume()
		x.pass(2 * time.Second)
		require.Empty(x, x.holds())
	})
}
