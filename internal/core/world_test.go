// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
)

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
	cursors

	// target has the wish that was applied last for each key.
	target map[string]uint64
	// reached is the last wish that an operation succeeded with, started the last that
	// one began with.
	reached, started map[string]uint64
	// flights are the operations that were launched.
	flights []*flight
	paused  map[string]bool
	// probing counts the operations under way that began while the breaker for
	// everything was open, by its opening.
	probing map[int]int
}

// flight is an operation that goes on beyond its round.
type flight struct {
	run
	began time.Duration
}

func newWorld(t testingT, cfg Config[row]) *world {
	cfg.KeyOf = keyOfRow
	cfg.GroupOf = func(r row) string { return r.group }
	return &world{
		t: t, core: New(cfg), model: newModel(cfg),
		table: map[string]row{}, target: map[string]uint64{}, paused: map[string]bool{},
		reached: map[string]uint64{}, started: map[string]uint64{}, probing: map[int]int{},
	}
}

func (w *world) write(r row) {
	w.revision++
	r.revision = w.revision
	w.table[r.key] = r
}

// want makes the program want a new version of an object, in a group and by a lane.
func (w *world) want(key, group string, lane Lane) {
	w.wishes++
	w.write(row{key: key, wish: w.wishes, status: statusPending, group: group, lane: lane})
}

// drop makes the program delete an object, if it is there.
func (w *world) drop(key string) {
	if r, ok := w.table[key]; ok && !r.deleted {
		w.wishes++
		w.write(row{key: key, wish: w.wishes, deleted: true, group: r.group, lane: Deletion})
	}
}

// vouch makes the program say itself that an object is done.
func (w *world) vouch(key string) {
	if r, ok := w.table[key]; ok && !r.deleted {
		w.wishes++
		w.write(row{key: key, wish: w.wishes, status: statusDone, group: r.group, lane: r.lane})
		w.reached[key], w.target[key] = w.wishes, w.wishes
	}
}

// echo makes another reconciler write its own status into an object.
func (w *world) echo(key string) {
	if r, ok := w.table[key]; ok && !r.deleted {
		w.write(r)
	}
}

// stray puts an object into the target that the table does not have, and has it found.
func (w *world) stray(key string) {
	r := w.table[key]
	if r.key != "" && !r.deleted || w.flying(key) != nil {
		return
	}
	if w.core.TracksKeyOf(row{key: key}) || r.revision > 0 && !w.saw(r.revision) {
		// The deletion is on its way already.
		require.False(w.t, w.core.TracksKeyOf(row{key: key}) && w.adopt(row{key: key}))
		return
	}
	w.wishes++
	w.target[key] = w.wishes
	require.True(w.t, w.adopt(row{key: key, wish: w.wishes, deleted: true, group: r.group}))
}

func (w *world) adopt(r row) bool {
	adopted := w.core.Adopt(r, w.revision)
	require.Equal(w.t, w.model.adopt(r, w.revision), adopted, "%q was adopted", r.key)
	check(w.t, w.core)
	return adopted
}

// pause makes exactly those objects not be worked on whose keys are given.
func (w *world) pause(keys ...string) {
	w.paused = map[string]bool{}
	for _, key := range keys {
		w.paused[key] = true
	}
	var paused func(row) bool
	if keys := w.paused; len(keys) > 0 {
		paused = func(r row) bool { return keys[r.key] }
	}
	w.core.SetPaused(w.now, paused)
	w.model.setPaused(w.now, paused)
	check(w.t, w.core)
}

// group says whether groups are heeded.
func (w *world) group(on bool) {
	if len(w.flights) == 0 {
		w.core.SetGrouping(on)
		w.model.grouping = on
	}
}

// limit changes the limits.
func (w *world) limit(l Limits) {
	w.core.SetLimits(l)
	w.model.limits = l
}

func (w *world) release(key string) {
	require.Equal(w.t, w.model.release(key, w.now), w.core.Release(key, w.now), "%q was blocked", key)
	check(w.t, w.core)
}

// script says what the target and the program do in one round.
type script struct {
	// size is how many operations there may be at most.
	size int
	// returned is how many items at the end of the plan are not run.
	returned int
	// launches says whether an operation goes on beyond the round.
	launches func() bool
	// outcome says what an item's operation comes back with: a Kind of those that an
	// operation can cause, with its delay and text.
	outcome func() Outcome[row]
	// meanwhile is called after the operations and before their commit.
	meanwhile func()
}

