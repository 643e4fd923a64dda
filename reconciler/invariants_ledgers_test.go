// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"strconv"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	ledgers "github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// walkLoop is one of the two reconcilers of a walk, with the checks that know its ledger.
type walkLoop struct {
	*target
	w      *walk
	loop   *reconciler.Loop[*object]
	health *health
	stop   func()
	// isBeside: the ledger is beside the table. single: the operations are called for one object at a
	// time.
	isBeside, single bool
	// done has the versions that an update succeeded with. The mutex of the walk guards it.
	done map[version]bool
}

// version is what a status of a row is about. In the rows the status outlives the writes of others, so it
// is about the value, and revision is 0. Beside the table it is about exactly one revision.
type version struct {
	id       uint64
	value    int
	revision statedb.Revision
}

func (l *walkLoop) version(id uint64, value int, revision statedb.Revision) version {
	if !l.isBeside {
		revision = 0
	}
	return version{id, value, revision}
}

// kindOf returns the kind of status that an update leads to.
func kindOf(err error) reconciler.StatusKind {
	switch {
	case err == nil || !failed(err):
		return reconciler.StatusKindDone
	case reconciler.IsBlocked(err):
		return reconciler.StatusKindBlocked
	}
	return reconciler.StatusKindError
}

// noteDone records an update that succeeds.
func (l *walkLoop) noteDone(c call, err error) {
	if c.op != "update" || kindOf(err) != reconciler.StatusKindDone {
		return
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.done[l.version(c.id, c.value, c.revision)] = true
}

func (l *walkLoop) stopRefreshing() {
	require.NoError(l.w, l.loop.Reconfigure(func(s *reconciler.Settings) { s.RefreshInterval = 0 }))
}

// runAgain asks one of the loops to run some objects again.
func (w *walk) runAgain(id uint64) {
	loop, other := w.loops[w.rng.IntN(len(w.loops))].loop, 1+w.rng.Uint64N(10)
	what := w.rng.IntN(5)
	w.calls.Go(func() {
		var err error
		switch what {
		case 0, 1:
			_, err = loop.Reapply(w.Context(), &object{ID: id}, &object{ID: other})
		case 2, 3:
			_, err = loop.Refresh(w.Context(), strconv.FormatUint(id, 10), strconv.FormatUint(other, 10))
		default:
			_, err = loop.Refresh(w.Context())
		}
		if err != nil && !errors.Is(err, inspect.ErrNotFound) && !errors.Is(err, inspect.ErrStopped) {
			w.Errorf("a call returns %v", err)
		}
	})
}

// 5: Done is shown only for a version that was applied.
func (w *walk) requireDoneOnlyIfApplied() {
	txn := w.db.ReadTxn()
	w.mu.Lock()
	defer w.mu.Unlock()
	for o, revision := range w.table.All(txn) {
		for _, l := range w.loops {
			s, found := l.loop.Status(txn, o)
			require.True(w, found)
			require.True(w, s.Kind != reconciler.StatusKindDone || l.done[l.version(o.ID, o.Value, revision)],
				"5: object %d at %d is Done in %s, and was not applied", o.ID, revision, l.loop.ID())
		}
	}
}

// keepBusy writes some objects all the time, and checks that the others are applied nevertheless.
func (w *walk) keepBusy() {
	const quiet = 5
	for range 1000 {
		w.write(func(wtxn statedb.WriteTxn) { w.want(wtxn, quiet+1+w.rng.Uint64N(5)) })
		time.Sleep(3 * time.Millisecond)
	}
	for _, l := range w.loops {
		holds := l.holds()
		for id := range uint64(quiet) {
			want, wanted := w.wanted[id+1]
			got, has := holds[id+1]
			require.True(w, wanted == has && want == got, "6: the target of %s has %d (%t) for object %d, want %d (%t)",
				l.loop.ID(), got, has, id+1, want, wanted)
		}
	}
}

// 7: idle loops call no operation, read no key of a row, and write nothing. Only prunes go on.
func (w *walk) requireIdle() {
	for _, l := range w.loops {
		require.NoError(w, l.loop.Reconfigure(func(s *reconciler.Settings) { s.PruneInterval = 0 }))
		l.take()
	}
	synctest.Wait()
	revision := w.table.Revision(w.db.ReadTxn())
	counted.Store(0)
	w.pass(time.Hour)
	require.Zero(w, counted.Load(), "7: an idle loop reads keys")
	require.Equal(w, revision, w.table.Revision(w.db.ReadTxn()), "7: an idle loop writes")
	for _, l := range w.loops {
		require.Empty(w, l.calls(), "7: an idle loop calls operations")
	}
}

// 4, 8: nothing waits in any state, and nothing is left beside the table.
func (l *walkLoop) requireEmpty() {
	w := l.w
	s := l.loop.Snapshot(w.Context())
	for _, c := range s.States {
		require.Zero(w, c.Count, "4, 8: objects %s in %s", c.State, l.loop.ID())
	}
	require.Zero(w, s.Failing+s.Blocked+s.Unseen, "4, 8: %+v", s)
	require.Zero(w, s.LowWatermark, "1")
	require.Equal(w, s.Revision, s.Attempted, "1")
	if !l.isBeside {
		return
	}
	txn := w.db.ReadTxn()
	require.Zero(w, l.loop.Outcomes().NumObjects(txn), "8: outcomes of %s", l.loop.ID())
	for m := range l.mark().All(txn) {
		require.Equal(w, w.table.Revision(txn), m.Revision, "1: the mark of %s", l.loop.ID())
		require.Empty(w, m.Intervals, "8: %s", l.loop.ID())
	}
}

// mark returns the table of the mark.
func (l *walkLoop) mark() statedb.Table[*ledgers.Mark] {
	name := l.loop.Outcomes().Name()
	return l.w.db.GetTable(l.w.db.ReadTxn(), name[:len(name)-len("outcomes")]+"mark").(statedb.Table[*ledgers.Mark])
}

// requireConverged checks the statuses, the target and the health after the stop.
func (l *walkLoop) requireConverged(want map[uint64]int) {
	w := l.w
	require.NotEmpty(w, l.done)
	txn := w.db.ReadTxn()
	for o := range w.table.All(txn) {
		s, _ := l.loop.Status(txn, o)
		require.Equal(w, reconciler.StatusKindDone, s.Kind, "1: object %d in %s: %s", o.ID, l.loop.ID(), s)
	}
	require.Equal(w, want, l.holds(), "1, 3: the target of %s equals the table", l.loop.ID())
	level, message, err := l.health.Now()
	require.Equal(w, cell.StatusOK, level, "%s: %s: %v", l.loop.ID(), message, err)
}

// requireTableNotWritten checks that loops with the ledger beside the table do not write it.
func (w *walk) requireTableNotWritten() {
	for _, l := range w.loops {
		if !l.isBeside {
			return
		}
	}
	require.Equal(w, w.written, w.table.Revision(w.db.ReadTxn()), "5: a loop beside the table has written it")
}

// stop stops the loops, and checks what the targets have seen.
func (w *walk) stop() {
	for _, l := range w.loops {
		// An operation that starts at the moment of the stop could count as late: wait until none does.
		synctest.Wait()
		l.stop()
	}
	for _, l := range w.loops {
		l.mu.Lock()
		require.False(w, l.overlap, "2, 9: operations of %s overlapped", l.loop.ID())
		require.False(w, l.late, "10: an operation of %s started after the stop", l.loop.ID())
		l.mu.Unlock()
	}
}

// endEarly stops the loops in the middle of the history.
func (w *walk) endEarly() {
	w.stop()
	w.calls.Wait()
	w.checkPruned()
	w.requireDoneOnlyIfApplied()
	w.requireTableNotWritten()
	for _, l := range w.loops {
		l.requireFinishedWritten()
	}
}

// 10: the outcomes of operations that finished are written. That of an object that was asked for again
// is not, nor the success of one that is above the mark.
func (l *walkLoop) requireFinishedWritten() {
	w, last := l.w, map[uint64]call{}
	for _, c := range l.take() {
		if c.op != "prune" {
			last[c.id] = c
		}
	}
	txn := w.db.ReadTxn()
	for o, revision := range w.table.All(txn) {
		c := last[o.ID]
		if !l.single || c.op != "update" || l.version(o.ID, o.Value, revision) != l.version(c.id, c.value, c.revision) {
			continue
		}
		s, _ := l.loop.Status(txn, o)
		again := !l.isBeside && s.IsPendingOrRefreshing() && !s.UpdatedAt.Before(c.at)
		above := l.isBeside && kindOf(c.err) == reconciler.StatusKindDone && s.Kind == reconciler.StatusKindPending
		require.True(w, again || above || s.Kind == kindOf(c.err), "10: object %d of %s is %s after %v at %d",
			o.ID, l.loop.ID(), s, c.err, c.revision)
	}
}
