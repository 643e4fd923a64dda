// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/status"
)

func unset() status.Status { return status.Status{} }

func TestSnapshotIsReadToItsEndBeforeTheNext(t *testing.T) {
	e := newEnv(t, 2)
	e.put(status.Pending, ids(1, 5)...)
	require.Equal(e, []int{1, 2}, e.round())
	require.Equal(e, statedb.Revision(2), e.Revision())
	e.put(status.Pending, 3, 6)
	require.Equal(e, []int{3, 4}, e.round())
	require.Equal(e, []int{5}, e.round(), "a round never has changes of two snapshots")
	require.Equal(e, statedb.Revision(5), e.Revision())
	require.Equal(e, []int{3, 6}, e.round())
	require.Equal(e, []string{"took 5 after 0", "took 7 after 5"}, e.hooks())
}

func TestRowsThatAskForNothingAreSkipped(t *testing.T) {
	e := newEnv(t, 2)
	failed := func() status.Status { return status.Error(errors.New("no")) }
	e.put(status.Done, ids(1, 5)...)
	e.put(failed, 6)
	e.put(unset, 7, 8)
	e.put(status.Refreshing, 9)
	require.Equal(e, []int{9}, e.round())
	require.Equal(e, e.revision(), e.Revision())
	require.Equal(e, uint64(2), e.Unset())
	require.Equal(e, 1, e.Refreshes())
	require.Equal(e, []string{"took 9 after 0", "unset 7"}, e.hooks())
	require.Empty(e, e.round())
	require.Zero(e, e.Refreshes())
}

// A call of Observe reads a bounded number of changes, so that due keys and the other cursor are
// not delayed.
func TestLongSnapshotIsReadInSeveralCalls(t *testing.T) {
	e := newEnv(t, 2)
	e.put(status.Done, ids(1, 20_000)...)
	e.put(status.Pending, 20_001)
	planned, more := e.begin()
	require.Empty(e, planned)
	require.True(e, more)
	require.True(e, e.Behind())
	e.end(0, 0)
	require.Equal(e, []int{20_001}, e.round())
	require.False(e, e.Behind())
}

func TestMainCursorReportsDeletions(t *testing.T) {
	e := newEnv(t, 1)
	e.put(status.Pending, 1, 2)
	e.rounds(0)
	e.hooks()
	e.delete(1, 2)
	e.round()
	require.Equal(e, []string{"took 4 after 2", "deleted 1"}, e.hooks())
	e.round()
	require.Equal(e, []string{"deleted 2"}, e.hooks())
}

func TestRowInAWindowIsUnreconciledSinceItsWait(t *testing.T) {
	e := newEnv(t, 10)
	e.put(status.Pending, 1, 2, 3)
	e.since = 2
	e.begin()
	var since []uint64
	for i := range e.items {
		since = append(since, e.items[i].Since())
	}
	require.Equal(e, []uint64{1, 2, 2}, since)
	e.end(3, 0)
}

func TestForgottenObjectIsReported(t *testing.T) {
	e := newEnv(t, 10)
	e.put(status.Pending, 1)
	e.begin()
	launched := slices.Clone(e.items)
	e.delete(1)
	e.begin()
	require.NotContains(e, e.hooks(), "forgotten 1", "its operation is in flight")
	e.core.Recall(e.now, &launched[0])
	e.put(unset, 1)
	e.begin()
	require.Contains(e, e.hooks(), "forgotten 1")
	e.end(0, 0)
}

// A version of an older snapshot is stale only if another operation may have run since, or the
// target is slow.
func TestVersionIsStaleOnlyAfterOtherOperations(t *testing.T) {
	e := newEnv(t, 2)
	e.put(status.Pending, ids(1, 4)...)
	e.delete(3)
	e.begin()
	require.False(e, e.Stale(&e.items[0]), "the item is from the snapshot of this round")
	e.NoteOther()
	require.False(e, e.Stale(&e.items[0]))
	e.end(2, 0)
	e.put(status.Pending, 5)
	e.begin()
	require.True(e, e.Stale(&e.items[0]), "another operation was run since")
	e.end(2, 0)
	e.put(status.Pending, ids(6, 9)...)
	require.Equal(e, []int{5, 6}, e.round())
	e.delete(8)
	e.begin()
	require.False(e, e.Stale(&e.items[0]))
	e.end(2, 0)
}

// The version of a key that has waited is the row once all changes have been read, unless the row was written
// without asking for an operation: then the core knows only that there is a later version.
func TestVersionThatWaitedIsStaleUntilAllIsRead(t *testing.T) {
	for _, beside := range []bool{true, false} {
		for _, written := range []int{0, 1, 8} {
			t.Run(fmt.Sprintf("beside %t, %d written", beside, written), func(t *testing.T) {
				e := newEnv(t, 5)
				if beside {
					e = newEnvBeside(t, 5)
				}
				e.put(status.Pending, 1)
				e.begin()
				it, failure := &e.items[0], "no"
				e.core.Settle(e.now, it, core.Outcome[*row]{
					Kind: core.Failed, Text: &failure, Object: it.Obj, NewRevision: it.Revision, Delay: time.Second,
				})

				e.now += time.Second
				e.put(status.Pending, ids(2, 1+written)...)
				if written == 1 && !beside {
					e.put(func() status.Status { return status.Error(errors.New("no")) }, 1)
				}
				e.begin()
				waited := slices.IndexFunc(e.items, func(it core.Operation[*row]) bool { return it.Turn.Again })
				require.Equal(e, written == 8 || written == 1 && !beside, e.Stale(&e.items[waited]))
			})
		}
	}
}

// A deletion is not run with a lower revision than the operation before it.
func TestDeletionDoesNotGoBackInRevision(t *testing.T) {
	e := newEnv(t, 1)
	e.put(status.Pending, 1, 2)
	e.delete(2)
	e.begin()
	txn := e.db.ReadTxn()
	require.Equal(e, statedb.Revision(2), e.CallRevision(2, true, txn))
	require.Equal(e, statedb.Revision(3), e.CallRevision(3, false, txn))
	require.Equal(e, statedb.Revision(3), e.CallRevision(2, true, txn))
	require.Equal(e, statedb.Revision(2), e.CallRevision(2, false, txn))
	require.Equal(e, statedb.Revision(4), e.CallRevision(4, true, txn))
	e.end(1, 0)
}

func TestOwnWritesNeedNoLook(t *testing.T) {
	e := newEnv(t, 1)
	e.put(status.Pending, 1, 2)
	e.round()
	e.put(status.Done, 1)
	e.NoteWritten(e.revision(), 1)
	require.Equal(e, 1, e.Skippable())
	require.Equal(e, 1, e.Skippable(), "a query changes nothing")
	e.rounds(0)
	require.Zero(e, e.Skippable())
}
