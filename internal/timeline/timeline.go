// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package timeline remembers how a loop stood in each of the last ten minutes' seconds.
package timeline

import "time"

// length is for how many seconds a timeline goes back.
const length = 600

// Timeline is a ring of seconds. The zero value is empty, and takes no memory until something is
// added. It is not safe from several goroutines. Times are those of one clock, from any zero, and
// never go back.
type Timeline struct {
	// seconds are a ring: second s is at s modulo its length. nil before the first, which is
	// first; last is the latest that there is.
	seconds     []second
	first, last int
}

type second struct {
	standing                     Standing
	operations, failures, rounds int32
}

// Standing is how many objects or changes wait for their first attempt, are worked on, failing and
// blocked.
type Standing struct{ Pending, InFlight, Failing, Blocked int32 }

// Second is one of a timeline.
type Second struct {
	// At is when it begins.
	At time.Duration
	// Standing is that of its end.
	Standing
	// Operations, Failures and Rounds are those of this second.
	Operations, Failures, Rounds int32
}

// Add counts what a round did, and notes how the loop stands since. A round without operations
// does not count as one.
func (t *Timeline) Add(at time.Duration, s Standing, operations, failures int) {
	now := t.reach(int(at / time.Second))
	now.standing = s
	now.operations += int32(operations)
	now.failures += int32(failures)
	if operations > 0 {
		now.rounds++
	}
}

// reach returns the given second, which is the last or a later one. Those in between were as the one
// before, with nothing done in them.
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

// Rates returns how much was done a second in the ten seconds up to a time; zeros if nothing was
// added yet.
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

// Seconds returns the last ten minutes up to a time, the oldest first: fewer if the first round was
// later, none if nothing was added yet.
func (t *Timeline) Seconds(at time.Duration) []Second {
	if t.seconds == nil {
		return nil
	}
	s := int(at / time.Second)
	t.reach(s)
	from := max(t.first, s-length+1)
	list := make([]Second, 0, s-from+1)
	for ; from <= s; from++ {
		one := t.at(from)
		list = append(list, Second{
			At: time.Duration(from) * time.Second, Standing: one.standing,
			Operations: one.operations, Failures: one.failures, Rounds: one.rounds,
		})
	}
	return list
}
