// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"maps"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	statusUnset      = ""
	statusPending    = "pending"
	statusRefreshing = "refreshing"
	statusDone       = "done"
	statusError      = "error"
	statusBlocked    = "blocked"
)

// world is a table, a target and the least that can run a core between them: what
// package reconciler does, without its store, its clock and its goroutines. It tells
// the model all that it tells the core.
type world struct {
	t     testingT
	core  *Core[row]
	model *model
	now   time.Duration

	table      map[string]row
	revision   uint64
	pendingIDs uint64
	cursors

	// target has the wish that was applied last for each key.
	target map[string]uint64
	// reached is the last wish that an operation succeeded with, started the last that
	// one began with, and attempted the last that one has ended with.
	reached, started, attempted map[string]uint64
	// jobs are the operations that were launched.
	jobs   []*job
	paused map[string]bool
	// probing counts the operations under way that began while the breaker for
	// everything was open, by its opening.
	probing map[int]int
}

func newWorld(t testingT, cfg Config[row]) *world {
	cfg.KeyOf = keyOfRow
	cfg.GroupOf = func(r row) string { return r.group }
	cfg.SamePending = samePending
	return &world{
		attempted: map[string]uint64{}, cursors: cursors{seen: map[uint64]bool{}, pendingSince: map[uint64]uint64{}},
		t: t, core: New(cfg), model: newModel(cfg),
		table: map[string]row{}, target: map[string]uint64{}, paused: map[string]bool{},
		reached: map[string]uint64{}, started: map[string]uint64{}, probing: map[int]int{},
	}
}

// samePending: a row that another reconciler has written asks for the same as it did.
func samePending(older, newer row) bool {
	return older.pendingID == newer.pendingID && older.status == newer.status
}

func (w *world) write(r row) {
	w.revision++
	r.revision = w.revision
	w.table[r.key] = r
}

// want makes the program want a new version of an object, in a group.
func (w *world) want(key, group string) { w.ask(key, group, statusPending) }

// refresh makes an object be applied again, if it is there.
func (w *world) refresh(key string) {
	if r, ok := w.table[key]; ok && r.status == statusDone {
		w.ask(key, r.group, statusRefreshing)
	}
}

// unset makes the program take an object back from its reconciler, if it is there.
func (w *world) unset(key string) {
	if r, ok := w.table[key]; ok && !r.deleted {
		w.ask(key, r.group, statusUnset)
	}
}

func (w *world) ask(key, group, status string) {
	w.pendingIDs++
	w.pendingSince[w.pendingIDs] = w.revision + 1
	w.write(row{key: key, pendingID: w.pendingIDs, status: status, group: group})
}

// drop makes the program delete an object, if it is there.
func (w *world) drop(key string) {
	if r, ok := w.table[key]; ok && !r.deleted {
		w.pendingIDs++
		w.write(row{key: key, pendingID: w.pendingIDs, deleted: true, group: r.group})
	}
}

// writeDone makes the program say itself that an object is done.
func (w *world) writeDone(key string) {
	if r, ok := w.table[key]; ok && !r.deleted {
		w.pendingIDs++
		w.write(row{key: key, pendingID: w.pendingIDs, status: statusDone, group: r.group})
		w.reached[key], w.target[key] = w.pendingIDs, w.pendingIDs
	}
}

// rewrite makes another reconciler write its own status into an object.
func (w *world) rewrite(key string) {
	if r, ok := w.table[key]; ok && !r.deleted {
		w.write(r)
	}
}

// leaveOrphan puts an object into the target that the table does not have, and has it found.
func (w *world) leaveOrphan(key string) {
	r := w.table[key]
	if r.key != "" && !r.deleted || w.jobOf(key) != nil {
		return
	}
	if w.core.TracksKeyOf(row{key: key}) {
		// It is known already.
		require.False(w.t, w.addOrphan(row{key: key}))
		return
	}
	w.pendingIDs++
	w.target[key] = w.pendingIDs
	require.True(w.t, w.addOrphan(row{key: key, pendingID: w.pendingIDs, deleted: true, group: r.group}))
}

