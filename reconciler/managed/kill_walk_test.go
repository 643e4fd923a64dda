// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// schedule is a random walk of a program that changes its desired state and is killed in between.
type schedule struct {
	*world
	rnd *rand.Rand
}

func newSchedule(t *testing.T, seed uint64) *schedule {
	all := setups()
	s := &schedule{newWorld(t, all[int(seed)%len(all)], "a", "b", "c"), rand.New(rand.NewPCG(seed, 6))}
	lag := rand.New(rand.NewPCG(seed, 1))
	s.outside.lag = func() time.Duration { return time.Duration(lag.Int64N(int64(longestLag))) }
	s.outside.stays = func(string) bool { return lag.IntN(3) == 0 }
	s.edited, s.breaks = seed%4 == 1, seed%3 == 0
	if seed%5 == 0 {
		s.outside.takes = time.Minute
	}
	s.outside.faults, s.outside.rnd = true, rand.New(rand.NewPCG(seed, 2))
	return s
}

// arm lets the process be killed at one of the next 40 points.
func (s *schedule) arm() {
	left := 1 + s.rnd.IntN(40)
	s.change(func() {
		s.kill = func(string, string) bool {
			left--
			return left == 0
		}
	})
}

// one makes one random change to one object, or to its resources.
func (s *schedule) one() {
	name := s.names[s.rnd.IntN(len(s.names))]
	size := 1 + s.rnd.IntN(3)
	switch action := s.rnd.IntN(26); {
	case action < 10:
		s.want(name, size)
	case action < 16:
		s.forgo(name)
	case action < 17:
		s.drift(name, size)
	case action < 18:
		s.vanish(name)
	case action < 19:
		s.replace(name)
	case action < 20:
		s.removeRow(name)
	case action < 22:
		s.orphan(name)
	default:
		s.p.share(name)
	}
	s.p.sync(false)
}

// drift changes the resources of an object.
func (s *schedule) drift(name string, size int) {
	s.change(func() {
		for _, id := range s.outside.owned(name) {
			if v := s.outside.is(id); !s.outside.going(id) && !s.outside.marked[id] {
				v.size = size
				s.outside.becomes(id, v)
			}
			if _, stays := s.left[name]; stays {
				s.left[name] = anySize
			}
		}
	})
}

// vanish deletes the resources of an object without the program.
func (s *schedule) vanish(name string) {
	s.change(func() {
		for _, id := range s.outside.owned(name) {
			s.outside.becomes(id, version{})
		}
		if _, stays := s.left[name]; stays {
			s.left[name] = anySize
		}
	})
}

// replace replaces a row by one without the notes. It does nothing where this would lose a name that is
// known only from the table, or from a row that no pass has seen, or the zone that a person has set (see
// decide): of other annotations, only those that a create has set outlive a plain insert.
func (s *schedule) replace(name string) {
	row := s.p.store.get(name)
	if row == nil || managed.WasDeleted(row) || s.chosen && (!s.filed() || len(row.Conditions) == 0) {
		return
	}
	if row.Annotations[zone] != "" && row.Annotations[managed.AnnotationPrefix+"external-create-changes"] == "" {
		return
	}
	fresh := named(name).SetStatus(reconciler.StatusPending())
	fresh.Size = row.Size
	if s.rnd.IntN(2) == 0 {
		// This row has the external name, and no other note.
		managed.SetExternalName(fresh, managed.GetExternalName(row))
	}
	wtxn := s.p.store.db.WriteTxn(s.p.store.RWTable)
	defer wtxn.Commit()
	_, _, err := s.p.store.RWTable.Insert(wtxn, fresh)
	require.NoError(s, err)
}

// orphan removes an object from the desired state and leaves its resource in place. It does nothing if
// the outside system chooses names: the next row would create a second resource besides that one.
func (s *schedule) orphan(name string) {
	if row := s.p.store.get(name); !s.chosen && row != nil && !managed.WasDeleted(row) {
		s.leave(name)
	}
}

// removeRow removes a row directly. If the process is killed then, only a sweep deletes the resource. Until
// the sweep a new row must find it by its name. It does nothing if the resource is still marked as left in
// place, because sweeps keep that.
func (s *schedule) removeRow(name string) {
	marked := false
	s.change(func() { marked = s.marked(name) })
	if !s.sweeps || s.chosen || marked {
		return
	}
	s.forgo(name)
	wtxn := s.p.store.db.WriteTxn(s.p.store.RWTable)
	defer wtxn.Commit()
	_, _, err := s.p.store.RWTable.Delete(wtxn, named(name))
	require.NoError(s, err)
}

// pause sleeps for up to 100 ms, or for up to one second.
func (s *schedule) pause() {
	longest := 100
	if s.rnd.IntN(2) == 0 {
		longest = 1000
	}
	time.Sleep(time.Duration(s.rnd.IntN(longest)) * time.Millisecond)
}

// run runs the walk, and returns the points at which the processes were killed.
func (s *schedule) run() []string {
	s.begin()
	kills := 1 + s.rnd.IntN(4)
	s.arm()
	for range 12 {
		s.one()
		s.pause()
		if s.carryOn() && len(s.deaths()) < kills {
			s.arm()
		}
		if s.rnd.IntN(4) == 0 {
			s.decide()
		}
		s.never()
	}
	s.settle()
	s.p.end()
	return s.deaths()
}

func TestKillAtRandomLeaksAndDuplicatesNothing(t *testing.T) {
	schedules := long.Times(96) // each setup four times
	ran, hit := 0, 0
	for seed := range uint64(schedules) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSchedule(t, seed)
				t.Log("setup", s.setup)
				ran++
				if len(s.run()) > 0 {
					hit++
				}
			})
		})
	}
	if ran == schedules {
		require.GreaterOrEqual(t, hit, schedules*8/10, "schedules with a kill")
	}
}
