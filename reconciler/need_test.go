// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// device is a row that objects need in these tests.
type device struct {
	ID uint64
	Up bool
}

func (d *device) TableHeader() []string { return []string{"ID", "Up"} }

func (d *device) TableRow() []string { return []string{fmt.Sprint(d.ID), fmt.Sprint(d.Up)} }

func isUp(d *device) bool { return d.Up }

var deviceIndex = statedb.Index[*device, uint64]{
	Name:       "id",
	FromObject: func(d *device) index.KeySet { return index.NewKeySet(index.Uint64(d.ID)) },
	FromKey:    index.Uint64,
	Unique:     true,
}

// needing is a target whose updates need a device. The value of an object is the ID of its device.
type needing struct {
	*target
	db      *statedb.DB
	devices statedb.RWTable[*device]
	// after changes the error of Need; it may be nil.
	after func(err error) error
	tries atomic.Int32
}

func newNeeding(e *env) *needing {
	devices, err := statedb.NewTable(e.db, "devices", deviceIndex)
	require.NoError(e, err)
	return &needing{target: e.target, db: e.db, devices: devices}
}

func (n *needing) need(txn statedb.ReadTxn, o *object) error {
	n.tries.Add(1)
	_, err := reconciler.Need(txn, n.devices, deviceIndex.Query(uint64(o.Value)), fmt.Sprintf("device %d", o.Value), isUp)
	if n.after != nil {
		return n.after(err)
	}
	return err
}

func (n *needing) Update(ctx context.Context, txn statedb.ReadTxn, rev statedb.Revision, o *object) error {
	if err := n.need(txn, o); err != nil {
		return err
	}
	return n.target.Update(ctx, txn, rev, o)
}

// needingBatches is the same target with batch operations.
type needingBatches struct {
	batchTarget
	*needing
}

func (n needingBatches) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	for i, e := range batch {
		if batch[i].Result = n.need(txn, e.Object); batch[i].Result == nil {
			n.batchTarget.UpdateBatch(ctx, txn, batch[i:i+1])
		}
	}
}

// set inserts or changes a device, and waits until the loop is idle.
func (n *needing) set(e *env, id uint64, up bool) {
	n.write(e, func(wtxn statedb.WriteTxn) error {
		_, _, err := n.devices.Insert(wtxn, &device{ID: id, Up: up})
		return err
	})
	synctest.Wait()
}

func (n *needing) unset(e *env, id uint64) {
	n.write(e, func(wtxn statedb.WriteTxn) error { _, _, err := n.devices.Delete(wtxn, &device{ID: id}); return err })
	synctest.Wait()
}

func (n *needing) write(e *env, change func(wtxn statedb.WriteTxn) error) {
	wtxn := e.db.WriteTxn(n.devices)
	require.NoError(e, change(wtxn))
	wtxn.Commit()
}

// inNeed runs a test with a target that needs devices, with single operations, with batches and
// with workers. No operation runs again by the clock.
func inNeed(t *testing.T, test func(e *env, n *needing)) {
	for _, kind := range []string{"single", "batches", "workers"} {
		t.Run(kind, func(t *testing.T) {
			var n *needing
			workers := 1
			if kind == "workers" {
				workers = 4
			}
			inBubble(t, func(e *env) {
				start := time.Now()
				test(e, n)
				// Under load, the results of workers are collected for a millisecond at a time.
				most := time.Duration(0)
				if kind == "workers" {
					most = 100 * time.Millisecond
				}
				require.LessOrEqual(e, time.Since(start), most, "without waiting")
			}, func(e *env, cfg *reconciler.Config[*object]) {
				n = newNeeding(e)
				cfg.Operations = n
				if kind == "batches" {
					cfg.BatchOperations = needingBatches{batchTarget{e.target}, n}
				}
			}, reconciler.WithoutPruning(), reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck, s.Concurrency = 0, workers }))
		})
	}
}

// requireBlocked requires that an object is blocked for the reason.
func (e *env) requireBlocked(id uint64, reason string) {
	e.Helper()
	require.Equal(e, reconciler.StatusKindBlocked, e.kind(id))
	require.Equal(e, reason, e.get(id).Status.GetError())
}

// A query by an index without FromKey fails before Need is called, with a nil pointer: the status says why and where.
func TestIndexWithoutFromKeyIsNamedInTheStatus(t *testing.T) {
	inNeed(t, func(e *env, n *needing) {
		keyless := deviceIndex
		keyless.FromKey = nil
		n.after = func(error) error {
			_, err := reconciler.Need(e.db.ReadTxn(), n.devices, keyless.Query(1), "device 1")
			return err
		}
		e.put(7, 1)
		synctest.Wait()
		require.Equal(e, reconciler.StatusKindError, e.kind(1))
		require.Contains(e, e.get(1).Status.GetError(), "nil pointer dereference (the index of a query has no FromKey, at need_test.go:")
	})
	inNeed(t, func(e *env, n *needing) {
		n.after = func(error) error {
			_, err := reconciler.Need(nil, n.devices, deviceIndex.Query(1), "device 1", nil)
			return err
		}
		e.put(7, 1)
		synctest.Wait()
		require.Contains(e, e.get(1).Status.GetError(), "nil pointer dereference (at need_test.go:", "Need itself is not the place")
	})
}

