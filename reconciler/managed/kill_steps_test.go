// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/managed"
)

// story is a change of the desired state, and the steps that it takes. The process is killed before and
// after each step.
type story struct {
	name string
	// before makes the initial state; tell makes the change; turn makes another change after the
	// process was killed.
	before, tell, turn func(w *world, name string)
	// steps are the steps for each object; filed are the additional steps if notes are written to a
	// file.
	steps, filed []string
	// creates are the errors of the first creates.
	creates []error
	// blind: the outside system is not observed.
	blind bool
	// takes is how long a deleted resource still exists.
	takes time.Duration
	// shared: another reconciler writes the rows during each call.
	shared bool
	// edited: a person edits the rows during each call, and so before each pass has ended.
	edited bool
	// removable: the program may also remove the rows directly after a kill.
	removable bool
	// known: the story is only for known names, without sweeps.
	known bool
}

func wants(size int) func(w *world, name string) {
	return func(w *world, name string) { w.want(name, size) }
}

func forgoes(w *world, name string) { w.forgo(name) }

func nothing(*world, string) {}

// everyPass are the steps of every pass.
var everyPass = []string{"connect", "observe", "disconnect", "write outcome"}

var stories = []story{
	{
		name: "create", before: nothing, tell: wants(1), turn: forgoes, removable: true,
		steps: []string{"write create-pending", "create", "write create-succeeded", "write late"},
		filed: []string{"file-pending", "file"},
	},
	{
		name: "create-refused", before: nothing, tell: wants(1), turn: forgoes,
		creates: []error{errRefused},
		steps:   []string{"write create-pending", "create", "write create-failed", "write create-succeeded", "write late"},
		filed:   []string{"file-pending", "file"},
	},
	{
		name: "create-shared", before: nothing, tell: wants(1), turn: forgoes, shared: true, removable: true,
		steps: []string{"write create-pending", "create", "write create-succeeded", "write late"},
		filed: []string{"file-pending", "file"},
	},
	{
		name: "create-edited", before: nothing, tell: wants(1), turn: forgoes, edited: true, removable: true,
		steps: []string{"write create-pending", "create", "write create-succeeded"},
		filed: []string{"file-pending", "file"},
	},
	{
		name: "delete-edited", before: wants(1), tell: forgoes, turn: wants(3), edited: true,
		steps: []string{"delete", "write drop"},
	},
	{
		// The first create takes effect but has no answer; the error of the second does not mention it.
		name: "create-unanswered", before: nothing, tell: wants(1), turn: forgoes, removable: true, known: true,
		creates: []error{managed.ErrCreateUnsure, errRefused},
		steps:   []string{"write create-pending", "create", "write late"},
	},
	{
		name: "take-over", turn: forgoes, known: true,
		before: func(w *world, name string) {
			w.change(func() { w.outside.create(name, name, 1) })
		},
		tell:  wants(1),
		steps: []string{"write finalizer"},
	},
	{
		name: "update", before: wants(1), tell: wants(2), turn: forgoes,
		steps: []string{"update"},
	},
	{
		name: "delete", before: wants(1), tell: forgoes, turn: wants(3),
		steps: []string{"delete", "write drop"},
	},
	{
		name: "delete-slowly", before: wants(1), tell: forgoes, turn: wants(3), takes: time.Minute,
		// The resource still exists when the test stops watching.
		steps: []string{"delete"},
	},
	{
		name: "leave", before: wants(1), turn: forgoes,
		tell:  func(w *world, name string) { w.leave(name) },
		blind: true,
		steps: []string{"leave", "write drop"},
	},
}

// all returns the steps of a story in a setup, sorted.
func (s story) all(of setup) []string {
	steps := slices.Clone(s.steps)
	if !s.blind {
		steps = append(steps, everyPass...)
	}
	if of.filed() {
		steps = append(steps, s.filed...)
	}
	slices.Sort(steps)
	return steps
}

