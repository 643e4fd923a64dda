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

	"github.com/statekeel/statekeel/reconciler/managed"
)

// ending says what becomes of a process at the point that it is killed at.
type ending string

const (
	// stopped: the loop is told to stop, and another is started on the same table.
	stopped ending = "stopped"
	// tableKept: nothing that the process does from then on has an effect. The next one has
	// the rows as they were at that moment.
	tableKept ending = "table-kept"
	// tableLost: the next one has no rows but those of its file.
	tableLost ending = "table-lost"
)

// setup is how a program uses a managed reconciler.
type setup struct {
	ending ending
	// chosen: the names of resources are chosen outside, and unknown before.
	chosen bool
	// sweeps: what nobody wants is swept. Else the file has it until it is gone.
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

// filed reports whether what is noted of a create is written into the file.
func (s setup) filed() bool { return s.chosen && s.ending == tableLost }

// setups are all ways that are safe.
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

	// mu guards what follows, and what a process does outside: a process dies between two
	// things that it does, not in one.
	mu      sync.Mutex
	outside *outside
	// wants and notes are the file that the program has: what it wants, and the annotations
	// of creates.
	wants map[string]want
	notes map[string]map[string]string
	// left are the sizes of what has to stay of objects that nobody wants, anySize if it may.
	left map[string]int
	// shared: another reconciler writes the rows in the middle of each call.
	shared bool
	// kept is the table that a killed process leaves.
	kept []*bucket
	// kill says whether the process is killed at a point that it reaches; nil means no.
	kill func(point, key string) bool
	// killed are the points at which one was.
	killed []string
	// meanwhile is what happens before the next process starts; nil means nothing.
	meanwhile func()

	p *process
}

// want is what the program wants of one object. One that is not wanted is in the file until it
// is gone.
type want struct {
	size    int
	deleted bool
	// orphan: what exists outside stays.
	orphan bool
	// again: it was left before, and the table has not wanted it since.
	again bool
}

const anySize = -1

func newWorld(t *testing.T, s setup, names ...string) *world {
	return &world{
		T: t, setup: s, names: names,
		outside: &outside{chosen: s.chosen, past: map[string][]version{}, tried: map[string]int{}, marked: map[string]bool{}},
		wants:   map[string]want{}, notes: map[string]map[string]string{}, left: map[string]int{},
	}
}

var errKilled = errors.New("killed")

// reach is a point that a process may be killed at. The error is that it was, now or before.
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

// alive does something that has an effect beyond the process, unless that is dead.
func (p *process) alive(do func(w *world) error) error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.dead {
		return errKilled
	}
	return do(p.w)
}

// change changes what the world has.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// each does something about each object.
func (w *world) each(f func(w *world, name string)) {
	for _, name := range w.names {
		f(w, name)
	}
}

// want makes the file want an object.
func (w *world) want(name string, size int) {
	w.change(func() {
		was := w.wants[name]
		w.wants[name] = want{size: size, again: was.orphan || was.again}
		delete(w.left, name)
	})
}

// forgo makes the file want an object no more.
func (w *world) forgo(name string) {
	w.change(func() {
		was, had := w.wants[name]
		switch {
		case was.orphan:
		case was.again:
			// No row has taken up what was left, so that it stays.
			w.wants[name] = want{size: was.size, deleted: true, orphan: true}
			w.left[name] = anySize
		case w.sweeps && !w.marked(name):
			delete(w.wants, name)
		case had:
			w.wants[name] = want{size: was.size, deleted: true}
		}
	})
}

// holds returns the sizes of what exists outside for an object.
func (w *world) holds(name string) (sizes []int) {
	w.change(func() {
		for _, id := range w.outside.owned(name) {
			sizes = append(sizes, w.outside.is(id).size)
		}
	})
	return sizes
}

// pending returns what is not as it is to be in the end; nil if nothing is.
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
				note(name, "did not stay", size, holds)
			}
		case is.size == 0 && len(holds) > 0:
			note(name, "is not gone", row, holds)
		case is.size == 0:
		case row == nil:
			note(name, "has no row", holds)
		case !managed.IsReady(row) || !managed.IsSynced(row) || !slices.Equal(holds, []int{is.size}):
			note(name, "is not as wanted", is.size, row, holds)
		}
	}
	return problems
}

// settle lets everything work until nothing is pending, and requires that nothing is then, nor a
// while later.
func (w *world) settle() {
	w.Helper()
	w.change(func() { w.outside.faults, w.kill = false, nil })
	w.carryOn()
	// What takes a minute to be deleted may be created again then.
	for range 180 {
		w.decide()
		w.p.sync(false)
		pass(time.Second)
		if w.pending() == nil {
			break
		}
	}
	require.Empty(w, w.pending(), "killed at %q", w.deaths())
	// By then everything has been polled, and swept.
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
			// One that a program has just put in the place of another has no notes until its pass.
			if len(row.Conditions) > 0 {
				requireZone(w, row)
			}
		}
	}
	require.Empty(w, late, "created for nobody, killed at %q", w.deaths())
}

// deaths returns the points at which processes were killed.
func (w *world) deaths() (points []string) {
	w.change(func() { points = slices.Clone(w.killed) })
	return points
}

// carryOn starts a process in the place of one that was killed, and reports whether it was.
func (w *world) carryOn() (killed bool) {
	w.change(func() { killed = w.p.over })
	if killed {
		w.p.end()
		if w.meanwhile != nil {
			w.meanwhile()
		}
		w.start()
	}
	return killed
}

// decide is a person who looks what there is outside for objects that have stopped, and says so.
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
