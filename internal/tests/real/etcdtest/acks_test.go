// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// acked waits for an ack.
func (w *world) acked(what string, is func(etcd.Ack) bool) etcd.Ack {
	w.t.Helper()
	var ack etcd.Ack
	await(w.t, what, func() error {
		if ack, _ = w.ack(w.admin); !is(ack) {
			return fmt.Errorf("the ack is %+v", ack)
		}
		return nil
	})
	return ack
}

func (w *world) alive() *clientv3.GetResponse {
	got, err := w.admin.Get(w.t.Context(), "alive/a")
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// awaitAlive waits until the key of the agent is there, and returns the lease of the key.
func (w *world) awaitAlive() (lease int64) {
	w.t.Helper()
	await(w.t, "the key with the lease", func() error {
		kvs := w.alive().Kvs
		if len(kvs) == 0 || kvs[0].Lease == 0 {
			return fmt.Errorf("there is %v", kvs)
		}
		lease = kvs[0].Lease
		return nil
	})
	return lease
}

// forHours makes leases live so long that none ends while a test runs, even if the machine is busy.
func forHours(a *etcd.Acks) { a.TTL = 2 * time.Hour }

func TestAckSaysWhatWasAttemptedAndWhatFails(t *testing.T) {
	t.Parallel()
	var told atomic.Pointer[etcd.Ack]
	w := newWorld(t, plan{tell: func(a *etcd.Acks) {
		a.Told = func(ack etcd.Ack, err error) {
			if err == nil {
				told.Store(&ack)
			}
		}
	}}, "a", "b")
	at := uint64(w.put("b", "3"))
	ack := w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(at) })
	if ack.Store != w.source.Store() || ack.Applied(ack.Revision+1) {
		t.Errorf("the ack is %+v", ack)
	}
	w.target.setFails("c", true)
	at = uint64(w.put("c", "4", "a", "5"))
	ack = w.acked("the failure", func(a etcd.Ack) bool { return a.Revision >= at })
	if ack.Failing != 1 || ack.Applied(at) || !strings.Contains(fmt.Sprint(ack.Problems), "c: no such device") {
		t.Errorf("the ack is %+v", ack)
	}
	w.target.setFails("c", false)
	w.acked("the success", func(a etcd.Ack) bool { return a.Applied(at) && len(a.Problems) == 0 })
	await(t, "the program to be told of the ack", func() error {
		if last := told.Load(); last == nil || !last.Applied(at) || len(last.Problems) > 0 {
			return fmt.Errorf("it was told %+v", last)
		}
		return nil
	})
}

func TestAckIsWrittenOnceASecondAtMost(t *testing.T) {
	t.Parallel()
	start := time.Now()
	w := newWorld(t, plan{tell: forHours}, "a")
	var last int64
	for n := 0; time.Since(start) < 2500*time.Millisecond; n++ {
		last = w.put("a", fmt.Sprint(n))
	}
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(uint64(last)) })
	got, err := w.admin.Get(t.Context(), "acks/a")
	if err != nil {
		t.Fatal(err)
	}
	// One more for each new lease, and one at the beginning.
	if most := 3 + int64(time.Since(start)/time.Second); got.Kvs[0].Version > most {
		t.Errorf("the ack was written %d times in %s", got.Kvs[0].Version, time.Since(start))
	}
}

func TestAckStaysAndLeaseGoesWithTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{tell: forHours}, "a")
	ack := w.acked("the ack", func(a etcd.Ack) bool { return a.Revision > 0 })
	w.awaitAlive()
	w.stop()
	if kvs := w.alive().Kvs; len(kvs) != 0 {
		t.Errorf("an agent that has ended is alive: %v", kvs)
	}
	if after, found := w.ack(w.admin); !found || after.Store != ack.Store || after.Revision < ack.Revision {
		t.Errorf("the ack is %+v", after)
	}
}

func TestAgentThatIsCutOffIsAliveUntilItsLeaseEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	w.acked("the ack", func(a etcd.Ack) bool { return a.Revision > 0 })
	before := w.awaitAlive()
	w.proxy.setRefuse(true)
	await(t, "the lease to end", func() error {
		if len(w.alive().Kvs) > 0 {
			return errors.New("it is there")
		}
		return nil
	})
	if _, err := w.admin.Delete(t.Context(), "acks/a"); err != nil {
		t.Fatal(err)
	}
	w.proxy.setRefuse(false)
	w.acked("the ack again", func(a etcd.Ack) bool { return a.Revision > 0 })
	await(t, "a new lease", func() error {
		if kvs := w.alive().Kvs; len(kvs) == 0 || kvs[0].Lease == before {
			return errors.New("there is none")
		}
		return nil
	})
}

