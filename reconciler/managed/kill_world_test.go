// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// ending is what happens to a process at the point where it is killed.
type ending string

const (
	// stopped: the loop is stopped, and another one starts on the same table.
	stopped ending = "stopped"
	// tableKept: the process has no effect any more. The next one has the rows of that moment.
	tableKept ending = "table-kept"
	// tableLost: the next process has only the rows of its file.
	tableLost ending = "table-lost"
)

// setup is how a program uses a managed reconciler.
type setup struct {
	ending ending
	// chosen: the outside system chooses the names of resources.
	chosen bool
	// sweeps: resources without a row are swept. Otherwise the file keeps an object until it is gone.
	sweeps  bool
	workers int
}

func (s setup) String() string {
	name := string(s.ending)
	if s.chosen {
		name += "/chosen"
	} else {
		name += "/known"
	}
	if s.sweeps {
		name += "/swept"
	}
	if s.workers > 1 {
		name += "/8-workers"
	}
	return name
}

// filed reports whether the notes of creates are written into the file.
func (s setup) filed() bool { return s.chosen && s.ending == tableLost }

// setups returns all safe setups.
func setups() (all []setup) {
	for _, workers := range []int{1, 8} {
		for _, e := range []ending{stopped, tableKept, tableLost} {
			for _, chosen := range []bool{false, true} {
				for _, sweeps := range []bool{false, true} {
					all = append(all, setup{e, chosen, sweeps, workers})
				}
			}
		}
	}
	return all
}

// world is what outlives a process.
type world struct {
	*testing.T
	setup
	names []string

	// mu guards the fields below, and the outside actions of a process: a process dies between two
	// actions, not in the middle of one.
	mu      sync.Mutex
	outside *outside
	// wants and notes are the file of the program: the desired state, and the annotations of creates.
	wants map[string]want
	notes map[string]map[string]string
	// left holds the sizes of resources that must stay without a row; anySize if the size may change.
	left map[string]int
	// edited: a person edits the row during each call. edits counts these edits.
	edited bool
	edits  int
	// breaks: each Disconnect panics.
	breaks bool
	// kept holds the rows that a killed process leaves.
	kept []*bucket
	// kill reports whether the process is killed at a point; nil means never.
	kill func(point, key string) bool
	// killed lists the points at which processes were killed.
	killed []string

	p *process
}

// want is the desired state of one object. A deleted object stays in the file until it is gone.
type want struct {
	size    int
	deleted bool
	// orphan: its resources stay.
	orphan bool
	// again: its resource was left in place, and no row has taken it over since.
	again bool
}

const anySize = -1

func newWorld(t *testing.T, s setup, names ...string) *world {
	return &world{
		T: t, setup: s, names: names,
		outside: &outside{chosen: s.chosen, past: map[string][]version{}, marked: map[string]bool{}},
		wants:   map[string]want{}, notes: map[string]map[string]string{}, left: map[string]int{},
	}
}

var errKilled = errors.New("killed")

// reach is a kill point. It returns an error if the process is killed now, or was before.
func (p *process) reach(point, key string) error {
	return p.alive(func(w *world) error {
		if p.over || w.kill == nil || !w.kill(point, key) {
			return nil
		}
		w.killed = append(w.killed, point)
		p.over = true
		defer p.cancel()
		if w.ending == stopped {
			return nil
		}
		p.dead = true
		w.kept = nil
		if w.ending == tableKept {
			w.kept = p.store.rows()
		}
		return errKilled
	})
}

// alive runs an action with an effect outside the process, unless the process is dead.
func (p *process) alive(do func(w *world) error) error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.dead {
		return errKilled
	}
	return do(p.w)
}

// change changes the world.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// want adds an object to the file.
func (w *world) want(name string, size int) {
	w.change(func() {
		was := w.wants[name]
		w.wants[name] = want{size: size, again: was.orphan || was.again}
		delete(w.left, name)
	})
}

// forgo removes an object from the file.
func (w *world) forgo(name string) {
	w.change(func() {
		was, had := w.wants[name]
		switch {
		case was.orphan:
		case was.again:
			// No row has taken over the resource that was left in place, so it stays.
			w.wants[name] = want{size: was.size, deleted: true, orphan: true}
			w.left[name] = anySize
		case w.sweeps && !w.marked(name):
			delete(w.wants, name)
		case had:
			w.wants[name] = want{size: was.size, deleted: true}
		}
	})
}

// holds returns the sizes of the existing resources of an object.
func (w *world) holds(name string) (sizes []int) {
	w.change(func() {
		for _, id := range w.outside.owned(name) {
			sizes = append(sizes, w.outside.is(id).size)
		}
	})
	return sizes
}

