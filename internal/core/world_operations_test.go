// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// job is a launched operation.
type job struct {
	run
	began time.Duration
	// other: the item had an entry, so main did not hand it over in its round. snapshot is the
	// number of main's snapshot then.
	other    bool
	snapshot int
}

// run is the operation of an item.
type run struct {
	item *Operation[row]
	row  row
	out  Outcome[row]
	// back: it has only looked, and leaves its key as it was.
	back bool
}

// resolve returns the operation for an item: for the item as it is, or for the row in the snapshot.
// It returns false if there is nothing to run. A deletion is always looked up.
func (w *world) resolve(snapshot map[string]row, it *Operation[row], looks bool) (run, bool) {
	if !looks && !it.Deleted {
		return run{item: it, row: it.Obj}, true
	}
	r, ok := snapshot[it.Obj.key]
	gone := !ok || r.deleted
	switch {
	case gone && it.Deleted:
		// It is run as the latest deletion, also for an orphan.
		key := it.Obj.key
		return run{item: it, row: row{
			key: key, pendingID: max(r.pendingID, it.Obj.pendingID, w.started[key]), deleted: true, revision: it.Revision, group: it.Obj.group,
		}}, true
	case gone:
		w.settle(w.now, it, Outcome[row]{Kind: Superseded})
		return run{}, false
	case r.revision != it.Revision && w.dealtWith(r):
		w.settle(w.now, it, Outcome[row]{Kind: Void})
		return run{}, false
	case r.asks():
		return run{item: it, row: r}, r.revision == it.Revision || w.renew(it, r)
	case it.Deleted, it.Untried(), r.status == statusUnset:
		w.settle(w.now, it, Outcome[row]{Kind: Void})
		return run{}, false
	}
	return run{item: it, row: r}, true
}

// renew renews an item to a later version, and reports whether it may still be run.
func (w *world) renew(it *Operation[row], r row) bool {
	runs := w.model.lookUp(it, r, r.revision, w.since(r))
	require.Equal(w.t, runs, w.core.Renew(it, r, r.revision, w.since(r)), "whether %q is run", r.key)
	return runs
}

// begin begins an operation on the target.
func (w *world) begin(r *run) {
	key := r.row.key
	require.Nil(w.t, w.jobOf(key), "two operations on %q overlap", key)
	require.GreaterOrEqual(w.t, r.row.pendingID, w.started[key], "%q went back to an older version", key)
	require.False(w.t, w.paused[key], "%q is paused", key)
	w.started[key] = r.row.pendingID
}

// launch launches an operation.
func (w *world) launch(r *run) {
	f := &job{began: w.now, other: r.item.HasEntry(), snapshot: w.snapshots}
	item := *r.item
	f.run = run{item: &item, row: r.row}
	w.jobs = append(w.jobs, f)
}

// finish ends the ith launched operation, at a time between its beginning and now.
func (w *world) finish(i int, at time.Duration, out Outcome[row], right func() bool) {
	f := w.jobs[i]
	w.jobs = slices.Delete(w.jobs, i, i+1)
	w.mixed = w.mixed || f.other || f.snapshot != w.snapshots
	w.conclude(&f.run, out, right)
	w.commit(&f.run)
	w.settleRun(max(at, f.began), &f.run)
	w.requireSound()
}

// conclude ends an operation on the target, or a look at it.
func (w *world) conclude(r *run, out Outcome[row], right func() bool) {
	it, calls := r.item, false
	switch {
	case it.Turn.Cause != CauseVerify:
		calls = true
	case !right():
		r.back = it.OnlyLooks()
		calls = !r.back
	case it.Since() > 0 && !it.WaitsToBeCalled():
		// Somebody has put it right.
		attempted := w.attempted[r.row.key] == r.row.pendingID
		require.False(w.t, attempted && r.row.deletes(), "a look at %q takes the place of its deletion", r.row.key)
		out = succeed()
	case it.Returns():
		r.back = true
	default:
		out = succeed()
	}
	it.Run.Deletion = calls && r.row.deletes()
	if !r.back {
		w.end(r, out)
	}
}