// round runs one round as package reconciler does, and checks everything after it.
func (w *world) round(s script) {
	snapshot := maps.Clone(w.table)
	allowed, _ := w.core.Allowance(w.now)
	size := min(s.size, allowed)
	w.core.Begin(w.now, size)
	w.model.begin(w.now, size)
	if size > 0 {
		w.observe(snapshot)
	}
	items := w.core.Plan()
	w.model.plan(w.t, w.core, items)
	w.requireOneOfAGroup(items)

	var runs []run
	for i := range items {
		if r, ok := w.resolve(snapshot, &items[i]); ok {
			runs = append(runs, r)
		}
	}
	ran := max(0, len(runs)-s.returned)
	var inRound []*run
	for i := range runs[:ran] {
		w.begin(&runs[i])
		if s.launches() {
			w.launch(&runs[i])
			continue
		}
		w.end(&runs[i], s.outcome())
		inRound = append(inRound, &runs[i])
	}
	s.meanwhile()
	for _, r := range inRound {
		w.commit(r)
	}
	for _, r := range inRound {
		w.probing[r.opening]--
		w.settle(w.now, r.item, r.out)
	}
	for i := len(runs) - 1; i >= ran; i-- {
		w.model.putBack(runs[i].item)
		w.core.Return(runs[i].item)
	}
	w.core.End(ran)
	w.model.ran += ran
	w.requireSound()
}

// requireSound checks everything between two rounds.
func (w *world) requireSound() {
	check(w.t, w.core)
	w.model.requireSame(w.t, w.core, w.main)
	w.requireNothingLost()
	w.requireProbesKnown()
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

// requireOneOfAGroup checks that of no group two objects are worked on at a time.
func (w *world) requireOneOfAGroup(items []Item[row]) {
	if !w.model.grouping {
		return
	}
	busy := map[string]string{}
	occupy := func(r row) {
		if r.group != "" {
			require.Empty(w.t, busy[r.group], "%q is worked on beside it in group %q", r.key, r.group)
			busy[r.group] = r.key
		}
	}
	for _, f := range w.flights {
		occupy(f.item.Obj)
	}
	for i := range items {
		occupy(items[i].Obj)
	}
}

// requireProbesKnown checks that a breaker that waits for probes has some under way: one
// that waits for what never comes would stay open for ever.
func (w *world) requireProbesKnown() {
	if b := w.core.global(); b != nil {
		flying := 0
		for _, f := range w.flights {
			if f.item.probe == b.opening {
				flying++
			}
		}
		require.Equal(w.t, flying, b.probing, "probes under way")
	}
	for _, b := range w.core.open {
		if b.class == all || b.probing == 0 {
			continue
		}
		// Each of them is worked on, or has its turn as soon as others have had theirs.
		for _, e := range w.core.entries {
			if e.breaker == b && e.probe == b.opening {
				require.True(w.t, e.state == InFlight || e.state == Queued || e.pos >= 0 && e.dueAt <= w.now,
					"%q in state %s is to be a probe", e.key, e.state)
			}
		}
	}
}

// requireNothingLost checks that whatever the program wants and the target does not
// have yet is on its way: still to be observed, or with the core.
func (w *world) requireNothingLost() {
	for key, r := range w.table {
		if w.reached[key] >= r.wish || !w.saw(r.revision) {
			continue
		}
		require.NotNil(w.t, w.core.entries[key], "%q is forgotten: %+v", key, r)
	}
}

// calm runs rounds, the program being silent and the target healthy, until nothing is
// left to be done. It must come to that soon.
func (w *world) calm() {
	w.pause()
	for range 100 * (1 + len(w.table)) {
		for len(w.flights) > 0 {
			w.land(0, w.now, succeed())
		}
		if !w.core.Tracks() && w.sawAll() {
			return
		}
		for key, k := range w.model.keys {
			switch k.state {
			case Blocked:
				w.release(key)
			case Terminal:
				// Nothing but a change brings it back.
				if r, ok := w.table[key]; !ok || r.deleted {
					w.want(key, "", Fresh)
				} else {
					w.drop(key)
				}
			}
		}
		w.now += w.model.limits.MaxBackoff
		w.round(script{size: 1 << 30, launches: func() bool { return false }, outcome: succeed, meanwhile: func() {}})
	}
	for _, k := range w.model.keys {
		require.Fail(w.t, "the walk does not come to rest", "%q is still %s", k.key, k.state)
	}
	require.Fail(w.t, "the walk does not come to rest", "observed up to %d of %d", w.main, w.revision)
}

func succeed() Outcome[row] { return Outcome[row]{Kind: Done} }

// requireConverged checks that the target has exactly what the table wants, and that the
// core has kept nothing.
func (w *world) requireConverged() {
	want := map[string]uint64{}
	for key, r := range w.table {
		if !r.deleted {
			want[key] = r.wish
		}
	}
	require.Equal(w.t, want, w.target)
	require.Empty(w.t, w.core.groups)
	require.Empty(w.t, w.core.notes)
	require.Empty(w.t, w.core.OpenBreakers())
}
