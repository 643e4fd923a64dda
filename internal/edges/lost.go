// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package edges

import (
	"iter"
	"maps"
)

// Subject is what a pair of [Lost] begins with.
type Subject string

// The subjects: an input row, a row of the further input with a number, and a look-up.
func InputRow(key string) Subject              { return Subject("\x00" + key) }
func FurtherRow(input int, key string) Subject { return Subject(string([]byte{1, byte(input)}) + key) }
func LookedUp(what Lookup) Subject             { return Subject("\x02" + string(what)) }

// IsInputRow reports whether the subject is an input row: then the other halves of its pairs are places of the output, and
// else they are input rows.
func (s Subject) IsInputRow() bool { return s[0] == 0 }

// Pair is a subject and what it leads to: a place that an input row wants, or an input row that depends on a row of a
// further input, or on a look-up.
type Pair struct {
	Subject Subject
	Target  string
}

// Lost has pairs that came apart, until they are removed. The zero value is empty. It is not safe for concurrent use.
type Lost struct {
	// of has the rounds in which pairs came apart, and n is their number.
	of map[Subject]map[string]uint64
	n  int
	// forgot is the last round of which pairs were dropped, since they were too many; 0 if there is none.
	forgot uint64
}

// MaxLost bounds the pairs: about 2 MB.
const MaxLost = 1 << 14

// Add adds a pair that came apart in a round. If there are MaxLost, it drops all, this one too.
func (l *Lost) Add(p Pair, round uint64) {
	if l.n >= MaxLost {
		*l = Lost{forgot: round}
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
	l.of[p.Subject][p.Target] = round
}

// Of yields what a subject no longer leads to.
func (l *Lost) Of(s Subject) iter.Seq[string] { return maps.Keys(l.of[s]) }

// All returns all pairs, in no order.
func (l *Lost) All() (all []Pair) {
	for s, of := range l.of {
		for target := range of {
			all = append(all, Pair{s, target})
		}
	}
	return all
}

// Remove removes pairs, except those that came apart again after a round.
func (l *Lost) Remove(pairs []Pair, round uint64) {
	for _, p := range pairs {
		if of := l.of[p.Subject]; of[p.Target] > 0 && of[p.Target] <= round {
			l.n--
			if delete(of, p.Target); len(of) == 0 {
				delete(l.of, p.Subject)
			}
		}
	}
}

// Forget notes that pairs of a derivation before this one are missing, up to the first round of this one.
func (l *Lost) Forget() { l.forgot = 1 }

// Forgot reports whether pairs are missing that may still matter.
func (l *Lost) Forgot() bool { return l.forgot > 0 }

// Remember ends what was forgotten up to a round.
func (l *Lost) Remember(round uint64) {
	if l.forgot <= round {
		l.forgot = 0
	}
}