// settleRun settles an operation, or a look that changes nothing.
func (w *world) settleRun(now time.Duration, r *run) {
	if !r.back {
		w.settle(now, r.item, r.out)
		return
	}
	w.model.goBack(now, r.item)
	w.core.Return(now, r.item)
}

// recall takes back the last n launched operations, as if none of them had begun.
func (w *world) recall(n int) {
	w.t.Helper()
	for range min(n, len(w.jobs)) {
		f := w.jobs[len(w.jobs)-1]
		w.jobs = w.jobs[:len(w.jobs)-1]
		w.model.recall(w.now, f.item)
		w.core.Recall(w.now, f.item)
		w.requireSound()
	}
}

// jobOf returns the launched operation on a key; nil if there is none.
func (w *world) jobOf(key string) *job {
	for _, f := range w.jobs {
		if f.row.key == key {
			return f
		}
	}
	return nil
}

// end ends an operation on the target.
func (w *world) end(r *run, out Outcome[row]) {
	key := r.row.key
	if w.ledger != nil && r.row.deleted && out.Kind == DoneAgain {
		// What asks for another run of a deletion has not finished it.
		out.Kind, out.Text = Deleting, new(string)
	}
	r.out = out
	w.attempted[key] = max(w.attempted[key], r.row.pendingID)
	if r.row.pendingID < w.reached[key] {
		// The program itself has written Done meanwhile.
		return
	}
	if out.Kind == Done || out.Kind == DoneAgain {
		w.reached[key], w.target[key] = r.row.pendingID, r.row.pendingID
		if r.row.deleted {
			delete(w.target, key)
		}
	}
}

// commit writes an outcome's status, if it has changed, into a row that still asks for the same.
func (w *world) commit(r *run) {
	if r.back {
		return
	}
	r.out.Object, r.out.NewRevision = r.row, r.row.revision
	if r.row.deleted {
		r.out.Object, r.out.NewRevision = r.item.Obj, r.item.Revision
		return
	}
	if w.ledger != nil || r.item.Discounted() && (r.out.Kind == Done || r.out.Kind == DoneAgain) {
		return
	}
	status, text := statusDone, ""
	switch r.out.Kind {
	case Failed, FailedForGood:
		status, text = statusError, *r.out.Text
	case BlockedOn:
		status = statusBlocked
	case Deleting:
		status, text = statusBlocked, "still deleting"
	}
	if r.row.status == status && r.row.text == text {
		return
	}
	current := w.table[r.row.key]
	if current.pendingID != r.row.pendingID || current.status != r.row.status {
		r.out.Lost = true
		return
	}
	current.status, current.text = status, text
	w.write(current)
	r.out.Object = w.table[r.row.key]
	r.out.NewRevision = r.out.Object.revision
}

func (w *world) settle(now time.Duration, it *Operation[row], out Outcome[row]) {
	waited := it.HasEntry()
	if (out.Kind == Done || out.Kind == DoneAgain) && waited && !out.Object.deleted {
		w.noteApplied(out.Object)
	}
	if out.Kind == Done && !waited && it.Revision%2 == 0 {
		// Settle need not be called here, so this test skips every other call.
		w.model.settle(now, it, waited, out)
		return
	}
	w.model.settle(now, it, waited, out)
	w.core.Settle(now, it, out)
}

// besideLedger is what a ledger beside the table knows, and what it told the readers last. It does what
// internal/ledger does, without tables.
type besideLedger struct {
	records map[string]Record[row]
	// Every change up to mark was attempted or has a record.
	mark uint64
	// done has the revision of each row that was told to be done.
	done map[string]uint64
}

