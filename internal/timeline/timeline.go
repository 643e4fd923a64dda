// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package timeline keeps a sample of a loop for each of the last 600 seconds: the counts of objects
// by state, and what was done in that second. The stats of a loop own a [Timeline], and guard it with
// their lock.
package timeline

import (
	"time"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// length is the number of seconds that a timeline keeps.
const length = 600

// Timeline is a ring of seconds. The zero value is empty, and has no memory until something is added.
// It is not safe for concurrent use. Times are those of one clock, with any zero, and never decrease.
type Timeline struct {
	// seconds is the ring: second s is at s modulo length. It is nil before the first call of Add.
	// first and last are the first and the latest second.
	seconds     []second
	first, last int
}

type second struct {
	standing                     Standing
	operations, failures, rounds int32
}

// Standing has the numbers of objects or changes that wait for their first attempt, are in flight,
// fail, and are blocked.
type Standing struct{ Pending, InFlight, Failing, Blocked int32 }

// Add counts the operations and failures of a round, and records the state after it. A round without
// operations is not counted as a round.
func (t *Timeline) Add(at time.Duration, s Standing, operations, failures int) {
	now := t.reach(int(at / time.Second))
	now.standing = s
	now.operations += int32(operations)
	now.failures += int32(failures)
	if operations > 0 {
		now.rounds++
	}
}

// reach moves last on to second s, unless it is there, and returns that second. The seconds in
// between get the state of the one before them, and zero counts.
func (t *Timeline) reach(s int) *second {
	if t.seconds == nil {
		t.seconds = make([]second, length)
		t.first, t.last = s, s
	}
	idle := second{standing: t.at(t.last).standing}
	for t.last = max(t.last, s-length); t.last < s; {
		t.last++
		*t.at(t.last) = idle
	}
	return t.at(t.last)
}

func (t *Timeline) at(s int) *second { return &t.seconds[s%length] }

// Rates returns the counts per second in the ten seconds up to a time; zeros if nothing was added
// yet.
func (t *Timeline) Rates(at time.Duration) (operations, failures, rounds float64) {
	const window = 10
	if t.seconds == nil {
		return 0, 0, 0
	}
	s := int(at / time.Second)
	t.reach(s)
	n := min(window, s-t.first+1)
	for i := range n {
		one := t.at(s - i)
		operations += float64(one.operations)
		failures += float64(one.failures)
		rounds += float64(one.rounds)
	}
	of := float64(n)
	return operations / of, failures / of, rounds / of
}

// Seconds returns the last 600 seconds up to a time, the oldest first. There are fewer if the first
// round was later, none if nothing was added yet. timeOf converts a time to wall-clock time.
func (t *Timeline) Seconds(at time.Duration, timeOf func(time.Duration) time.Time) (list []inspect.Sample) {
	if t.seconds == nil {
		return nil
	}
	s := int(at / time.Second)
	t.reach(s)
	for from := max(t.first, s-length+1); from <= s; from++ {
		one := t.at(from)
		list = append(list, inspect.Sample{
			At:      timeOf(time.Duration(from) * time.Second),
			Pending: int(one.standing.Pending), InFlight: int(one.standing.InFlight),
			Failing: int(one.standing.Failing), Blocked: int(one.standing.Blocked),
			Operations: int(one.operations), Failures: int(one.failures),
		})
	}
	return list
}
