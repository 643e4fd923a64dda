// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// beside removes the status functions from a configuration, so that outcomes are written beside the
// table.
func beside(_ *env, cfg *reconciler.Config[*object]) {
	cfg.Clone, cfg.SetStatus, cfg.GetStatus = nil, nil, nil
}

// told returns the status of an object according to the loop, in a transaction of its own.
func (e *env) told(id uint64) reconciler.Status {
	e.Helper()
	s, found := e.loop.Status(e.db.ReadTxn(), &object{ID: id})
	require.True(e, found, "object %d has no row", id)
	return s
}

// outcomes returns the rows of the table of outcomes.
func (e *env) outcomes() (rows []*inspect.Outcome) {
	for o := range e.loop.Outcomes().All(e.db.ReadTxn()) {
		rows = append(rows, o)
	}
	return rows
}

func (e *env) writeRows(value int, ids ...uint64) {
	wtxn := e.db.WriteTxn(e.table)
	for _, id := range ids {
		_, _, err := e.table.Insert(wtxn, &object{ID: id, Value: value})
		require.NoError(e, err)
	}
	wtxn.Commit()
}

// failOne makes the operations of object 1 fail.
func failOne(text string) func(call) error {
	return func(c call) error {
		if c.id == 1 {
			return errors.New(text)
		}
		return nil
	}
}

func TestDeletionThatFailsHasARow(t *testing.T) {
	inBubble(t, func(e *env) {
		e.writeRows(1, 1)
		synctest.Wait()
		e.target.deciding(failOne("busy"))
		e.Remove(1)
		synctest.Wait()
		rows := e.outcomes()
		require.Len(e, rows, 1)
		require.True(e, rows[0].Deleted)
		_, found := e.loop.Status(e.db.ReadTxn(), &object{ID: 1})
		require.False(e, found)
		e.target.deciding(nil)
		time.Sleep(time.Minute)
		require.Empty(e, e.outcomes())
	}, beside)
}

func TestChangedRowDoesNotShowTheFailureOfItsOlderVersion(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(failOne("busy"))
		e.writeRows(1, 1)
		time.Sleep(time.Second)
		require.Equal(e, reconciler.StatusKindError, e.told(1).Kind)
		wtxn := e.db.WriteTxn(e.table)
		_, _, err := e.table.Insert(wtxn, &object{ID: 1, Value: 2})
		require.NoError(e, err)
		s, _ := e.loop.Status(wtxn.Commit(), &object{ID: 1}) // before the loop reads the change
		require.Equal(e, reconciler.StatusKindPending, s.Kind)
	}, beside)
}

func TestSlowOperationHoldsTheMarkForTenMilliseconds(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			if c.id == 1 {
				time.Sleep(time.Second)
			}
			return nil
		})
		e.writeRows(1, 1)
		time.Sleep(time.Millisecond)
		e.writeRows(1, 2)
		time.Sleep(time.Millisecond)
		require.Equal(e, reconciler.StatusKindPending, e.told(2).Kind, "the mark is held")
		time.Sleep(20 * time.Millisecond)
		require.Equal(e, reconciler.StatusKindDone, e.told(2).Kind)
		require.Equal(e, reconciler.StatusKindPending, e.told(1).Kind)
		rows := e.outcomes()
		require.Len(e, rows, 1)
		require.Equal(e, reconciler.StatusKindPending, rows[0].Kind)
		time.Sleep(time.Second)
		require.Equal(e, reconciler.StatusKindDone, e.told(1).Kind)
		require.Empty(e, e.outcomes())
	}, beside, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }))
}

func TestCheckpointBesideTheTableIsTerminal(t *testing.T) {
	inBubble(t, func(e *env) {
		e.writeRows(1, 1)
		synctest.Wait()
		time.Sleep(time.Minute)
		s := e.told(1)
		require.Equal(e, reconciler.StatusKindError, s.Kind)
		require.Equal(e, 1, len(e.loop.Operations(inspect.OperationQuery{Key: "1"})))
	}, func(e *env, cfg *reconciler.Config[*object]) {
		beside(e, cfg)
		cfg.Operations = checkpointing{e.target}
	})
}

type checkpointing struct{ *target }

