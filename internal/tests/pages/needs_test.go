// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/trigger"
)

type Row struct{ Name, On string }

func getName(r *Row) string { return r.Name }

var byName, byOn = indexBy("name", true, getName), indexBy("on", false, func(r *Row) string { return r.On })

// Kind is a table with its reconciler, and the operations of that, which are those of a fake target first.
type Kind struct {
	rows           statedb.RWTable[*Row]
	loop           *reconciler.Loop[*Row]
	update, remove func(context.Context, statedb.ReadTxn, statedb.Revision, *Row) error
}

func (k *Kind) Update(ctx context.Context, txn statedb.ReadTxn, at statedb.Revision, r *Row) error {
	return k.update(ctx, txn, at, r)
}
func (k *Kind) Delete(ctx context.Context, txn statedb.ReadTxn, at statedb.Revision, r *Row) error {
	return k.remove(ctx, txn, at, r)
}

func TestNeeds(t *testing.T) { synctest.Test(t, testNeeds) }
func testNeeds(t *testing.T) {
	db, target, kinds := reconcilertest.NewDB(t), reconcilertest.NewTarget(getName, nil), map[string]*Kind{}
	for _, name := range []string{"devices", "routes", "plans", "roles", "grants"} {
		k := &Kind{update: target.Update, remove: target.Delete}
		k.rows, _ = statedb.NewTableAny(db, name, nil, nil, byName, byOn)
		k.loop, _ = reconciler.New(reconciler.Config[*Row]{DB: db, Table: k.rows, Operations: k})
		kinds[name] = k
	}
	devices, routes, plans, roles, grants := kinds["devices"], kinds["routes"], kinds["plans"], kinds["roles"], kinds["grants"]
	// An observed row. If the device goes, a trigger runs the route again, which goes ten seconds later.
	gone := map[string]time.Time{}
	routes.update = func(ctx context.Context, txn statedb.ReadTxn, at statedb.Revision, r *Row) error {
		_, err := reconciler.Need(txn, devices.rows, byName.Query(r.On), "device "+r.On)
		if err == nil {
			delete(gone, r.Name)
			return target.Update(ctx, txn, at, r)
		}
		if _, applied := target.Objects()[r.Name]; !applied || errors.Is(err, reconciler.ErrNotKnown) {
			return err // There is nothing to undo, or no reason for it.
		}
		if gone[r.Name].IsZero() {
			gone[r.Name] = time.Now()
		}
		if left := 10*time.Second - time.Since(gone[r.Name]); left > 0 {
			over := make(chan struct{})
			time.AfterFunc(left, func() { close(over) })
			return errors.Join(err, reconciler.Blocked("the route stays for the grace time", over))
		}
		if failure := target.Delete(ctx, txn, at, r); failure != nil {
			return failure // Joined with err it would be Blocked, and not retried with backoff.
		}
		return err
	}
	follower, _ := trigger.New(trigger.Config[*Row, *Row]{Loop: routes.loop, Source: devices.rows,
		Dependents: func(device statedb.Change[*Row]) []statedb.Query[*Row] {
			return []statedb.Query[*Row]{byOn.Query(device.Object.Name)}
		}})
	t.Cleanup(follower.Close) // after its Run has ended
	// A wished row, and one that is applied.
	grants.update = func(ctx context.Context, txn statedb.ReadTxn, at statedb.Revision, g *Row) error {
		_, noPlan := reconciler.Need(txn, plans.rows, byName.Query("small"), "plan small")
		_, noRole := reconciler.NeedApplied(ctx, txn, roles.loop, byName.Query(g.On), "role "+g.On)
		if err := errors.Join(noPlan, noRole); err != nil {
			return err
		}
		return target.Update(ctx, txn, at, g)
	}
	// Deletions.
	roles.remove = func(ctx context.Context, txn statedb.ReadTxn, at statedb.Revision, r *Row) error {
		ofRole := func(g *Row) bool { return g.On == r.Name }
		if err := reconciler.NeedDeleted(ctx, grants.loop, ofRole, "a grant of "+r.Name); err != nil {
			return err
		}
		return target.Delete(ctx, txn, at, r)
	}
	// The loops run when the operations have those that they need.
	for _, run := range []func(context.Context) error{routes.loop.Run, roles.loop.Run, grants.loop.Run, follower.Run} {
		t.Cleanup(reconcilertest.Go(t, run))
	}
	write := func(write func(wtxn statedb.WriteTxn)) {
		wtxn := db.WriteTxn(devices.rows, routes.rows, plans.rows, roles.rows, grants.rows)
		write(wtxn)
		wtxn.Commit()
		time.Sleep(30 * time.Second)
	}
	eth0, lan, small, web, read := &Row{"eth0", ""}, &Row{"lan", "eth0"}, &Row{"small", ""}, &Row{"web", ""}, &Row{"read", "web"}
	write(func(wtxn statedb.WriteTxn) { routes.rows.Insert(wtxn, lan); grants.rows.Insert(wtxn, read) })
	write(func(wtxn statedb.WriteTxn) { devices.rows.Insert(wtxn, eth0); plans.rows.Insert(wtxn, small) })
	write(func(wtxn statedb.WriteTxn) { roles.rows.Insert(wtxn, web) })
	write(func(wtxn statedb.WriteTxn) { roles.rows.Delete(wtxn, web); grants.rows.Delete(wtxn, read) })
	write(func(wtxn statedb.WriteTxn) { devices.rows.Delete(wtxn, eth0) })
	// The route ran twice for its device: for Need and for the trigger.
	if got := fmt.Sprint(slices.Compact(target.Calls())); got != "[update(lan) update(web) update(read) delete(read) delete(web) delete(lan)]" {
		t.Error(got)
	}
}
