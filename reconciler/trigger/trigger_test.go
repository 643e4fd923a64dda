// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/trigger"
	"github.com/statekeel/statekeel/status"
)

func TestDependentsAreRefreshedWhenTheSourceChanges(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.follow(onPort)
		f.runLoop()
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
		require.Empty(f, f.Logged())
	})
}

func TestMarkDependsOnTheStatus(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.follow(onPort)
		wants := map[reconciler.StatusKind]reconciler.StatusKind{
			reconciler.StatusKindDone:       reconciler.StatusKindRefreshing,
			reconciler.StatusKindRefreshing: reconciler.StatusKindRefreshing,
			reconciler.StatusKindPending:    reconciler.StatusKindPending,
			reconciler.StatusKindError:      reconciler.StatusKindPending,
			reconciler.StatusKindBlocked:    reconciler.StatusKindPending,
			reconciler.StatusKindUnset:      reconciler.StatusKindUnset,
		}
		for i, make := range []func() reconciler.Status{
			reconciler.StatusDone, reconciler.StatusRefreshing, reconciler.StatusPending,
			func() reconciler.Status { return reconciler.StatusError(errors.New("no")) },
			func() reconciler.Status { return status.Blocked("port") },
			func() reconciler.Status { return reconciler.Status{} },
		} {
			id := uint64(i + 1)
			f.add("eth0", make, id)
			f.add("eth1", make, id+10)
			was, revision, other := f.Row(id).Status, f.revisionOf(id), f.revisionOf(id+10)
			f.set(i, "eth0")
			f.Pass(time.Second)

			is := f.Row(id).Status
			require.Equal(f, wants[was.Kind], is.Kind, "was %s", was)
			require.Nil(f, is.Error, "was %s", was)
			if was.Kind == reconciler.StatusKindUnset {
				require.Equal(f, revision, f.revisionOf(id), "a row without a status is left alone")
			} else {
				require.Greater(f, is.ID, was.ID, "was %s", was)
			}
			require.Equal(f, other, f.revisionOf(id+10), "a row that does not depend on the port")
			require.Equal(f, reconciler.StatusKindDone, f.Row(id).Other.Kind, "another reconciler's status")
		}
	})
}

// An operation that began before the change has seen the old port. Its result is dropped, whatever
// started it and whatever it returns.
func TestChangeDuringAnOperationIsNotLost(t *testing.T) {
	for _, outcome := range []error{nil, errors.New("no"), reconciler.TerminalError(errors.New("no")),
		reconciler.Blocked("something"), reconciler.Requeue(time.Hour)} {
		for name, begin := range map[string]func(f *followed){
			"first attempt": func(f *followed) { f.add("eth0", reconciler.StatusPending, 1) },
			"refresh":       func(f *followed) { f.add("eth0", reconciler.StatusRefreshing, 1) },
			"retry": func(f *followed) {
				failed := false
				f.target.after(time.Second, func(call) error {
					if !failed {
						failed = true
						return errors.New("first")
					}
					return outcome
				})
				f.add("eth0", reconciler.StatusPending, 1)
				f.Pass(time.Second + 100*time.Millisecond)
				require.Equal(f, reconciler.StatusKindError, f.Kind(1))
			},
			"requeue": func(f *followed) {
				first := true
				f.target.after(time.Second, func(call) error {
					if first {
						first = false
						return reconciler.Requeue(time.Minute)
					}
					return outcome
				})
				f.add("eth0", reconciler.StatusPending, 1)
				f.Pass(time.Minute + time.Second)
				require.Equal(f, reconciler.StatusKindDone, f.Kind(1))
			},
		} {
			t.Run(fmt.Sprintf("%s, %v", name, outcome), func(t *testing.T) {
				withPorts(t, func(f *followed) {
					f.set(1, "eth0")
					f.follow(onPort)
					f.runLoop()
					f.target.after(time.Second, func(call) error { return outcome })
					begin(f)
					f.Pass(500 * time.Millisecond) // the operation is running
					f.target.Take()

					f.set(2, "eth0")
					synctest.Wait()
					f.target.after(time.Second, func(c call) error {
						if c.Object.Value == 1 {
							return outcome
						}
						return nil
					})
					f.Pass(10 * time.Second)
					calls := f.target.Take()
					require.GreaterOrEqual(f, len(calls), 2)
					require.Equal(f, 1, calls[0].Object.Value, "the operation began before the change")
					require.Equal(f, 2, calls[len(calls)-1].Object.Value)
					f.applied()
				})
			})
		}
	}
}