// pending returns the differences from the final state, nil if there are none.
func (w *world) pending() (problems []any) {
	note := func(what ...any) { problems = append(problems, what) }
	var wants map[string]want
	var left map[string]int
	w.change(func() { wants, left = maps.Clone(w.wants), maps.Clone(w.left) })
	for _, name := range w.names {
		is, holds, row := wants[name], w.holds(name), w.p.store.get(name)
		size, stays := left[name]
		switch {
		case is.deleted, is.size == 0 && row != nil:
			note(name, "is not gone", row, holds)
		case is.size == 0 && stays:
			if size != anySize && !slices.Equal(holds, []int{size}) {
				note(name, "was not left in place", size, holds)
			}
		case is.size == 0 && len(holds) > 0:
			note(name, "is not gone", row, holds)
		case is.size == 0:
		case row == nil:
			note(name, "has no row", holds)
		case row.Status.Kind == reconciler.StatusKindError:
			note(name, "has failed", row)
		case !managed.IsReady(row) || !managed.IsSynced(row) || !slices.Equal(holds, []int{is.size}):
			note(name, "is not up to date", is.size, row, holds)
		}
	}
	return problems
}

// settle ends the faults, runs until nothing is pending, and requires that this is still so a while
// later.
func (w *world) settle() {
	w.Helper()
	w.change(func() { w.outside.faults, w.kill = false, nil })
	w.carryOn()
	// A resource that takes a minute to be deleted may have to be created again after that.
	for range 180 {
		w.decide()
		w.p.sync(false)
		pass(time.Second)
		if w.pending() == nil {
			break
		}
	}
	require.Empty(w, w.pending(), "killed at %q", w.deaths())
	// By then everything was polled and swept, without the edits.
	w.change(func() { w.edited = false })
	pass(6 * time.Second)
	w.p.sync(false)
	require.Empty(w, w.pending(), "a while later, killed at %q", w.deaths())
	w.never()
}

// never requires what must hold at any time.
func (w *world) never() {
	w.Helper()
	var twice, late []string
	w.change(func() { twice, late = slices.Clone(w.outside.twice), slices.Clone(w.outside.late) })
	require.Empty(w, twice, "created twice, killed at %q", w.deaths())
	if w.chosen {
		for _, row := range w.p.store.rows() {
			// A row that the program has just inserted has no notes until its first pass.
			if len(row.Conditions) > 0 {
				requireZone(w, row)
			}
		}
	}
	require.Empty(w, late, "created after the context ended, killed at %q", w.deaths())
}

// deaths returns the points at which processes were killed.
func (w *world) deaths() (points []string) {
	w.change(func() { points = slices.Clone(w.killed) })
	return points
}

// carryOn starts the next process if the present one was killed, and reports whether it was.
func (w *world) carryOn() (killed bool) {
	w.change(func() { killed = w.p.over })
	if killed {
		w.p.end()
		w.start()
	}
	return killed
}

// decide acts as the person who decides unsure creates after looking at the outside system.
func (w *world) decide() {
	for _, row := range w.p.store.rows() {
		if row.GetCondition(managed.TypeSynced).Reason != managed.ReasonCreateUnsure || !managed.IsCreateIncomplete(row) {
			continue
		}
		found := ""
		w.change(func() {
			if ids := w.outside.owned(row.Name); len(ids) > 0 {
				found = ids[0]
			}
		})
		w.p.edit(row, func(b *bucket) {
			managed.DecideCreate(b, found)
			if found != "" {
				noteZone(b, found)
			}
		})
	}
}

// marked reports whether a resource of the object is marked as left in place, so that sweeps keep it.
func (w *world) marked(name string) bool {
	for _, id := range w.outside.owned(name) {
		if w.outside.marked[id] {
			return true
		}
	}
	return false
}

// leave removes an object from the file and leaves its resources in place.
func (w *world) leave(name string) {
	w.change(func() {
		was, had := w.wants[name]
		if !had || was.deleted {
			return
		}
		w.wants[name] = want{size: was.size, deleted: true, orphan: true}
		w.left[name] = anySize
		for _, id := range w.outside.owned(name) {
			// One whose deletion has begun goes anyway.
			if !w.outside.going(id) {
				w.left[name] = w.outside.is(id).size
			}
		}
	})
}

// noteZone sets the annotation that a create sets besides the external name.
func noteZone(b *bucket, name string) { b.SetAnnotation(zone, "of "+name) }

// requireZone requires a row with an external name to have the annotation that its create has set. It
// is for external names that the outside system chooses: others are known without a create.
func requireZone(t require.TestingT, b *bucket) {
	if name := managed.GetExternalName(b); name != "" {
		require.Equal(t, "of "+name, b.Annotations[zone], "%q has lost what the create noted: %v", b.Name, b.Annotations)
	}
}