const firstName = "a"

// afterwards is what a program does after it was killed.
type afterwards int

const (
	// goesOn: it keeps its desired state.
	goesOn afterwards = iota
	// turns: it changes its desired state.
	turns
	// removesRows: it removes the rows directly, before the next pass.
	removesRows
)

// mayDo returns what a program may do after a kill. Removing rows directly requires known names and a
// table that survives.
func (s story) mayDo(of setup) []afterwards {
	if s.removable && !of.chosen && of.ending != tableLost {
		return []afterwards{goesOn, turns, removesRows}
	}
	return []afterwards{goesOn, turns}
}

// narrate runs a story in a new world until everything is settled. The process is killed when it
// reaches point for the first object for the nth time. If point is empty, it is not killed. It returns
// the points that were reached.
func narrate(t *testing.T, of setup, s story, point string, nth int, then afterwards) (reached []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		names := []string{firstName}
		if of.workers > 1 {
			names = append(names, "b", "c")
		}
		w := newWorld(t, of, names...)
		w.outside.lag = func() time.Duration { return 300 * time.Millisecond }
		asked := map[string]bool{}
		w.outside.stays = func(id string) bool {
			stays := !asked[id]
			asked[id] = true
			return stays
		}
		w.each(s.before)
		w.begin()
		// The grace is over by then, too.
		pass(longestLag + killGrace + killTimeout)
		w.change(func() {
			w.outside.creates, w.outside.takes, w.shared, w.edited = s.creates, s.takes, s.shared, s.edited
			w.kill = func(at, key string) bool {
				if key != firstName {
					return false
				}
				reached = append(reached, at)
				if at == point {
					nth--
				}
				return at == point && nth == 0
			}
		})
		w.each(s.tell)
		w.p.sync(false)
		w.meanwhile = func() {
			switch then {
			case turns:
				w.each(s.turn)
			case removesRows:
				w.change(func() { w.outside.down = true })
			}
		}
		killed := false
		for range 15 {
			pass(200 * time.Millisecond)
			if w.carryOn() {
				killed = true
				if then == removesRows {
					w.removeRows()
				}
			}
		}
		require.Equal(w, point != "", killed, "killed at %q", point)
		w.settle()
		w.p.end()
	})
	return reached
}

// removeRows removes the rows directly, and ends the outage of the outside system.
func (w *world) removeRows() {
	synctest.Wait()
	wtxn := w.p.store.db.WriteTxn(w.p.store.RWTable)
	for _, row := range w.p.store.rows() {
		_, _, err := w.p.store.RWTable.Delete(wtxn, row)
		require.NoError(w, err)
	}
	wtxn.Commit()
	w.change(func() {
		clear(w.wants)
		w.outside.down = false
	})
}

func TestKillAtEveryStepLeaksAndDuplicatesNothing(t *testing.T) {
	for _, of := range setups() {
		for _, s := range stories {
			// With 8 workers the edits take too long.
			if s.edited && of.workers > 1 || s.known && (of.chosen || of.sweeps) || of.sweeps && (of.chosen || of.ending != tableLost) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", s.name, of), func(t *testing.T) {
				reached := narrate(t, of, s, "", 0, goesOn)
				require.Equal(t, s.all(of), stepsOf(reached), "the steps that are killed before and after")
				seen := map[string]int{}
				for _, point := range reached {
					seen[point]++
					if of.workers > 1 && seen[point] > 1 {
						// One worker was killed at this point already.
						continue
					}
					for _, then := range s.mayDo(of) {
						narrate(t, of, s, point, seen[point], then)
					}
				}
			})
		}
	}
}

// stepsOf returns the steps that were reached before and after, sorted.
func stepsOf(reached []string) (steps []string) {
	for _, point := range reached {
		step, before := strings.CutPrefix(point, "before ")
		if before && !slices.Contains(steps, step) && slices.Contains(reached, "after "+step) {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps
}