func (w *world) addOrphan(r row) bool {
	added := w.core.AddOrphan(r, w.revision)
	require.Equal(w.t, w.model.addOrphan(r, w.revision), added, "%q was added", r.key)
	check(w.t, w.core)
	return added
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

// pauseKey makes one more object not be worked on: the core is not told.
func (w *world) pauseKey(key string) {
	if len(w.paused) == 0 {
		w.pause(key)
	}
	w.paused[key] = true
}

// resumeKey makes one object be worked on again. The core is told of no other.
func (w *world) resumeKey(key string) {
	delete(w.paused, key)
	w.core.Resume(w.now, key)
	w.model.setPaused(w.now, w.model.paused)
	check(w.t, w.core)
	if len(w.paused) == 0 {
		w.pause()
	}
}

// group says whether groups are heeded.
func (w *world) group(on bool) {
	if len(w.jobs) == 0 {
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
	// size is how many operations there may be at most, maxFresh how many fresh changes ahead
	// of their turn, if there is a catch-up cursor.
	size, maxFresh int
	// before is called when the snapshot has been taken.
	before func()
	// looks says whether an item is looked up that need not be, waits whether somebody waits
	// for what is pending when main takes a snapshot.
	looks, waits func() bool
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
	snapshot, revision := maps.Clone(w.table), w.revision
	s.before()
	allowed, _ := w.core.Allowance(w.now)
	size, ahead := min(s.size, allowed), 0
	if w.catchUp != nil {
		ahead = max(1, s.maxFresh)
	}
	w.core.Begin(w.now, size, ahead)
	w.model.begin(w.now, size, ahead)
	if allowed > 0 {
		// Also if there is no permit for an operation.
		w.observe(snapshot, revision, s.waits)
	}
	items := w.core.Plan()
	w.model.plan(w.t, w.core, items)
	w.requireOneOfAGroup(items)

	var runs []run
	for i := range items {
		looks := items[i].HasEntry() || w.at != revision && (w.mixed || items[i].Deleted) || s.looks()
		if r, ok := w.resolve(snapshot, &items[i], looks); ok {
			runs = append(runs, r)
		}
	}
	ran := max(0, len(runs)-s.returned)
	var inRound []*run
	for i := range runs[:ran] {
		w.begin(&runs[i])
		w.mixed = w.mixed || runs[i].item.HasEntry()
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
		w.takeBack(runs[i].item)
	}
	w.core.End(ran)
	w.model.ran += ran
	w.requireSound()
}

// calm runs rounds, the program being silent and the target healthy, until nothing is
// left to be done. It must come to that soon.
func (w *world) calm() {
	w.pause()
	for range 100 * (1 + len(w.table)) {
		for len(w.jobs) > 0 {
			w.finish(0, w.now, succeed())
		}
		if !w.core.Tracks() && w.sawAll() {
			if !w.core.BreakerOpen() {
				return
			}
			// Only what comes is left to probe with.
			w.want("probe", "")
		}
		for key, k := range w.model.keys {
			switch k.state {
			case Blocked:
				w.release(key)
			case Terminal:
				// Nothing but a change brings it back.
				if r, ok := w.table[key]; !ok || r.deleted {
					w.want(key, "")
				} else {
					w.drop(key)
				}
			}
		}
		w.now += w.model.limits.MaxBackoff
		w.round(script{
			size: 1 << 30, looks: no, waits: no, launches: no, outcome: succeed,
			before: func() {}, meanwhile: func() {},
		})
	}
	for _, k := range w.model.keys {
		require.Fail(w.t, "the walk does not come to rest", "%q is still %s", k.key, k.state)
	}
	require.Fail(w.t, "the walk does not come to rest", "observed up to %d of %d", w.observed, w.revision)
}

func no() bool { return false }

func succeed() Outcome[row] { return Outcome[row]{Kind: Done} }

// requireConverged checks that the target has exactly what the table wants, and that the
// core has kept nothing.
func (w *world) requireConverged() {
	want := map[string]uint64{}
	for key, r := range w.table {
		switch {
		case r.status == statusUnset && !r.deleted:
			// Nobody says what of it is to be in the target.
			delete(w.target, key)
		case !r.deleted:
			want[key] = r.pendingID
		}
	}
	require.Equal(w.t, want, w.target)
	require.Empty(w.t, w.core.groups)
	require.Empty(w.t, w.core.later)
	require.Empty(w.t, w.core.OpenBreakers(100))
}
