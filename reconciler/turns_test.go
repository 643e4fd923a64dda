// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// hookedTable calls hook after the loop has taken the transaction of a round and before main takes
// its snapshot. That simulates a pause of the goroutine between the two.
type hookedTable struct {
	statedb.RWTable[*object]
	hook *atomic.Pointer[func()]
}

func (t hookedTable) Changes(wtxn statedb.WriteTxn) (statedb.ChangeIterator[*object], error) {
	it, err := t.RWTable.Changes(wtxn)
	return hookedIterator{it, t.hook}, err
}

type hookedIterator struct {
	statedb.ChangeIterator[*object]
	hook *atomic.Pointer[func()]
}

func (i hookedIterator) Next(txn statedb.ReadTxn) (iter.Seq2[statedb.Change[*object], statedb.Revision], <-chan struct{}) {
	if f := i.hook.Swap(nil); f != nil {
		(*f)()
	}
	return i.ChangeIterator.Next(txn)
}

// rewrite writes a row as another reconciler does, with the same status for this one.
func (e *env) rewrite(id uint64) statedb.Revision {
	return e.write(func(wtxn statedb.WriteTxn) {
		o, _, _ := e.table.Get(wtxn, idIndex.Query(id))
		o = o.Clone().SetOther(reconciler.StatusDone())
		_, _, err := e.table.Insert(wtxn, o)
		require.NoError(e, err)
	})
}

// A wait that begins between the transaction of a round and main's snapshot is for a revision after
// that snapshot. So it covers rows that are written again before the next snapshot.
func TestWaitBegunDuringASnapshotIsForTheNext(t *testing.T) {
	for _, m := range []reconciler.Milestone{reconciler.Attempted, reconciler.Applied} {
		t.Run(m.String(), func(t *testing.T) {
			var hook atomic.Pointer[func()]
			inBubble(t, func(e *env) {
				e.target.taking(func(c call) time.Duration { return 50 * time.Millisecond })
				var over <-chan waited
				began := make(chan struct{})
				f := func() {
					r := e.put(1, 2) // the row that the wait is for
					over = e.wait(r, m)
					synctest.Wait()
					close(began)
				}
				hook.Store(&f)
				e.put(1, 1)
				time.Sleep(10 * time.Millisecond) // row 1 is in flight
				<-began
				e.put(1, ids(3, 10)...)
				e.rewrite(2)
				w := <-over
				require.NoError(e, w.err)
				_, has := e.target.holds()[2]
				require.True(e, has, "row 2 was pending when the wait began, but is not in the target after %s", w.took)
				e.pass(time.Minute)
			}, func(e *env, cfg *reconciler.Config[*object]) {
				cfg.Table = hookedTable{cfg.Table.(statedb.RWTable[*object]), &hook}
			})
		})
	}
}

// Both cursors read deletions, and neither stops the other. Main's backlog of rows shrinks while
// rows are written and deleted at twice the rate of the target.
func TestMainAdvancesBesideTheCatchUpCursor(t *testing.T) {
	for _, c := range []struct {
		size    int // of the rounds
		backlog uint64
		took    time.Duration
		total   time.Duration
	}{
		{1000, 3000, 10 * time.Millisecond, 40 * time.Second},
		{1, 100, 2 * time.Millisecond, 20 * time.Second},
	} {
		// With an odd number of rounds before, another lane is first.
		for shift := range uint64(2) {
			t.Run(fmt.Sprintf("size %d, shift %d", c.size, shift), func(t *testing.T) {
				inBubble(t, func(e *env) {
					e.put(1, ids(1, 20_000)...)
					e.pass(time.Minute)
					e.target.takes(c.took)
					e.put(1, ids(50_001, 50_000+shift)...)
					e.pass(time.Second)
					e.write(func(wtxn statedb.WriteTxn) {
						for i := range c.backlog {
							_, _, err := e.table.Delete(wtxn, &object{ID: 1 + i})
							require.NoError(e, err)
							_, _, err = e.table.Insert(wtxn, &object{ID: 30_001 + i, Value: 1, Status: reconciler.StatusPending()})
							require.NoError(e, err)
						}
					})
					rows := ids(30_001, 30_000+c.backlog)
					half := uint64(c.total / c.took)
					var before int
					for i := range 2 * half {
						time.Sleep(c.took / 2)
						e.put(1, 100_000+i)
						e.remove(4000 + i%16_000)
						if i == half {
							before = e.notDone(rows...)
						}
					}
					last := e.notDone(rows...)
					require.True(e, last == 0 || last < before, "of %d rows of the backlog, %d were not done after half of the time, and %d at the end", len(rows), before, last)
				}, nil, reconciler.WithRoundLimits(c.size, nil))
			})
		}
	}
}

// The mean that starts the catch-up cursor is taken since main fell behind. So a target that
// becomes slow in the middle of a long load gets the cursor late.
func TestNewRowOvertakesALoadThatBecomesSlow(t *testing.T) {
	for _, quick := range []uint64{1000, 100_000} {
		t.Run(fmt.Sprint(quick), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.taking(func(c call) time.Duration {
					if c.id <= quick || c.id > 1<<30 {
						return 0
					}
					return 10 * time.Millisecond
				})
				e.put(1, ids(1, quick+5000)...)
				e.pass(time.Second)
				e.put(1, 1<<31)
				began := time.Now()
				for e.kind(1<<31) != reconciler.StatusKindDone && time.Since(began) < time.Minute {
					time.Sleep(10 * time.Millisecond)
				}
				require.Less(e, time.Since(began), time.Second, "until a new row is done")
				e.pass(time.Hour)
			}, nil)
		})
	}
}

// Main reads a snapshot in pieces: it ranges over the same sequence of changes again after a break.
// The comment of statedb's Next calls the sequence single-use, but v0.9.4 continues where it was
// left. This test fails if a later version does not.
func TestSequenceOfChangesContinuesAfterABreak(t *testing.T) {
	e := newEnv(t)
	wtxn := e.db.WriteTxn(e.table)
	changes, err := e.table.Changes(wtxn)
	require.NoError(t, err)
	wtxn.Commit()
	defer changes.Close()
	e.put(1, ids(1, 5)...)
	rest, _ := changes.Next(e.db.ReadTxn())
	e.put(1, 6)
	var read []uint64
	for range 3 {
		for change := range rest {
			read = append(read, change.Object.ID)
			if len(read)%2 == 0 {
				break
			}
		}
	}
	require.Equal(t, ids(1, 5), read, "the whole snapshot, and no later change")
}
