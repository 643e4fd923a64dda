// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcdtest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
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

// applied waits until the ack says that a revision is applied.
func (w *world) applied(at int64) etcd.Ack {
	w.t.Helper()
	return w.acked(fmt.Sprint("all up to ", at), func(a etcd.Ack) bool { return a.Applied(uint64(at)) })
}

// attempted waits until the ack says that a revision was attempted.
func (w *world) attempted(at int64) etcd.Ack {
	w.t.Helper()
	return w.acked(fmt.Sprint("an attempt of ", at), func(a etcd.Ack) bool { return a.Revision >= uint64(at) })
}

// notApplied fails the test if an ack says that a revision is applied, in a time in which several acks are written.
func (w *world) notApplied(at int64) {
	w.t.Helper()
	for began := time.Now(); time.Since(began) < 2500*time.Millisecond; time.Sleep(5 * time.Millisecond) {
		ack, _ := w.ack(w.admin)
		require.False(w.t, ack.Applied(uint64(at)), "%+v", ack)
	}
}

func (w *world) alive() *clientv3.GetResponse {
	got, err := w.admin.Get(w.t.Context(), "alive/a")
	require.NoError(w.t, err)
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
	ack := w.applied(w.put("b", "3"))
	assert.Equal(t, w.source.Store(), ack.Store)
	assert.False(t, ack.Applied(ack.Revision+1))
	w.target.setFails("c", true)
	ack = w.attempted(w.put("c", "4", "a", "5"))
	assert.Equal(t, 1, ack.Failing)
	assert.False(t, ack.Applied(ack.Revision))
	assert.Contains(t, fmt.Sprint(ack.Problems), "c: no such device")
	// The revision that was attempted does not wait for what fails.
	at := w.put("a", "6")
	assert.False(t, w.attempted(at).Applied(ack.Revision))
	w.target.setFails("c", false)
	assert.Empty(t, w.applied(at).Problems)
	await(t, "the program to be told of the ack", func() error {
		if last := told.Load(); last == nil || !last.Applied(uint64(at)) || len(last.Problems) > 0 {
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
	w.applied(last)
	got, err := w.admin.Get(t.Context(), "acks/a")
	require.NoError(t, err)
	// One more for each new lease, and one at the beginning.
	assert.LessOrEqual(t, got.Kvs[0].Version, 3+int64(time.Since(start)/time.Second))
}

func TestAckStaysAndLeaseGoesWithTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{tell: forHours}, "a")
	ack := w.attempted(1)
	lease := w.awaitAlive()
	w.stop()
	// An agent that ends waits a second for the store, which may need longer on a busy machine.
	for try := 0; try < 5 && len(w.alive().Kvs) > 0; try++ {
		next := newAgent(t, plan{client: w.admin, tell: forHours})
		await(t, "the key of the next agent", func() error {
			if now := w.awaitAlive(); now != lease {
				lease = now
				return nil
			}
			return errors.New("it is that of the one before")
		})
		next.stop()
	}
	assert.Empty(t, w.alive().Kvs, "an agent that has ended is alive")
	after, found := w.ack(w.admin)
	assert.True(t, found)
	assert.Equal(t, ack.Store, after.Store)
	assert.GreaterOrEqual(t, after.Revision, ack.Revision)
}

func TestAgentThatIsCutOffIsAliveUntilItsLeaseEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	w.attempted(1)
	before := w.awaitAlive()
	w.proxy.setRefuse(true)
	await(t, "the lease to end", func() error {
		if len(w.alive().Kvs) > 0 {
			return errors.New("it is there")
		}
		return nil
	})
	_, err := w.admin.Delete(t.Context(), "acks/a")
	require.NoError(t, err)
	w.proxy.setRefuse(false)
	w.attempted(1)
	assert.NotEqual(t, before, w.awaitAlive())
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

func TestAckIsNotAppliedBeforeTheFirstPruneHasEnded(t *testing.T) {
	t.Parallel()
	p := plan{target: map[string]int{"a": 1, "old": 1, "older": 1}, loop: func(c *reconciler.Config[*row]) {
		workers(c)
		c.Options = append(c.Options, reconciler.WithOrphanBudget(1, 0))
	}}
	w := newWorld(t, p, "a")
	ack := w.acked("the budget", func(a etcd.Ack) bool {
		return a.Revision > 0 && strings.Contains(fmt.Sprint(a.Problems), "more than the budget of 1 objects")
	})
	assert.True(t, ack.Unpruned && !ack.Applied(1), "%+v", ack)
	w.target.setFails("old", true)
	assert.True(t, w.loop.ApproveResync())
	ack = w.acked("the resync", func(a etcd.Ack) bool { return a.Failing == 1 })
	assert.True(t, ack.Unpruned)
	w.target.setFails("old", false)
	w.applied(1)
	assert.Equal(t, map[string]int{"a": 1}, w.target.has())
}

func TestAckOfALoopThatNeverPrunesIsApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{loop: func(c *reconciler.Config[*row]) { c.Options = append(c.Options, reconciler.WithoutPruning()) }}, "a")
	w.applied(1)
}

