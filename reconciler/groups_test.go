// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// byNote puts objects with the same note into a group.
func byNote(o *object) string { return o.Note }

// byRemainder puts objects into a group whose IDs leave the same remainder.
func byRemainder(n uint64) func(*object) string {
	return func(o *object) string { return strconv.FormatUint(o.ID%n, 10) }
}

// grouped tracks the groups of the running operations.
type grouped struct {
	mu      sync.Mutex
	running map[string]int
	most    int
	clash   string
}

// guard makes the target's operations take as long as takes returns, and records when two operations of
// a group run at the same time.
func (x *target) guard(groupOf func(c call) string, takes func(c call) time.Duration) *grouped {
	g := &grouped{running: map[string]int{}}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.before = func(_ context.Context, c call) {
		if c.op == "prune" {
			return
		}
		group := groupOf(c)
		g.mu.Lock()
		g.running[group]++
		if group != "" && g.running[group] > 1 {
			g.clash = fmt.Sprintf("%s while another of group %q ran", c, group)
		}
		g.most = max(g.most, len(g.running))
		g.mu.Unlock()
		time.Sleep(takes(c))
		g.mu.Lock()
		if g.running[group]--; g.running[group] == 0 {
			delete(g.running, group)
		}
		g.mu.Unlock()
	}
	return g
}

func (g *grouped) check(e *env) {
	e.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	require.Empty(e, g.clash)
}

func remainder(n uint64) func(c call) string {
	return func(c call) string { return strconv.FormatUint(c.id%n, 10) }
}

func always(d time.Duration) func(call) time.Duration {
	return func(call) time.Duration { return d }
}

func TestObjectsOfAGroupRunOneAtATime(t *testing.T) {
	withWorkersAnd(t, []int{1, 2, 8}, serially(byRemainder(5)), func(e *env, n int) {
		g := e.target.guard(remainder(5), always(time.Millisecond))
		for value := range 5 {
			e.put(value, ids(1, 60)...)
			e.pass(20 * time.Millisecond)
			e.remove(ids(1, 30)...)
			e.pass(7 * time.Millisecond)
		}
		e.pass(time.Minute)
		e.eachDone()
		g.check(e)
		if e.target.batches == 0 { // a batch has one of each group
			require.Equal(e, min(n, 5), g.most, "groups that ran at the same time")
		}
	}, reconciler.WithRoundLimits(10, nil))
}

func TestBatchHoldsAtMostOneObjectOfAGroup(t *testing.T) {
	withWorkersAnd(t, []int{1, 4}, serially(byRemainder(7)), func(e *env, _ int) {
		e.put(1, ids(1, 300)...)
		e.pass(time.Minute)
		e.eachDone()
		batches := map[int]map[uint64]bool{}
		for _, c := range e.target.take() {
			if c.batch == 0 {
				continue
			}
			if batches[c.batch] == nil {
				batches[c.batch] = map[uint64]bool{}
			}
			require.False(e, batches[c.batch][c.id%7], "two of a group in batch %d", c.batch)
			batches[c.batch][c.id%7] = true
		}
	})
}

// However many objects of a slow group wait, they delay neither other groups nor objects without a
// group, whether those come earlier or later.
func TestSlowGroupHoldsUpOnlyItself(t *testing.T) {
	groupOf := func(o *object) string {
		switch {
		case o.ID <= 5000:
			return "slow"
		case o.ID <= 6000:
			return strconv.FormatUint(o.ID%4, 10)
		}
		return ""
	}
	inBubble(t, func(e *env) {
		g := e.target.guard(func(c call) string { return groupOf(&object{ID: c.id}) },
			func(c call) time.Duration {
				if c.id <= 5000 {
					return 100 * time.Millisecond
				}
				return time.Millisecond
			})
		e.put(1, ids(1, 5000)...)
		e.put(1, ids(5001, 5100)...)
		e.put(1, ids(6001, 6100)...)
		e.pass(time.Second)
		for _, id := range append(ids(5001, 5100), ids(6001, 6100)...) {
			require.Equal(e, reconciler.StatusKindDone, e.kind(id), "object %d", id)
		}
		written := map[uint64]time.Time{}
		start := time.Now()
		for i := range uint64(50) {
			for _, id := range []uint64{5200 + i, 6200 + i} {
				e.put(1, id)
				written[id] = time.Now()
			}
			e.pass(30 * time.Millisecond)
		}
		e.doneSoon(start, written)
		require.Equal(e, reconciler.StatusKindPending, e.kind(4999))
		e.pass(10 * time.Minute)
		e.eachDone()
		g.check(e)
	}, serially(groupOf), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }))
}

// putIn inserts an object in a group.
func (e *env) putIn(group string, value int, id uint64) {
	wtxn := e.db.WriteTxn(e.table)
	defer wtxn.Commit()
	_, _, err := e.table.Insert(wtxn, &object{ID: id, Value: value, Note: group, Status: reconciler.StatusPending()})
	require.NoError(e, err)
}

// An object that moves to another group waits for the new group only.
func TestGroupChangesWithTheObject(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.taking(func(c call) time.Duration { return time.Duration(c.value) * time.Millisecond })
		// 2 waits for 1 in group a, and moves to b, which is free.
		e.putIn("a", 1000, 1)
		e.pass(time.Millisecond)
		e.putIn("a", 10, 2)
		e.pass(100 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindPending, e.kind(2))
		e.putIn("b", 10, 2)
		e.pass(20 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindDone, e.kind(2))

		// 3 runs in b and moves to a meanwhile: it leaves b to 4, and waits for a.
		e.putIn("b", 100, 3)
		e.pass(10 * time.Millisecond)
		e.putIn("b", 10, 4)
		e.putIn("a", 100, 3)
		e.pass(150 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindDone, e.kind(4))
		require.Equal(e, reconciler.StatusKindPending, e.kind(3))
		e.pass(time.Second)
		e.eachDone()

		// 1 occupies a. 5 waits for it and is deleted; 6 waits for it and loses its group.
		e.target.take()
		e.putIn("a", 1000, 1)
		e.pass(time.Millisecond)
		e.putIn("a", 10, 5)
		e.putIn("a", 10, 6)
		e.pass(10 * time.Millisecond)
		e.remove(5)
		e.putIn("", 10, 6)
		e.pass(20 * time.Millisecond)
		require.Equal(e, []string{"update(6)"}, e.target.calls())
		e.pass(time.Second)
		e.eachDone()
	}, serially(byNote), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 4 }))
}

// A change waits behind one refresh of its group, however many wait.
func TestRefreshOfAGroupHoldsUpNoChange(t *testing.T) {
	const took = 10 * time.Millisecond
	withWorkersAnd(t, []int{1, 4}, serially(func(*object) string { return "all" }), func(e *env, _ int) {
		e.put(1, ids(1, 1000)...)
		e.pass(time.Minute)
		e.target.guard(func(call) string { return "all" }, always(took))
		_, err := e.loop.Refresh(e.Context())
		require.NoError(e, err)
		e.pass(time.Second)
		e.target.take()
		changed := append(ids(1001, 1009), 999)
		e.put(2, changed...)
		e.pass(time.Duration(2*len(changed)+4) * took)
		for _, id := range changed {
			require.Equal(e, reconciler.StatusKindDone, e.kind(id), "object %d", id)
		}
		require.GreaterOrEqual(e, len(e.target.take()), 2*len(changed), "refreshes go on")
		e.pass(time.Minute)
		e.eachDone()
		require.GreaterOrEqual(e, len(e.target.take()), 800)
	}, reconciler.WithoutPruning())
}
