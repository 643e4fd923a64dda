// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

// row is an object of the world's table. A deleted one stays as a tombstone.
type row struct {
	key      string
	revision uint64
	// wish numbers what the program wants of the key; a status write keeps it.
	wish    uint64
	deleted bool
	status  string
	text    string
}

const (
	statusPending = "pending"
	statusDone    = "done"
	statusError   = "error"
	statusBlocked = "blocked"
)

// world is a table, a target and the least that can run a core between them: what
// package reconciler does, without its store, its clock and its goroutines. It tells
// the model all that it tells the core.
type world struct {
	t     testingT
	core  *Core[row]
	model *model
	now   time.Duration

	table    map[string]row
	revision uint64
	wishes   uint64
	observed uint64

	// target has the wish that was applied last for each key.
	target map[string]uint64
	// reached is the last wish that an operation succeeded with, started the last that
	// one began with.
	reached, started map[string]uint64
}

func newWorld(t testingT, cfg Config[row]) *world {
	return &world{
		t: t, core: New(cfg), model: newModel(cfg),
		table: map[string]row{}, target: map[string]uint64{},
		reached: map[string]uint64{}, started: map[string]uint64{},
	}
}

func keyOfRow(r row) []byte { return []byte(r.key) }

func (w *world) write(r row) {
	w.revision++
	r.revision = w.revision
	w.table[r.key] = r
}

// want makes the program want a new version of an object.
func (w *world) want(key string) {
	w.wishes++
	w.write(row{key: key, wish: w.wishes, status: statusPending})
}

// drop makes the program delete an object, if it is there.
func (w *world) drop(key string) {
	if r, ok := w.table[key]; ok && !r.deleted {
		w.wishes++
		w.write(row{key: key, wish: w.wishes, deleted: true})
	}
}

// vouch makes the program say itself that an object is done.
func (w *world) vouch(key string) {
	if r, ok := w.table[key]; ok && !r.deleted {
		w.wishes++
		w.write(row{key: key, wish: w.wishes, status: statusDone})
		w.reached[key], w.target[key] = w.wishes, w.wishes
	}
}

// echo makes another reconciler write its own status into an object.
func (w *world) echo(key string) {
	if r, ok := w.table[key]; ok && !r.deleted {
		w.write(r)
	}
}

// script says what the target and the program do in one round.
type script struct {
	// returned is how many items at the end of the plan are not run.
	returned int
	// outcome says what an item's operation comes back with: a Kind of those that an
	// operation can cause, with its delay and text.
	outcome func(it *Item[row]) Outcome[row]
	// meanwhile is called after the operations and before their commit.
	meanwhile func()
}

// round runs one round as package reconciler does, and checks everything after it.
func (w *world) round(s script) []Item[row] {
	w.t.Helper()
	snapshot, owed := maps.Clone(w.table), listing(w.core)
	w.core.Begin(w.now)
	w.model.begin(w.t, w.core, w.now)
	w.observe(snapshot)
	items := w.core.Plan()
	w.model.plan(w.t, items)
	planned := slices.Clone(items)

	var runs []run
	for i := range items {
		if r, ok := w.resolve(snapshot, &items[i]); ok {
			runs = append(runs, r)
		}
	}
	ran := max(0, len(runs)-s.returned)
	for i := range runs[:ran] {
		w.operate(&runs[i], s.outcome(runs[i].item))
	}
	s.meanwhile()
	for i := range runs[:ran] {
		w.commit(&runs[i])
	}
	for i := range runs[:ran] {
		it := runs[i].item
		if runs[i].out.Kind == Done && !it.Waited() && it.Revision%2 == 0 {
			// Allowed, and so done for every other.
			w.model.settle(w.now, it, runs[i].out)
			continue
		}
		w.settle(it, runs[i].out)
	}
	for _, r := range runs[ran:] {
		w.core.Return(r.item)
		w.model.putBack(r.item)
	}
	w.core.End(ran)
	w.model.ran += ran
	check(w.t, w.core)
	requireAppended(w.t, w.core, owed)
	w.model.requireSame(w.t, w.core, w.observed)
	w.requireNothingLost()
	return planned
}