// publish takes the records and moves the mark, and checks what the readers see. Changes that were observed
// by the given time cease to hold the mark.
func (w *world) publish(until time.Duration) {
	l := w.ledger
	if l == nil {
		return
	}
	w.core.Index.TakeRecords(until, func(r Record[row]) {
		if _, had := l.records[r.Key]; !had {
			w.model.requireRecordIsDue(w.t, r, until)
		}
		if r.Kind == NotRecorded {
			require.Contains(w.t, l.records, r.Key, "a record that is not there was removed")
			delete(l.records, r.Key)
		} else {
			l.records[r.Key] = r
		}
	})
	w.core.Index.TakeRecords(until, func(r Record[row]) { require.Fail(w.t, "a record was taken twice", "%+v", r) })
	w.model.requireRecords(w.t, w.core, l.records, until)

	mark := w.observed
	if since, _, holds := w.core.Index.HoldsSince(); holds {
		mark = min(mark, since-1)
	}
	l.mark = max(l.mark, mark)
	w.requireTold()
}

// requireTold checks what readers are told of each row: it is done only if this version was applied, and
// stays so until a later run fails.
func (w *world) requireTold() {
	l := w.ledger
	for key, r := range w.table {
		if r.deleted {
			continue
		}
		record, has := l.records[key]
		switch {
		case r.revision <= l.mark && !has:
			require.Equal(w.t, r.pendingID, w.reached[key], "%q of %d is told to be done, and was not applied", key, r.revision)
			l.done[key] = r.revision
		case l.done[key] == r.revision:
			require.True(w.t, has && (record.Kind == RecordedFailed || record.Kind == RecordedBlocked),
				"%q of %d was done before, and no run has failed since: %+v", key, r.revision, record)
			delete(l.done, key)
		}
	}
}

// refreshUnchanged refreshes an object, if it exists and either a cursor has read the row, or it asks for nothing, or an
// operation runs.
func (w *world) refreshUnchanged(key string, forced bool) {
	r, ok := w.table[key]
	if !ok || r.deleted || w.core.Index.LaneSize(Refresh) >= w.model.limits.RoundSize {
		return
	}
	if w.ledger == nil && (r.status == statusUnset || !forced && r.status != statusDone) {
		return
	}
	asks := w.ledger != nil || r.status == statusPending || r.status == statusRefreshing
	if asks && r.revision > w.observed && !w.dealtWith(r) && !w.core.HasVersion(r, r.revision) {
		return
	}
	running := w.model.refresh(w.now, r, r.revision, forced, false)
	require.Equal(w.t, running, w.core.Refresh(w.now, r, r.revision, CauseRefresh, forced), "whether an operation on %q runs", key)
	w.requireSound()
}

// verify asks for a look at an object, under the same conditions, even if it fails.
func (w *world) verify(key string) {
	r, ok := w.table[key]
	if !ok || r.deleted || w.ledger == nil && r.status == statusUnset || w.core.Index.LaneSize(Refresh) >= w.model.limits.RoundSize {
		return
	}
	asks := w.ledger != nil || r.status == statusPending || r.status == statusRefreshing
	if asks && r.revision > w.observed && !w.dealtWith(r) && !w.core.HasVersion(r, r.revision) {
		return
	}
	w.model.takeOverJitter(w.t, w.core)
	running := w.model.refresh(w.now, r, r.revision, false, true)
	require.Equal(w.t, running, w.core.Refresh(w.now, r, r.revision, CauseVerify, false), "whether an operation on %q runs", key)
	w.requireSound()
}

// dealtWith reports whether a version was handed over, or applied, before main reads it. The rows do not
// show it.
func (w *world) dealtWith(r row) bool { return w.ledger != nil && w.isAhead(r) }

// noteApplied records that a version was applied, perhaps before main has read it.
func (w *world) noteApplied(r row) {
	if w.ledger != nil && r.revision > w.observed {
		w.ahead[r.key] = max(w.ahead[r.key], r.revision)
	}
}
