// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/status"
)

func TestDependentsAreRefreshedWhenTheSourceChanges(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.Start(f.cfg)
		calls := 0
		f.follow(func(change statedb.Change[*port]) []statedb.Query[*object] {
			calls++
			return onPort(change)
		})
		f.add("eth0", reconciler.StatusPending, 1, 2)
		f.add("eth1", reconciler.StatusPending, 3)
		f.Pass(time.Second)
		f.applied()
		f.target.Take()

		for _, step := range []struct {
			name   string
			change func()
		}{
			{"insert", func() { f.set(1, "eth0") }},
			{"change", func() { f.set(2, "eth0") }},
			{"deletion", func() { f.unset("eth0") }},
			{"insert after a deletion", func() { f.set(3, "eth0") }},
		} {
			step.change()
			f.Pass(time.Second)
			require.Equal(f, []string{"refresh(1)", "refresh(2)"}, f.target.Calls(), step.name)
			f.applied()
		}

		revision, told := f.Table.Revision(f.DB.ReadTxn()), len(f.health.History())
		f.Pass(24 * time.Hour)
		require.Equal(f, revision, f.Table.Revision(f.DB.ReadTxn()), "an idle trigger writes nothing")
		require.Len(f, f.health.History(), told, "an idle trigger reports nothing")
		require.Equal(f, 4, calls)
		require.Empty(f, f.Logged())
	})
}

func TestMarkDependsOnTheStatus(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.follow(onPort)
		for i, test := range []struct {
			was  reconciler.Status
			want reconciler.StatusKind
		}{
			{reconciler.StatusDone(), reconciler.StatusKindRefreshing},
			{reconciler.StatusRefreshing(), reconciler.StatusKindRefreshing},
			{reconciler.StatusPending(), reconciler.StatusKindPending},
			{reconciler.StatusError(errors.New("no")), reconciler.StatusKindPending},
			{status.Blocked("port"), reconciler.StatusKindPending},
			{reconciler.Status{}, reconciler.StatusKindUnset},
		} {
			id, was := uint64(i+1), func() reconciler.Status { return test.was }
			f.add("eth0", was, id)
			f.add("eth1", was, id+10)
			revision, other := f.revisionOf(id), f.revisionOf(id+10)
			f.set(i, "eth0")
			f.Pass(time.Second)

			is := f.Row(id).Status
			require.Equal(f, test.want, is.Kind, "was %s", test.was)
			require.Nil(f, is.Error, "was %s", test.was)
			if test.want == reconciler.StatusKindUnset {
				require.Equal(f, revision, f.revisionOf(id), "a row without a status is left alone")
			} else {
				require.Greater(f, is.ID, test.was.ID, "was %s", test.was)
			}
			require.Equal(f, other, f.revisionOf(id+10), "a row that does not depend on the port")
			require.Equal(f, reconciler.StatusKindDone, f.Row(id).Other.Kind, "another reconciler's status")
		}
	})
}

// An operation that began before the change has seen the old port. Its result is dropped, whatever it is.
func TestChangeDuringAnOperationIsNotLost(t *testing.T) {
	for _, outcome := range []error{nil, errors.New("no"), reconciler.TerminalError(errors.New("no")),
		reconciler.Blocked("something"), reconciler.Requeue(time.Hour)} {
		for name, asked := range map[string]func() reconciler.Status{
			"update": reconciler.StatusPending, "refresh": reconciler.StatusRefreshing,
		} {
			t.Run(fmt.Sprintf("%s, %v", name, outcome), func(t *testing.T) {
				withPorts(t, func(f *followed) {
					f.set(1, "eth0")
					f.Start(f.cfg)
					f.follow(onPort)
					f.target.deciding(time.Second, func(c call) error {
						if c.Object.Value == 1 {
							return outcome
						}
						return nil
					})
					f.add("eth0", asked, 1)
					f.Pass(500 * time.Millisecond) // the operation is running
					f.set(2, "eth0")
					f.Pass(10 * time.Second)
					f.applied()
				})
			})
		}
	}
}