func TestNewStoreGetsTheAckAndTheLeaseAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	before := w.acked("the ack", func(a etcd.Ack) bool { return a.Revision > 0 })
	w.server.wipe()
	at := uint64(w.put("a", "2"))
	after := w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(at) })
	if after.Store == before.Store {
		t.Errorf("the ack is of the old store: %+v", after)
	}
	w.awaitAlive()
}

func TestAckOfAChainWaitsForEachTable(t *testing.T) {
	t.Parallel()
	var derived statedb.RWTable[*row]
	var table *inputs.Table
	// The loop of the derived table is that of the rows: what counts is the table before it.
	p := plan{tell: func(a *etcd.Acks) { a.Loop = loopOf{a.Loop, "derived"} }}
	p.setup = func(db *statedb.DB) error {
		var err error
		derived, err = statedb.NewTableAny(db, "derived", nil, nil, statedb.Index[*row, string]{
			Name: "key", Unique: true, FromKey: index.String,
			FromObject: func(r *row) index.KeySet { return index.NewKeySet(index.String(r.Key)) },
		})
		if err != nil {
			return err
		}
		table, err = inputs.Open(db, "derived")
		return err
	}
	w := newWorld(t, p, "a", "b")
	publish := func() {
		wtxn := w.db.WriteTxn(derived, table.Meta())
		in := w.table.Revision(w.db.ReadTxn())
		if _, _, err := derived.Insert(wtxn, &row{Key: "x", Value: int(in)}); err != nil {
			t.Fatal(err)
		}
		table.Publish(wtxn, "rows", in, derived.Revision(wtxn))
		wtxn.Commit()
	}
	publish()
	first := w.acked("the first ack", func(a etcd.Ack) bool { return a.Revision > 0 })
	at := uint64(w.put("a", "7"))
	w.equal()
	// The ack is written for another reason meanwhile, and has not moved on.
	w.target.setFails("c", true)
	w.put("c", "1")
	ack := w.acked("another ack", func(a etcd.Ack) bool { return a.Failing == 1 })
	if ack.Revision >= at || ack.Revision < first.Revision {
		t.Errorf("the ack is %+v, the derived table does not include revision %d", ack, at)
	}
	publish()
	w.acked("the ack", func(a etcd.Ack) bool { return a.Revision >= at })
}

// loopOf is a loop that says that it reconciles another table.
type loopOf struct {
	inspect.Inspector
	table string
}

func (l loopOf) ID() inspect.ID { return inspect.ID{Name: "loop", Table: l.table} }

// workers makes a loop with two workers, so that an operation that hangs holds up its own object only.
func workers(c *reconciler.Config[*row]) {
	c.Options = append(c.Options, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
}

func TestAckCountsWhatWasBadAtItsRevision(t *testing.T) {
	t.Parallel()
	p := plan{loop: workers, sink: func(c *source.Config[*row]) {
		c.Owner = func(r *row) string {
			if r.Value == 13 {
				return "another"
			}
			return "etcd"
		}
	}}
	w := newWorld(t, p, "a", "b", "c", "d")
	at := uint64(w.put("a", "bad", "d", "13"))
	w.acked("the bad keys", func(a etcd.Ack) bool { return a.Revision >= at && a.Bad == 2 })

	// The loop cannot attempt the change of b, nor what comes after it.
	end := w.target.hang("b")
	defer end()
	w.put("b", "20")
	last := uint64(w.put("a", "10", "d", "40"))
	w.have(map[string]int{"a": 10, "b": 20, "c": 3, "d": 40})
	w.target.setFails("c", true)
	w.put("c", "30")
	ack := w.acked("the failure", func(a etcd.Ack) bool { return a.Failing == 1 })
	if ack.Revision >= last || ack.Bad != 2 {
		t.Errorf("the revision was attempted with two bad keys: %+v", ack)
	}
	end()
	w.target.setFails("c", false)
	w.acked("all", func(a etcd.Ack) bool { return a.Applied(last) })
}

func TestAckIsNotAppliedBeforeTheFirstPruneHasEnded(t *testing.T) {
	t.Parallel()
	p := plan{target: map[string]int{"a": 1, "old": 1, "older": 1}, loop: func(c *reconciler.Config[*row]) {
		workers(c)
		c.Options = append(c.Options, reconciler.WithSweepBudget(1, 0))
	}}
	w := newWorld(t, p, "a")
	ack := w.acked("the budget", func(a etcd.Ack) bool {
		return a.Revision > 0 && strings.Contains(fmt.Sprint(a.Problems), "more than the budget of 1 objects")
	})
	if !ack.Unpruned || ack.Applied(1) {
		t.Errorf("the ack is %+v", ack)
	}
	w.target.setFails("old", true)
	if !w.loop.ApproveSweep() {
		t.Error("no sweep was refused")
	}
	ack = w.acked("the sweep", func(a etcd.Ack) bool { return a.Failing == 1 })
	if !ack.Unpruned {
		t.Errorf("the ack is %+v", ack)
	}
	w.target.setFails("old", false)
	w.acked("all", func(a etcd.Ack) bool { return a.Applied(1) })
	if has := w.target.has(); !maps.Equal(has, map[string]int{"a": 1}) {
		t.Errorf("the target has %v", has)
	}
}

// A change that is paused counts as attempted. When the pause ends it is neither failing nor blocked.
func TestAckAfterAPauseIsAppliedOnlyWhenTheTargetHasIt(t *testing.T) {
	t.Parallel()
	var keys []string
	for i := range 50 {
		keys = append(keys, fmt.Sprintf("k%02d", i))
	}
	w := newWorld(t, plan{loop: workers}, keys...)
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(1) })
	w.loop.PauseObjects(func(*row) bool { return true })
	var ops []clientv3.Op
	want := map[string]int{}
	for _, key := range keys {
		ops, want[key] = append(ops, clientv3.OpPut("desired/"+key, "1000")), 1000
	}
	put, err := w.admin.Txn(t.Context()).Then(ops...).Commit()
	if err != nil {
		t.Fatal(err)
	}
	at := uint64(put.Header.Revision)
	w.acked("the pause", func(a etcd.Ack) bool { return a.Revision >= at && a.Paused == 50 })
	end := w.target.hang("k25")
	defer end()
	w.loop.Resume()
	for began := time.Now(); time.Since(began) < 2500*time.Millisecond; time.Sleep(5 * time.Millisecond) {
		if ack, _ := w.ack(w.admin); ack.Applied(at) {
			t.Fatalf("the operation of k25 has not ended, and the ack is %+v", ack)
		}
	}
	end()
	w.acked("all", func(a etcd.Ack) bool { return a.Applied(at) })
	if has := w.target.has(); !maps.Equal(has, want) {
		t.Errorf("the target has %v", has)
	}
}

