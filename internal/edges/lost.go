// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package edges

import "iter"

// Subject is what a pair of [Lost] begins with.
type Subject string

// The subjects: an input row, a row of the further input with a number, a look-up, and an unknown row.
func InputRow(key string) Subject              { return Subject("\x00" + key) }
func FurtherRow(input int, key string) Subject { return Subject(string([]byte{1, byte(input)}) + key) }
func LookedUp(what Lookup) Subject             { return Subject("\x02" + string(what)) }
func Unknown() Subject                         { return "\x03" }

// Places reports whether the other half of the pairs of a subject is a place of the output, and not an input row.
func (s Subject) Places() bool { return s[0] == 0 || s[0] == 3 }

// Pair is a subject and what it no longer leads to: a place that an input row no longer wants, or an input row that
// no longer depends on a row of a further input. Of is the number of the round in which they came apart.
type Pair struct {
	Subject Subject
	Target  string
	Of      uint64
}

// Lost has pairs that came apart, until they are removed. The zero value is empty. It is not safe for concurrent use.
type Lost struct {
	of map[Subject]map[string]uint64
	n  int
	// forgot is the last round of which pairs were dropped, since they were too many; 0 if there is none.
	forgot uint64
}

// MaxLost bounds the pairs: about 2 MB.
const MaxLost = 1 << 14

// Add adds a pair. If there are MaxLost, it drops all, this one too.
func (l *Lost) Add(p Pair) {
	if l.n >= MaxLost {
		*l = Lost{forgot: p.Of}
		return
	}
	if l.of == nil {
		l.of = map[Subject]map[string]uint64{}
	}
	if l.of[p.Subject] == nil {
		l.of[p.Subject] = map[string]uint64{}
	}
	if l.of[p.Subject][p.Target] == 0 {
		l.n++
	}
	l.of[p.Subject][p.Target] = p.Of
}

// Forget has it known that pairs of a derivation before this one are missing, until its first round is removed.
func (l *Lost) Forget() { l.forgot = 1 }

// Of yields what a subject no longer leads to.
func (l *Lost) Of(s Subject) iter.Seq[string] {
	return func(yield func(string) bool) {
		for target := range l.of[s] {
			if !yield(target) {
				return
			}
		}
	}
}

// Remove removes a pair, unless it came apart again after the round in p.
func (l *Lost) Remove(p Pair) {
	if of := l.of[p.Subject]; of[p.Target] > 0 && of[p.Target] <= p.Of {
		l.n--
		if delete(of, p.Target); len(of) == 0 {
			delete(l.of, p.Subject)
		}
	}
}

// RemoveUpTo removes all pairs up to a round, and what was forgotten up to it.
func (l *Lost) RemoveUpTo(round uint64) {
	for _, p := range l.All() {
		l.Remove(Pair{p.Subject, p.Target, round})
	}
	if l.forgot <= round {
		l.forgot = 0
	}
}

// All returns all pairs, in no order.
func (l *Lost) All() (all []Pair) {
	for s, of := range l.of {
		for target, round := range of {
			all = append(all, Pair{s, target, round})
		}
	}
	return all
}

// Len returns the number of pairs.
func (l *Lost) Len() int { return l.n }

// Forgot reports whether pairs were dropped that may still matter.
func (l *Lost) Forgot() bool { return l.forgot > 0 }