func TestRowIsMarkedOnceARound(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.add("eth0", reconciler.StatusDone, harness.IDs(1, 5)...)
		f.add("eth1", reconciler.StatusDone, harness.IDs(6, 7)...)
		f.set(1, "eth0", "eth1", "eth2")
		before := f.Table.Revision(f.DB.ReadTxn())
		f.follow(func(statedb.Change[*port]) []statedb.Query[*object] {
			return []statedb.Query[*object]{
				noteIndex.Query("eth0"), noteIndex.Query("eth1"), noteIndex.Query("eth0"),
				harness.ByID.Query(1), harness.ByID.Query(100),
			}
		})
		require.Equal(f, before+7, f.Table.Revision(f.DB.ReadTxn()))
	})
}

// An operation on a row that was written after the change sees the change. But a status that is written
// between the read and the mark may be that of an operation which did not see it.
func TestRowWrittenAfterTheChangeIsMarkedOnlyForAStatus(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.add("eth0", reconciler.StatusDone, 1, 2, 3, 4)
		var revision statedb.Revision
		f.follow(func(change statedb.Change[*port]) []statedb.Query[*object] {
			f.add("eth0", reconciler.StatusPending, 1)
			f.Remove(2)
			f.add("eth0", reconciler.StatusDone, 3)
			revision = f.revisionOf(1)
			return onPort(change)
		})
		f.set(1, "eth0")
		synctest.Wait()
		require.Equal(f, revision, f.revisionOf(1))
		require.Nil(f, f.Row(2), "a deleted row stays deleted")
		require.Equal(f, reconciler.StatusKindRefreshing, f.Kind(3))
		require.Equal(f, reconciler.StatusKindRefreshing, f.Kind(4))
	})
}

// A source that changes all the time does not make a failing object run more often than its minimum
// backoff allows, and does not reset the count of its failures.
func TestTriggerDoesNotResetABackoff(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.Start(f.cfg)
		f.follow(onPort)
		f.target.deciding(0, func(call) error { return errors.New("no") })
		f.set(0, "eth0")
		f.add("eth0", reconciler.StatusPending, 1)
		f.Pass(0)
		for value := range 100 {
			f.set(value, "eth0")
			f.Pass(10 * time.Millisecond)
		}
		f.Pass(100 * time.Millisecond) // the last change waits for its turn
		calls := f.target.Take()
		require.InDelta(f, 11, len(calls), 1, "attempts in 1.1 s")
		for i := 1; i < len(calls); i++ {
			require.GreaterOrEqual(f, calls[i].At.Sub(calls[i-1].At), 100*time.Millisecond, "attempt %d", i+1)
		}

		f.Pass(59 * time.Second)
		require.Empty(f, f.target.Take(), "the backoff counts all failures")
		f.Pass(2 * time.Second)
		require.Len(f, f.target.Take(), 1)
	})
}

// The source changes faster than all its dependents can run; each of them still gets its turn.
func TestAllDependentsRunWhileTheSourceKeepsChanging(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.Start(f.cfg)
		f.follow(onPort)
		f.target.deciding(time.Millisecond, func(call) error { return nil })
		const objects = 400
		f.add("eth0", reconciler.StatusPending, harness.IDs(1, objects)...)
		for value := range 500 {
			f.set(value, "eth0")
			time.Sleep(3 * time.Millisecond)
		}
		attempts := map[uint64]int{}
		for _, c := range f.target.Take() {
			attempts[c.Object.ID]++
		}
		for _, id := range harness.IDs(1, objects) {
			require.GreaterOrEqual(f, attempts[id], 2, "attempts of %d", id)
		}
		f.Pass(10 * time.Second)
		f.applied()
	})
}

// An object depends on the object whose ID is in its Note. A chain of objects comes to rest, because
// the dependents function ignores statuses other than Done.
func TestSourceMayBeTheTableItself(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.Start(f.cfg)
		f.prepare(f.Table, func(change statedb.Change[*object]) []statedb.Query[*object] {
			if change.Object.Status.Kind != reconciler.StatusKindDone {
				return nil
			}
			return []statedb.Query[*object]{noteIndex.Query(fmt.Sprint(change.Object.ID))}
		})
		f.resume()
		for id := range uint64(5) {
			f.add(fmt.Sprint(int(id)-1), reconciler.StatusPending, id)
		}
		f.Pass(time.Minute)
		f.target.Take()
		f.add("-1", reconciler.StatusPending, 0)
		f.Pass(time.Minute)
		require.Equal(f, []string{"update(0)", "refresh(1)", "refresh(2)", "refresh(3)", "refresh(4)"}, f.target.Calls())
	})
}