func (c checkpointing) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, o *object) error {
	return reconciler.Checkpoint(ctx, o)
}

// More objects are handed over than the loop takes at a time, and nothing else wakes it.
func TestReapplyAppliesMoreObjectsThanARound(t *testing.T) {
	inBubble(t, func(e *env) {
		e.writeRows(1, ids(1, 25)...)
		synctest.Wait()
		e.target.take()
		var objs []*object
		for _, id := range ids(1, 25) {
			objs = append(objs, &object{ID: id})
		}
		ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
		defer cancel()
		_, err := e.loop.Reapply(ctx, objs...)
		require.NoError(e, err)
		synctest.Wait()
		require.Len(e, e.target.take(), 25)
	}, beside, reconciler.WithRoundLimits(10, nil))
}

// StatusWatch: the status of an object that is applied above the mark changes when the mark passes it. No outcome is
// written then.
func TestStatusWatchClosesWhenTheMarkPasses(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.taking(func(c call) time.Duration {
			if c.id == 1 {
				return 5 * time.Millisecond
			}
			return 0
		})
		e.writeRows(1, 1)
		e.writeRows(1, 2)
		time.Sleep(time.Millisecond)
		s, found, channels := e.loop.StatusWatch(e.db.ReadTxn(), &object{ID: 2})
		require.True(e, found)
		require.Equal(e, reconciler.StatusKindPending, s.Kind, "the mark is held")
		changed := statedb.NewWatchSet()
		changed.Add(channels...)
		ctx, cancel := context.WithTimeout(e.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := changed.Wait(ctx, 0)
		require.NoError(e, err)
		require.Equal(e, reconciler.StatusKindDone, e.told(2).Kind)
	}, beside, workersAndRound(2, 10)...)
}

func TestRepeatedRequeueHasNoLatency(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(call) error { return reconciler.Requeue(time.Hour) })
		e.writeRows(1, 1)
		e.pass(10 * time.Hour)
		require.Less(e, e.loop.Figures().Latency.Sum, 1.0)
	}, beside)
}

func workersAndRound(workers, round int) []reconciler.Option {
	return []reconciler.Option{
		reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(round, nil),
	}
}

func TestWaitForEndsWhenTheStatusIsDone(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(c call) error {
			time.Sleep(4 * time.Millisecond)
			if c.id == 1001 {
				time.Sleep(time.Second)
			}
			return nil
		})
		e.writeRows(1, ids(1, 1000)...)
		time.Sleep(50 * time.Millisecond)
		e.writeRows(1, 1001, 1002)
		var waited time.Duration
		began := time.Now()
		go func() {
			_, err := e.loop.WaitFor(e.Context(), reconciler.Applied, &object{ID: 1002})
			require.NoError(e, err)
			waited = time.Since(began)
		}()
		for e.told(1002).Kind != reconciler.StatusKindDone {
			time.Sleep(time.Millisecond)
		}
		done := time.Since(began)
		require.Less(e, done, 200*time.Millisecond)
		e.pass(10 * time.Second)
		require.LessOrEqual(e, waited, done)
	}, beside, workersAndRound(2, 10)...)
}

func TestRefreshInAnOperationReturnsAnErrorAtOnce(t *testing.T) {
	inBubble(t, func(e *env) {
		e.writeRows(1, 1)
		synctest.Wait()
		e.writeRows(2, 2)
		synctest.Wait()
		require.Equal(e, reconciler.StatusKindError, e.told(2).Kind)
		require.Contains(e, e.told(2).GetError(), reconciler.ErrInOperation.Error())
		require.Equal(e, reconciler.StatusKindDone, e.told(1).Kind)
	}, func(e *env, cfg *reconciler.Config[*object]) {
		beside(e, cfg)
		cfg.Operations = refreshing{e.target, e}
	})
}

// refreshing refreshes object 1 in the update of object 2.
type refreshing struct {
	*target
	e *env
}

func (r refreshing) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, o *object) error {
	if o.ID == 2 {
		if _, err := r.e.loop.Refresh(ctx, "1"); err != nil {
			return reconciler.TerminalError(err)
		}
	}
	return r.target.Update(ctx, txn, revision, o)
}
