// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// flight is an operation that goes on beyond its round.
type flight struct {
	run
	began time.Duration
}

// run is an item's operation.
type run struct {
	item *Item[row]
	row  row
	out  Outcome[row]
	// opening is that of the breaker for everything while which it was begun.
	opening int
}

// resolve looks up what an item stands for now; false if nothing is to be run.
func (w *world) resolve(snapshot map[string]row, it *Item[row]) (run, bool) {
	r, ok := snapshot[it.Obj.key]
	unobserved := ok && !w.saw(r.revision)
	switch {
	case !it.Again:
		return run{item: it, row: it.Obj}, true
	case it.Deleted && !ok:
		// Found in the target; the table has never had it.
		return run{item: it, row: it.Obj}, true
	case it.Deleted && r.deleted && !unobserved:
		return run{item: it, row: row{
			key: r.key, wish: max(r.wish, it.Obj.wish), deleted: true, revision: it.Revision, group: it.Obj.group,
		}}, true
	case it.Deleted && !unobserved:
		// The row says itself that it is in the target.
		w.settle(w.now, it, Outcome[row]{Kind: Void})
		return run{}, false
	case unobserved && (r.deleted || it.Deleted || r.status == statusPending):
		w.settle(w.now, it, Outcome[row]{Kind: Superseded})
		return run{}, false
	}
	return run{item: it, row: r}, true
}

// begin begins an operation on the target.
func (w *world) begin(r *run) {
	key := r.row.key
	require.Nil(w.t, w.flying(key), "two operations on %q overlap", key)
	require.GreaterOrEqual(w.t, r.row.wish, w.started[key], "%q went back to an older version", key)
	require.False(w.t, w.paused[key], "%q is paused", key)
	w.started[key] = r.row.wish
	if b := w.model.global(); b != nil {
		r.opening = b.opening
		w.probing[b.opening]++
		require.LessOrEqual(w.t, w.probing[b.opening], w.model.breaking.Probes, "operations let through at a time")
	}
}

// launch makes an operation go on beyond the round.
func (w *world) launch(r *run) {
	w.core.Launch(r.item)
	w.model.launch(r.item.Obj.key)
	item := *r.item
	w.flights = append(w.flights, &flight{run: run{item: &item, row: r.row, opening: r.opening}, began: w.now})
}

// land ends the ith operation of those that were launched, at a time between its beginning
// and now.
func (w *world) land(i int, at time.Duration, out Outcome[row]) {
	f := w.flights[i]
	w.flights = slices.Delete(w.flights, i, i+1)
	w.probing[f.opening]--
	w.end(&f.run, out)
	w.commit(&f.run)
	w.settle(max(at, f.began), f.item, f.run.out)
	w.requireSound()
}

// recall takes back the last n operations that were launched, of which none has begun.
func (w *world) recall(n int) {
	w.t.Helper()
	for range min(n, len(w.flights)) {
		f := w.flights[len(w.flights)-1]
		w.flights = w.flights[:len(w.flights)-1]
		w.probing[f.opening]--
		w.model.recall(w.now, f.item)
		w.core.Recall(w.now, f.item)
		w.requireSound()
	}
}

// flying returns the operation on a key that was launched, if there is one.
func (w *world) flying(key string) *flight {
	for _, f := range w.flights {
		if f.row.key == key {
			return f
		}
	}
	return nil
}

// end ends an operation on the target.
func (w *world) end(r *run, out Outcome[row]) {
	key := r.row.key
	r.out = out
	if r.row.wish < w.reached[key] {
		// The program has put its own hand to it meanwhile.
		return
	}
	if out.Kind == Done || out.Kind == DoneAgain {
		w.reached[key], w.target[key] = r.row.wish, r.row.wish
		if r.row.deleted {
			delete(w.target, key)
		}
	}
}

// commit writes an outcome's status, if it is news, onto a row that still wants what
// was run.
func (w *world) commit(r *run) {
	r.out.Obj, r.out.Revision = r.row, r.row.revision
	if r.row.deleted {
		r.out.Obj, r.out.Revision = r.item.Obj, r.item.Revision
		return
	}
	status, text := statusDone, ""
	switch r.out.Kind {
	case Failed, FailedForGood:
		status, text = statusError, *r.out.Failure
	case BlockedOn:
		status = statusBlocked
	}
	if r.row.status == status && r.row.text == text {
		return
	}
	current := w.table[r.row.key]
	if current.wish != r.row.wish || current.status != r.row.status {
		r.out.Lost = true
		return
	}
	current.status, current.text = status, text
	w.write(current)
	r.out.Obj = w.table[r.row.key]
	r.out.Revision = r.out.Obj.revision
}

func (w *world) settle(now time.Duration, it *Item[row], out Outcome[row]) {
	waited := it.Waited()
	if out.Kind == Done && !waited && it.Revision%2 == 0 && w.model.breaking == nil {
		// Allowed, and so done for every other.
		w.model.settle(now, it, waited, out)
		return
	}
	w.model.settle(now, it, waited, out)
	w.core.Settle(now, it, out)
}