// The status of another reconciler gives the row a new revision, while the running operation still
// has the status ID of the row.
func TestChangeIsNotLostWhenAnotherStatusIsWritten(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.set(1, "eth0")
		f.follow(onPort)
		f.runLoop()
		f.target.after(time.Second, nil)
		f.add("eth0", reconciler.StatusPending, 1)
		f.Pass(500 * time.Millisecond)

		otherStatus := func() {
			f.Write(func(wtxn statedb.WriteTxn) {
				o, _, _ := f.Table.Get(wtxn, harness.ByID.Query(1))
				_, _, err := f.Table.Insert(wtxn, o.Clone().SetOther(reconciler.StatusDone()))
				require.NoError(f, err)
			})
		}
		otherStatus()
		f.set(2, "eth0")
		synctest.Wait()
		otherStatus()
		f.Pass(10 * time.Second)
		f.applied()
	})
}

func TestRowIsMarkedOnceARound(t *testing.T) {
	withPorts(t, func(f *followed) {
		everything := func(statedb.Change[*port]) []statedb.Query[*object] {
			return []statedb.Query[*object]{
				noteIndex.Query("eth0"), noteIndex.Query("eth1"), noteIndex.Query("eth0"), harness.ByID.Query(1), harness.ByID.Query(100),
			}
		}
		f.add("eth0", reconciler.StatusDone, harness.IDs(1, 5)...)
		f.add("eth1", reconciler.StatusDone, harness.IDs(6, 7)...)
		f.set(1, "eth0", "eth1", "eth2")
		f.prepare(everything)
		f.writes.take("objects")
		f.resume()
		synctest.Wait()
		require.Equal(f, []int{7}, f.writes.take("objects"))
	})
}

// An operation on a row that was written after the change sees the change.
func TestRowWrittenAfterTheChangeIsNotMarked(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.add("eth0", reconciler.StatusDone, 1, 2, 3)
		var revision statedb.Revision
		f.follow(func(change statedb.Change[*port]) []statedb.Query[*object] {
			f.add("eth0", reconciler.StatusPending, 1)
			f.Remove(2)
			revision = f.revisionOf(1)
			return onPort(change)
		})
		f.set(1, "eth0")
		synctest.Wait()
		require.Equal(f, revision, f.revisionOf(1))
		require.Nil(f, f.Row(2), "a deleted row stays deleted")
		require.Equal(f, reconciler.StatusKindRefreshing, f.Kind(3))
	})
}

// A status that is written between the read and the mark may be that of an operation which did not
// see the change.
func TestRowThatBecomesDoneMeanwhileIsMarked(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.add("eth0", reconciler.StatusDone, 1)
		f.follow(func(change statedb.Change[*port]) []statedb.Query[*object] {
			f.add("eth0", reconciler.StatusDone, 1)
			return onPort(change)
		})
		f.set(1, "eth0")
		synctest.Wait()
		require.Equal(f, reconciler.StatusKindRefreshing, f.Kind(1))
	})
}

func TestTableIsLockedOnlyToMarkRows(t *testing.T) {
	withPorts(t, func(f *followed) {
		seen := 0
		f.follow(func(change statedb.Change[*port]) []statedb.Query[*object] {
			seen++
			if change.Object.Value == 0 {
				return nil
			}
			return onPort(change)
		})
		f.add("eth1", func() reconciler.Status { return reconciler.Status{} }, 1)
		f.writes.take("objects")
		f.set(0, "eth0")
		synctest.Wait()
		f.set(1, "eth0", "eth1")
		synctest.Wait()
		require.Equal(f, 3, seen)
		require.Empty(f, f.writes.take("objects"))
	})
}

func TestIdleTriggerCostsNothing(t *testing.T) {
	withPorts(t, func(f *followed) {
		calls, looks := 0, 0
		f.cfg.GetStatus = func(o *object) reconciler.Status { looks++; return o.Status }
		f.follow(func(change statedb.Change[*port]) []statedb.Query[*object] {
			calls++
			return onPort(change)
		})
		f.add("eth0", reconciler.StatusDone, 1)
		f.set(1, "eth0")
		f.Pass(time.Second)
		require.Equal(f, 1, calls)
		f.writes.take("objects")
		told := len(f.health.History())
		require.NotZero(f, looks)
		looks = 0
		f.Pass(24 * time.Hour)
		require.Equal(f, 1, calls)
		require.Empty(f, f.writes.take("objects"))
		require.Len(f, f.health.History(), told)
		require.Zero(f, looks)
	})
}

// A change that everything depends on is marked in several transactions, so that others can write in
// between.
func TestManyRowsAreMarkedInSeveralTransactions(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.follow(onPort)
		f.add("eth0", reconciler.StatusDone, harness.IDs(1, 1000)...)
		f.writes.take("objects")
		f.set(1, "eth0")
		synctest.Wait()
		require.Equal(f, []int{256, 256, 256, 232}, f.writes.take("objects"))
		for o := range f.Table.All(f.DB.ReadTxn()) {
			require.Equal(f, reconciler.StatusKindRefreshing, o.Status.Kind)
		}
	})
}

