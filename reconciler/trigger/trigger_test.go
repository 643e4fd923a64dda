// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

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

func TestDependentsAreAppliedWhateverTheirStatus(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.Start(f.cfg)
		f.follow(onPort)
		for i, test := range []struct {
			was  reconciler.Status
			want []string
		}{
			{reconciler.StatusDone(), []string{"refresh(1)"}},
			{reconciler.StatusError(errors.New("no")), []string{"update(2)"}},
			{status.Blocked("port"), []string{"update(3)"}},
			{reconciler.Status{}, nil},
		} {
			id, was := uint64(i+1), func() reconciler.Status { return test.was }
			f.add("eth0", was, id)
			f.add("eth1", was, id+10)
			f.Pass(time.Second)
			require.Empty(f, f.target.Calls(), "was %s", test.was)
			revision := f.Table.Revision(f.DB.ReadTxn())
			f.target.deciding(0, func(call) error {
				require.Equal(f, revision, f.Table.Revision(f.DB.ReadTxn()), "the table is written")
				return nil
			})
			f.set(i, "eth0")
			f.Pass(time.Second)
			require.Equal(f, test.want, f.target.Calls(), "was %s", test.was)
			if test.want != nil {
				require.Equal(f, reconciler.StatusKindDone, f.Kind(id))
			}
			f.target.deciding(0, func(call) error { return nil })
			require.Equal(f, reconciler.StatusKindDone, f.Row(id).Other.Kind, "another reconciler's status")
			f.Remove(id)
			f.Pass(time.Second)
			f.target.Take()
		}
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

// Each change that comes while an operation runs makes its result not count.
func TestObjectIsDoneNowAndThenWhileItsSourceKeepsChanging(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.Start(f.cfg)
		f.follow(onPort)
		f.target.deciding(10*time.Millisecond, func(call) error { return nil })
		f.add("eth0", reconciler.StatusPending, 1)
		done := 0
		for value := range 1000 {
			f.set(value, "eth0")
			time.Sleep(time.Millisecond)
			if f.Kind(1) == reconciler.StatusKindDone {
				done++
			}
		}
		require.Greater(f, done, 100)
		f.Pass(10 * time.Second)
		f.applied()
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
}