func TestNeedReturnsTheObjectOrTheReason(t *testing.T) {
	e := newEnv(t)
	n := newNeeding(e)
	up, down := &device{ID: 1, Up: true}, &device{ID: 2}
	wtxn := e.db.WriteTxn(n.devices)
	for _, d := range []*device{up, down} {
		_, _, err := n.devices.Insert(wtxn, d)
		require.NoError(t, err)
	}
	txn := wtxn.Commit()
	yes, no := func(*device) bool { return true }, func(*device) bool { return false }
	for _, c := range []struct {
		id    uint64
		ready []func(*device) bool
		want  *device
		err   string
	}{
		{id: 1, want: up},
		{id: 2, want: down},
		{id: 1, ready: []func(*device) bool{isUp, yes}, want: up},
		{id: 2, ready: []func(*device) bool{isUp}, err: "device eth0 is not ready"},
		{id: 1, ready: []func(*device) bool{isUp, no}, err: "device eth0 is not ready"},
		{id: 3, err: "device eth0 is missing"},
		{id: 3, ready: []func(*device) bool{isUp}, err: "device eth0 is missing"},
	} {
		got, err := reconciler.Need(txn, n.devices, deviceIndex.Query(c.id), "device eth0", c.ready...)
		require.Same(t, c.want, got)
		if c.err == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.err)
		}
	}
}

func TestNeedFollowsTheRowUntilItIsReady(t *testing.T) {
	inNeed(t, func(e *env, n *needing) {
		e.put(7, 1)
		synctest.Wait()
		e.requireBlocked(1, "device 7 is missing")
		n.set(e, 7, false)
		e.requireBlocked(1, "device 7 is not ready")
		n.unset(e, 7)
		e.requireBlocked(1, "device 7 is missing")
		n.set(e, 7, false)
		e.requireBlocked(1, "device 7 is not ready")
		n.set(e, 7, true)
		e.eachDone()

		tries := n.tries.Load()
		n.unset(e, 7)
		n.set(e, 7, true)
		e.eachDone()
		require.Equal(e, tries, n.tries.Load(), "an object that is done does not run again")
	})
}

// After the start of a program, a dependency that is not in its table may still come: an operation that undoes
// what it did when a dependency goes must not do so.
func TestNeedSaysNotKnownWhileTheTableIsFilling(t *testing.T) {
	inNeed(t, func(e *env, n *needing) {
		var undone, unknown atomic.Int32
		n.after = func(err error) error {
			switch {
			case errors.Is(err, reconciler.ErrNotKnown):
				require.True(e, reconciler.IsBlocked(err), "%v", err)
				unknown.Add(1)
			case err != nil:
				undone.Add(1)
			}
			return err
		}
		wtxn := e.db.WriteTxn(n.devices)
		filled := n.devices.RegisterInitializer(wtxn, "kernel")
		wtxn.Commit()
		e.put(7, 1)
		e.put(8, 2)
		e.put(9, 3)
		n.set(e, 8, false)
		notKnown := ` is not known yet: table "devices" is not initialised`
		e.requireBlocked(1, "device 7"+notKnown)
		e.requireBlocked(2, "device 8"+notKnown)
		n.set(e, 9, true)
		require.Equal(e, reconciler.StatusKindDone, e.kind(3), "a row that is ready is known")
		require.Zero(e, undone.Load())
		require.NotZero(e, unknown.Load())

		wtxn = e.db.WriteTxn(n.devices)
		_, _, err := n.devices.Insert(wtxn, &device{ID: 8, Up: true})
		require.NoError(e, err)
		filled(wtxn)
		wtxn.Commit()
		synctest.Wait()
		e.requireBlocked(1, "device 7 is missing")
		require.EqualValues(e, 1, undone.Load())
		require.Equal(e, reconciler.StatusKindDone, e.kind(2))
		n.set(e, 7, true)
		e.eachDone()
	})
}

// The row may come after the snapshot of the operation and before the end of the operation.
func TestNeedLosesNoWakeUpWhileTheOperationRuns(t *testing.T) {
	inNeed(t, func(e *env, n *needing) {
		n.after = func(err error) error {
			if err != nil && n.tries.Load() == 1 {
				wtxn := e.db.WriteTxn(n.devices)
				n.devices.Insert(wtxn, &device{ID: 7, Up: true})
				wtxn.Commit()
			}
			return err
		}
		e.put(7, 1)
		synctest.Wait()
		e.eachDone()
		require.EqualValues(e, 2, n.tries.Load())
	})
}

func TestNeedWorksThroughOtherErrors(t *testing.T) {
	inNeed(t, func(e *env, n *needing) {
		wrap := func(err error) error { return fmt.Errorf("2 things: %w", errors.Join(errors.New("one"), err)) }
		n.after = func(err error) error {
			if err != nil {
				err = wrap(err)
			}
			return err
		}
		e.put(7, 1)
		synctest.Wait()
		e.requireBlocked(1, wrap(errors.New("device 7 is missing")).Error())
		n.set(e, 7, true)
		e.eachDone()
	})
}

func TestChangedOrDeletedObjectNoLongerWaits(t *testing.T) {
	inNeed(t, func(e *env, n *needing) {
		n.set(e, 8, true)
		e.put(7, 1, 2, 3)
		synctest.Wait()
		e.put(8, 1)
		e.remove(2)
		synctest.Wait()
		require.ElementsMatch(e, []string{"update(1)", "delete(2)"}, e.target.calls())
		_, message, _ := e.health.Now()
		require.Equal(e, "OK, 2 object(s), 1 blocked", message)

		tries := n.tries.Load()
		n.set(e, 7, true)
		require.Equal(e, []string{"update(3)"}, e.target.calls())
		require.Equal(e, tries+1, n.tries.Load())
		e.eachDone()
	})
}
