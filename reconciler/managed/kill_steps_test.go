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

// story is something that a program wants, with the steps that it takes, each of which is killed
// before and after.
type story struct {
	name string
	// before is what there is already, tell what the program wants then of each object, and
	// turn what it wants instead when it finds itself killed.
	before, tell, turn func(w *world, name string)
	// steps are those that are taken for each object, filed those that come with a file of
	// notes.
	steps, filed []string
	// creates are the errors of the first creates.
	creates []error
	// blind: nothing is looked at outside.
	blind bool
	// takes is how long what is deleted goes on to exist.
	takes time.Duration
	// shared: another reconciler writes the rows all the time.
	shared bool
	// torn: the program may take the rows out by force afterwards.
	torn bool
	// known: it is for names that are known, of what nobody sweeps.
	known bool
}

func wants(size int) func(w *world, name string) {
	return func(w *world, name string) { w.want(name, size) }
}

func forgoes(w *world, name string) { w.forgo(name) }

func nothing(*world, string) {}

// everyPass are the steps that every pass takes.
var everyPass = []string{"connect", "observe", "disconnect", "write outcome"}

var stories = []story{
	{
		name: "create", before: nothing, tell: wants(1), turn: forgoes, torn: true,
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
		name: "create-shared", before: nothing, tell: wants(1), turn: forgoes, shared: true, torn: true,
		// What was filled in is not merged.
		steps: []string{"write create-pending", "create", "write create-succeeded"},
		filed: []string{"file-pending", "file"},
	},
	{
		// The first create happens without an answer, the second says nothing of it.
		name: "create-unanswered", before: nothing, tell: wants(1), turn: forgoes, torn: true, known: true,
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
		// It is not gone while it is watched.
		steps: []string{"delete"},
	},
	{
		name: "leave", before: wants(1), turn: forgoes,
		tell:  func(w *world, name string) { w.leave(name) },
		blind: true,
		steps: []string{"leave", "write drop"},
	},
}

// all returns the steps of a story.
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

// afterwards is what a program does when it comes back.
type afterwards int

const (
	// goesOn: it wants what it wanted.
	goesOn afterwards = iota
	// turns: it wants something else.
	turns
	// tears: it takes the rows out by force, before there is a pass.
	tears
)

// mayDo returns what a program may do of that. Rows that are taken out by force need names that are
// known, and a table that they are in.
func (s story) mayDo(of setup) []afterwards {
	if s.torn && !of.chosen && of.ending != tableLost {
		return []afterwards{goesOn, turns, tears}
	}
	return []afterwards{goesOn, turns}
}

// narrate tells a story in a world of its own, until nothing is left to be done. The process is
// killed when it reaches a point for the first object for the nth time, or not if point is empty.
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
		// By then the grace is over, too.
		pass(longestLag + killGrace + killTimeout)
		w.change(func() {
			w.outside.creates, w.outside.takes, w.shared = s.creates, s.takes, s.shared
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
			case tears:
				w.change(func() { w.outside.down = true })
			}
		}
		killed := false
		for range 15 {
			pass(200 * time.Millisecond)
			if w.carryOn() {
				killed = true
				if then == tears {
					w.tear()
				}
			}
		}
		require.Equal(w, point != "", killed, "killed at %q", point)
		w.settle()
		w.p.end()
	})
	return reached
}

// tear takes the rows out by force, and lets the outside system work again.
func (w *world) tear() {
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

func TestKilledAtEveryStepNothingIsLeakedOrCreatedTwice(t *testing.T) {
	for _, of := range setups() {
		for _, s := range stories {
			if s.known && (of.chosen || of.sweeps) || of.sweeps && (of.chosen || of.ending != tableLost) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", s.name, of), func(t *testing.T) {
				reached := narrate(t, of, s, "", 0, goesOn)
				require.Equal(t, s.all(of), stepsOf(reached), "the steps that are killed before and after")
				seen := map[string]int{}
				for _, point := range reached {
					seen[point]++
					if of.workers > 1 && seen[point] > 1 {
						// One worker has been killed there every time.
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

// stepsOf returns the steps that were reached before and after.
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