// observe hands over the changes of a snapshot, as many as there is room for.
func (w *world) observe(snapshot map[string]row) {
	changes := slices.SortedFunc(maps.Values(snapshot), func(a, b row) int {
		return cmp.Compare(a.revision, b.revision)
	})
	for _, r := range changes {
		if r.revision <= w.observed {
			continue
		}
		if w.core.Room() == 0 {
			return
		}
		w.observed = r.revision
		switch {
		case r.deleted || r.status == statusPending:
			w.core.Observe(r, r.revision, r.deleted)
			w.model.observe(r.key, r.revision, r.deleted)
		case w.core.Awaits():
			w.core.ObserveSettled(r, r.revision)
			w.model.observeSettled(r.key, r.revision)
		}
	}
}

// run is an item's operation.
type run struct {
	item *Item[row]
	row  row
	out  Outcome[row]
}

// resolve looks up what an item stands for now; false if nothing is to be run.
func (w *world) resolve(snapshot map[string]row, it *Item[row]) (run, bool) {
	r := snapshot[it.Obj.key]
	unobserved := r.revision > w.observed
	switch {
	case !it.Again:
		return run{item: it, row: it.Obj}, true
	case it.Deleted && r.deleted && !unobserved:
		return run{item: it, row: r}, true
	case it.Deleted && !unobserved:
		w.settle(it, Outcome[row]{Kind: Void})
		// The row says itself that it is in the target.
		return run{}, false
	case unobserved && (r.deleted || it.Deleted || r.status == statusPending):
		w.settle(it, Outcome[row]{Kind: Superseded})
		return run{}, false
	}
	return run{item: it, row: r}, true
}

// operate runs an operation on the target.
func (w *world) operate(r *run, out Outcome[row]) {
	key := r.row.key
	require.GreaterOrEqual(w.t, r.row.wish, w.started[key], "%q went back to an older version", key)
	w.started[key] = r.row.wish
	r.out = out
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

func (w *world) settle(it *Item[row], out Outcome[row]) {
	w.core.Settle(w.now, it, out)
	w.model.settle(w.now, it, out)
	// An item that came to be listed did so behind all that owe less: had one of those
	// been left for later, it would have to look for its place.
	if e := w.core.entries[it.Obj.key]; e != nil && e == w.core.byRevision.tail && len(w.core.round.unlisted) > 0 {
		require.GreaterOrEqual(w.t, w.core.round.unlisted[0].since, e.since)
	}
}

func (w *world) release(key string) {
	require.Equal(w.t, w.model.release(key, w.now), w.core.Release(key, w.now), "%q was blocked", key)
	check(w.t, w.core)
}

// requireNothingLost checks that whatever the program wants and the target does not
// have yet is on its way: still to be observed, or with the core.
func (w *world) requireNothingLost() {
	w.t.Helper()
	for key, r := range w.table {
		if w.reached[key] == r.wish || r.revision > w.observed {
			continue
		}
		require.NotNil(w.t, w.core.entries[key], "%q is forgotten: %+v", key, r)
	}
}

// calm runs rounds, the program being silent and the target healthy, until nothing is
// left to be done. It must come to that soon.
func (w *world) calm() {
	w.t.Helper()
	for range 100 * (1 + len(w.table)) {
		if !w.core.Tracks() && w.observed == w.revision {
			return
		}
		for key, k := range w.model.keys {
			switch k.state {
			case Blocked:
				w.release(key)
			case Terminal:
				// Nothing but a change brings it back.
				if w.table[key].deleted {
					w.want(key)
				} else {
					w.drop(key)
				}
			}
		}
		w.now += w.model.max
		w.round(script{outcome: succeed, meanwhile: func() {}})
	}
	require.Fail(w.t, "the walk does not come to rest", "%d keys wait", len(w.core.entries))
}

func succeed(*Item[row]) Outcome[row] { return Outcome[row]{Kind: Done} }

// requireConverged checks that the target has exactly what the table wants.
func (w *world) requireConverged() {
	w.t.Helper()
	want := map[string]uint64{}
	for key, r := range w.table {
		if !r.deleted {
			want[key] = r.wish
		}
	}
	require.Equal(w.t, want, w.target)
}
