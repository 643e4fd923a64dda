// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestRefreshIsCountedAndHasNoLatency(t *testing.T) {
	inBubble(t, func(e *env) {
		e.writeRows(1, 1)
		e.pass(time.Hour)
		before := e.loop.Figures()
		n, err := e.loop.Refresh(e.Context(), "1")
		require.NoError(e, err)
		require.Equal(e, 1, n)
		e.pass(time.Second)
		require.Equal(e, before.Updates.Done+1, e.loop.Figures().Updates.Done)
		require.Equal(e, before.Latency.Sum, e.loop.Figures().Latency.Sum, "a refresh is no change that waited")
		require.Equal(e, before.Refreshes+1, e.loop.Figures().Refreshes)
	}, beside)
}

func TestWaitForAppliedLastsWhileARefreshFails(t *testing.T) {
	inBubble(t, func(e *env) {
		e.writeRows(1, 1)
		synctest.Wait()
		e.target.deciding(failOne("no space"))
		_, err := e.loop.Refresh(e.Context(), "1")
		require.NoError(e, err)
		synctest.Wait()
		require.Equal(e, reconciler.StatusKindError, e.told(1).Kind)
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		rest, err := e.loop.WaitAll(ctx, reconciler.Applied)
		require.ErrorIs(e, err, context.DeadlineExceeded)
		require.Len(e, rest.Keys, 1)
		e.target.deciding(nil)
		_, err = e.loop.WaitAll(e.Context(), reconciler.Applied)
		require.NoError(e, err)
		require.Equal(e, reconciler.StatusKindDone, e.told(1).Kind)
	}, beside)
}

func TestRepeatedRequeueHasNoLatency(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(func(call) error { return reconciler.Requeue(time.Hour) })
		e.writeRows(1, 1)
		e.pass(10 * time.Hour)
		require.Less(e, e.loop.Figures().Latency.Sum, 1.0)
	}, beside)
}

func TestListedFailureIsNotCalledAForeignStatus(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.deciding(failOne("no space"))
		e.writeRows(1, 1)
		synctest.Wait()
		e.target.deciding(func(call) error { time.Sleep(50 * time.Millisecond); return nil })
		go func() { _, _ = e.loop.Retry(e.Context(), "1") }()
		time.Sleep(time.Millisecond)
		page := e.objects(inspect.ObjectQuery{})
		require.Equal(e, "Error", page.Objects[0].Status)
		require.Equal(e, inspect.StateDone, page.Objects[0].State, "it was applied before the loop answered")
	}, beside)
}

// watched checks the statuses of all rows at one moment after the other.
type watched struct {
	e    *env
	done map[uint64]statedb.Revision
}

func (w *watched) check() {
	w.e.Helper()
	txn, holds := w.e.db.ReadTxn(), w.e.target.holds()
	for o, revision := range w.e.table.All(txn) {
		s, _ := w.e.loop.Status(txn, o)
		done := s.Kind == reconciler.StatusKindDone
		if done {
			value, is := holds[o.ID]
			require.True(w.e, is && value == o.Value, "object %d is Done at value %d, and the target has %d", o.ID, o.Value, value)
			w.done[o.ID] = revision
		} else {
			require.NotEqual(w.e, w.done[o.ID], revision, "object %d is not Done any more: %v", o.ID, s)
		}
	}
}

func (w *watched) checkFor(d time.Duration) {
	w.e.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Microsecond) {
		synctest.Wait()
		w.check()
	}
}

func workersAndRound(workers, round int) []reconciler.Option {
	return []reconciler.Option{
		reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }), reconciler.WithRoundLimits(round, nil),
	}
}

func TestChangeReadBeforeItsOlderVersionIsNotDone(t *testing.T) {
	inBubble(t, func(e *env) {
		w := watched{e, map[uint64]statedb.Revision{}}
		e.target.takes(4 * time.Millisecond)
		e.writeRows(1, ids(1, 100)...)
		w.checkFor(20 * time.Millisecond)
		e.writeRows(2, ids(20, 100)...)
		w.checkFor(time.Second)
	}, beside, workersAndRound(2, 10)...)
}

func TestDoneDoesNotRevertWhenADeletionIsRead(t *testing.T) {
	inBubble(t, func(e *env) {
		e.writeRows(1, ids(1001, 1020)...)
		synctest.Wait()
		w := watched{e, map[uint64]statedb.Revision{}}
		e.target.takes(4 * time.Millisecond)
		e.writeRows(1, ids(1, 100)...)
		w.checkFor(20 * time.Millisecond)
		e.remove(ids(1001, 1020)...)
		e.writeRows(1, ids(201, 210)...)
		w.checkFor(time.Second)
	}, beside, workersAndRound(2, 4)...)
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

func TestObjectsAndExplainSayTheSameStateOfAnAppliedObject(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.taking(func(c call) time.Duration {
			if c.id == 1 {
				return 5 * time.Millisecond
			}
			return 0
		})
		e.writeRows(1, 1)
		e.writeRows(1, 2)
		time.Sleep(2 * time.Millisecond)
		require.Equal(e, 1, e.target.holds()[2])
		require.Equal(e, reconciler.StatusKindPending, e.told(2).Kind, "the mark is held")
		explained := e.loop.Explain(e.Context(), "2")
		page := e.objects(inspect.ObjectQuery{})
		require.Equal(e, explained.State, page.Objects[1].State)
	}, beside, workersAndRound(2, 10)...)
}