// The second agent of a name has the keys, and the first says so, until the second has ended.
func TestSecondAgentOfANameIsReportedAndNotOverwritten(t *testing.T) {
	t.Parallel()
	var told reconcilertest.Health
	// No lease ends because the machine is busy: then the first agent would have the keys again.
	w := newWorld(t, plan{tell: func(a *etcd.Acks) { a.Health, a.TTL = &told, 20*time.Second }}, "a")
	w.applied(1)
	first := w.awaitAlive()
	second := newAgent(t, plan{client: connect(t, w.server.client), loop: workers, tell: func(a *etcd.Acks) { a.TTL = 20 * time.Second }})
	await(t, "the report", func() error { return says(&told, "another program") })
	lease := w.awaitAlive()
	require.NotEqual(t, first, lease)
	// What only the first has applied is not in the ack.
	end := second.target.hang("a")
	defer end()
	at := w.put("a", "5")
	await(t, "the first agent", func() error {
		if has := w.target.has(); has["a"] != 5 {
			return fmt.Errorf("its target has %v", has)
		}
		return nil
	})
	w.notApplied(at)
	assert.Equal(t, lease, w.awaitAlive())
	end()
	w.applied(at)
	second.stop()
	w.applied(at)
	await(t, "the end of the report", func() error { return says(&told, "OK") })
}

func TestAckOfTheProcessBeforeDoesNotLiveOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{}, "a")
	at := w.put("a", "2")
	w.applied(at)
	w.stop()
	// The next process reaches the store and takes long to list the prefix.
	listed := make(chan struct{})
	next := newAgent(t, plan{client: connect(t, w.server.client), config: func(c *etcd.Config[*row]) {
		c.Decode = func(key string, value []byte) (*row, error) { <-listed; return decode(key, value) }
	}})
	defer next.stop()
	defer close(listed)
	w.awaitAlive()
	w.notApplied(at)
}

func ownerOf(r *row) string {
	if r.Value >= 1000 {
		return "second"
	}
	return "etcd"
}

func TestTakenRowsAreNamedUntilTheirKeysGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plan{sink: func(c *source.Config[*row]) { c.Owner = ownerOf }}, "a", "b", "c")
	wtxn := w.db.WriteTxn(w.table)
	for _, taken := range []*row{{"a", 1000}, {"b", 1001}} {
		_, _, err := w.table.Insert(wtxn, taken)
		require.NoError(t, err)
	}
	wtxn.Commit()
	w.put("a", "5")
	ack := w.acked("the rejection", func(a etcd.Ack) bool { return a.Bad == 1 })
	assert.Contains(t, fmt.Sprint(ack.Problems), "rejected")
	w.delete("a")
	assert.Zero(t, w.attempted(w.put("c", "7")).Bad)
	w.have(map[string]int{"a": 1000, "b": 1001, "c": 7})
	// All keys go in the same store: rows of the other source stay.
	w.compactMeanwhile(func() {
		w.delete("", clientv3.WithPrefix())
		w.put("x", "bad")
	})
	w.have(map[string]int{"a": 1000, "b": 1001})
	w.settle(w.admin)
	// The other store is empty.
	w.put("c", "8")
	w.have(map[string]int{"a": 1000, "b": 1001, "c": 8})
	w.server.wipe()
	w.holds(1)
	w.put("d", "9")
	w.have(map[string]int{"a": 1000, "b": 1001, "d": 9})
}

func TestFailureInALargeTableHasItsReason(t *testing.T) {
	long.Only(t)
	t.Parallel()
	w := newWorld(t, plan{config: func(c *etcd.Config[*row]) { c.PageSize = 1000 }}, "a")
	for i := 0; i < 20_100; i += 100 {
		var ops []clientv3.Op
		for j := range 100 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("desired/k%d", i+j), "1"))
		}
		_, err := w.admin.Txn(t.Context()).Then(ops...).Commit()
		require.NoError(t, err)
	}
	w.target.setFails("a", true)
	at := uint64(w.put("a", "7"))
	ack := w.acked("the failure", func(a etcd.Ack) bool { return a.Revision >= at && a.Failing == 1 })
	assert.Contains(t, fmt.Sprint(ack.Problems), "no such device")
}

func TestHealthNamesWhyEtcdIsAway(t *testing.T) {
	t.Parallel()
	var told reconcilertest.Health
	a := newAgent(t, plan{client: connect(t, "127.0.0.1:1"), tell: func(a *etcd.Acks) { a.Health = &told }})
	const cause = "connect: connection refused"
	await(t, "the health of the acks", func() error { return says(&told, cause) })
	await(t, "the state of the source", func() error {
		if state := a.source.State(); state.Err == nil || !strings.Contains(state.Err.Error(), cause) {
			return fmt.Errorf("it is %+v", state)
		}
		return nil
	})
}