// The revision that was attempted does not wait for what fails.
func TestRevisionMovesOnWhileAnObjectFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	w.target.setFails("b", true)
	w.put("b", "1")
	first := w.acked("the failure", func(a etcd.Ack) bool { return a.Failing == 1 })
	at := uint64(w.put("a", "2"))
	ack := w.acked("another change", func(a etcd.Ack) bool { return a.Revision >= at })
	if ack.Applied(at) || ack.Applied(first.Revision) {
		t.Errorf("the ack is %+v", ack)
	}
	w.target.setFails("b", false)
	w.acked("all", func(a etcd.Ack) bool { return a.Applied(at) })
}

func TestKeysOfAnAgentThatAreDeletedComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	at := uint64(w.put("a", "2"))
	for _, keys := range [][]string{{"alive/a"}, {"acks/a"}, {"acks/a", "alive/a"}} {
		w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(at) })
		w.awaitAlive()
		for _, key := range keys {
			if _, err := w.admin.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(at) })
	w.awaitAlive()
}

// The second agent of a name has the keys, and the first says so, until the second has ended.
func TestSecondAgentOfANameIsReportedAndNotOverwritten(t *testing.T) {
	t.Parallel()
	var told healthReports
	w := newWorld(t, plan{tell: func(a *etcd.Acks) { a.Health = &told }}, "a")
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(1) })
	first := w.awaitAlive()
	second := newAgent(t, plan{client: connect(t, w.server.client), loop: workers})
	await(t, "the report", func() error { return told.says("another program") })
	lease := w.awaitAlive()
	if lease == first {
		t.Fatal("the second agent has not the key")
	}
	// What only the first has applied is not in the ack.
	end := second.target.hang("a")
	defer end()
	at := uint64(w.put("a", "5"))
	await(t, "the first agent", func() error {
		if has := w.target.has(); has["a"] != 5 {
			return fmt.Errorf("its target has %v", has)
		}
		return nil
	})
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(5 * time.Millisecond) {
		if ack, _ := w.ack(w.admin); ack.Applied(at) {
			t.Fatalf("the second agent has not applied it, and the ack is %+v", ack)
		}
		if now := w.awaitAlive(); now != lease {
			t.Fatalf("the lease %x was overwritten with %x", lease, now)
		}
	}
	end()
	w.acked("the second agent", func(a etcd.Ack) bool { return a.Applied(at) })
	second.stop()
	w.acked("the first agent", func(a etcd.Ack) bool { return a.Applied(at) })
	await(t, "the end of the report", func() error { return told.says("OK") })
}

func TestAckOfALoopThatNeverPrunesIsApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{loop: func(c *reconciler.Config[*row]) { c.Options = append(c.Options, reconciler.WithoutPruning()) }}, "a")
	w.acked("the ack", func(a etcd.Ack) bool { return a.Applied(1) })
}