func TestManyChangesAreMarkedTogether(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.follow(onPort)
		var names []string
		for id := range uint64(3000) {
			names = append(names, fmt.Sprintf("eth%d", id))
			f.add(names[id], reconciler.StatusDone, id)
		}
		f.writes.take("objects")
		f.set(1, names...)
		synctest.Wait()
		marked := 0
		sizes := f.writes.take("objects")
		for _, size := range sizes {
			marked += size
			require.LessOrEqual(f, size, 256)
		}
		require.Equal(f, 3000, marked)
		require.LessOrEqual(f, len(sizes), 13)
	})
}

// A row that the source had before the trigger was made may be newer than the version that an object
// was reconciled with.
func TestInitialSourceRowsCountAsChanged(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.set(1, "eth0")
		f.add("eth0", reconciler.StatusDone, 1)
		f.add("eth1", reconciler.StatusDone, 2)
		f.follow(onPort)
		require.Equal(f, reconciler.StatusKindRefreshing, f.Kind(1))
		require.Equal(f, reconciler.StatusKindDone, f.Kind(2))
	})
}

func TestDeletionBeforeTheRunIsNotLost(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.set(1, "eth0")
		f.add("eth0", reconciler.StatusDone, 1)
		f.prepare(onPort)
		f.unset("eth0")
		f.Pass(time.Minute) // deleted rows are collected meanwhile
		f.resume()
		synctest.Wait()
		require.Equal(f, reconciler.StatusKindRefreshing, f.Kind(1))
	})
}

// A source that changes all the time does not make a failing object run more often than its minimum
// backoff allows, and does not reset the count of its failures.
func TestTriggerDoesNotResetABackoff(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.follow(onPort)
		f.runLoop()
		f.target.failing("no")
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
		var attempts []int
		for _, round := range f.Loop.Journal() {
			for _, op := range round.Operations {
				attempts = append(attempts, op.Attempt)
			}
		}
		for i, attempt := range attempts {
			require.Equal(f, i+1, attempt, "attempts %v", attempts)
		}

		f.Pass(59 * time.Second)
		require.Empty(f, f.target.Take(), "the backoff counts all failures")
		f.Pass(2 * time.Second)
		require.Len(f, f.target.Take(), 1)
	}, reconciler.WithRetry(100*time.Millisecond, time.Minute))
}

// The source changes faster than all its dependents can run; each of them still gets its turn.
func TestAllDependentsRunWhileTheSourceKeepsChanging(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.follow(onPort)
		f.runLoop()
		f.target.after(time.Millisecond, nil)
		const objects = 400
		f.add("eth0", reconciler.StatusPending, harness.IDs(1, objects)...)
		for value := range 1000 {
			f.set(value, "eth0")
			time.Sleep(3 * time.Millisecond)
		}
		attempts := map[uint64]int{}
		for _, c := range f.target.Take() {
			attempts[c.Object.ID]++
		}
		for id := range uint64(objects) {
			require.GreaterOrEqual(f, attempts[id+1], 3, "attempts of %d", id+1)
		}
		f.Pass(10 * time.Second)
		f.applied()
	})
}

// An object depends on the object whose ID is in its Note. A chain of objects comes to rest, because
// the dependents function ignores statuses other than Done.
func TestSourceMayBeTheTableItself(t *testing.T) {
	withPorts(t, func(f *followed) {
		f.target.ports = nil
		loop, err := reconciler.New(f.cfg)
		require.NoError(f, err)
		f.Loop = loop
		own, err := trigger.New(loop, f.Table, func(change statedb.Change[*object]) []statedb.Query[*object] {
			if change.Object.Status.Kind != reconciler.StatusKindDone {
				return nil
			}
			return []statedb.Query[*object]{noteIndex.Query(fmt.Sprint(change.Object.ID))}
		})
		require.NoError(f, err)
		defer own.Close()
		ctx, cancel := context.WithCancel(f.Context())
		ended := make(chan error)
		go func() { ended <- own.Run(ctx) }()
		f.runLoop()

		for id := range uint64(5) {
			f.add(fmt.Sprint(int(id)-1), reconciler.StatusPending, id)
		}
		f.Pass(time.Minute)
		f.target.Take()
		f.add("-1", reconciler.StatusPending, 0)
		f.Pass(time.Minute)
		require.Equal(f, []string{"update(0)", "refresh(1)", "refresh(2)", "refresh(3)", "refresh(4)"}, f.target.Calls())
		cancel()
		require.NoError(f, <-ended)
	})
}
