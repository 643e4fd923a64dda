// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package edges has which row of a derivation has looked up what, so that a change of what was looked up finds the
// rows.
//
// The state of a [Set] is two maps, and a list for each look-up. It reads no table and calls no function of the
// program. It is not safe for concurrent use.
package edges

import (
	"iter"
	"slices"
)

// Set has the look-ups of rows, which it knows by their keys.
type Set struct {
	rows map[string]*Reads
	// first has the first edge of each look-up; the others follow in a list.
	first map[Lookup]*edge
	// n counts the edges, and all those whose look-up is of a whole table.
	n, all int
}

// Reads is what a row has looked up.
type Reads struct {
	// By is the change that the look-ups were made for; nil if it was one of the row itself.
	By  *Cause
	key string
	// edges are those of the last call that did not fail, which are so many (good), and then those of a call since
	// that failed.
	edges []edge
	good  int
}

type edge struct {
	of         *Reads
	what       Lookup
	prev, next *edge
}

// Cause is a change of a row of an input with a number, by its key.
type Cause struct {
	Input int
	Key   string
}

// Lookup is what was looked up: a key in the index of an input with a number below 256, or all rows of its table.
type Lookup string

// ByKey returns the look-up of a key.
func ByKey(input int, key string) Lookup { return Lookup(string([]byte{byte(input), 1}) + key) }

// Everything returns the look-up of all rows.
func Everything(input int) Lookup { return Lookup([]byte{byte(input), 0}) }

// Input returns the number of the input.
func (l Lookup) Input() int { return int(l[0]) }

// Key returns the key; false if all rows were looked up.
func (l Lookup) Key() (key string, is bool) { return string(l[2:]), l[1] == 1 }

// New returns an empty set.
func New() Set { return Set{rows: map[string]*Reads{}, first: map[Lookup]*edge{}} }

// Put takes over what a row has looked up, which is sorted. If the call failed, the look-ups of the last one that did
// not stay, too: what follows from them is still in use.
func (s *Set) Put(row string, what []Lookup, failed bool, by *Cause) {
	slices.Sort(what)
	what = slices.Compact(what)
	r, good := s.rows[row], len(what)
	if r == nil {
		r = &Reads{key: row}
	}
	if failed {
		last := r.Lookups(r.good)
		good = len(last)
		isLast := func(one Lookup) bool { _, is := slices.BinarySearch(last, one); return is }
		what = slices.Concat(last, slices.DeleteFunc(what, isLast))
	}
	if len(what) == 0 {
		s.Drop(row)
		return
	}
	s.rows[row], r.good, r.By = r, good, by
	if slices.EqualFunc(r.edges, what, func(x edge, one Lookup) bool { return x.what == one }) {
		return
	}
	s.unlink(r)
	r.edges = make([]edge, len(what))
	for i, one := range what {
		x := &r.edges[i]
		x.of, x.what = r, one
		if next := s.first[one]; next != nil {
			// One copy of the text is enough.
			x.what, x.next, next.prev = next.what, next, x
		}
		s.first[x.what] = x
		s.count(x, 1)
	}
}

// Drop forgets a row.
func (s *Set) Drop(row string) {
	if r := s.rows[row]; r != nil {
		s.unlink(r)
		delete(s.rows, row)
	}
}

func (s *Set) unlink(r *Reads) {
	for i := range r.edges {
		x := &r.edges[i]
		if x.next != nil {
			x.next.prev = x.prev
		}
		switch {
		case x.prev != nil:
			x.prev.next = x.next
		case x.next != nil:
			s.first[x.what] = x.next
		default:
			delete(s.first, x.what)
		}
		s.count(x, -1)
	}
	r.edges = nil
}

func (s *Set) count(x *edge, n int) {
	s.n += n
	if _, is := x.what.Key(); !is {
		s.all += n
	}
}

// Of returns what a row has looked up; nil if that is nothing. The next Put for the row changes it.
func (s *Set) Of(row string) *Reads { return s.rows[row] }

// Len returns the number of edges, of which so many (all) are look-ups of a whole table. Both count a look-up once a row.
func (s *Set) Len() (n, all int) { return s.n, s.all }

// Rows yields the keys of the rows that have made a look-up.
func (s *Set) Rows(what Lookup) iter.Seq[string] {
	return func(yield func(string) bool) {
		for x := s.first[what]; x != nil && yield(x.of.key); x = x.next {
		}
	}
}

// RowsOf yields the keys of the rows that have made any look-up in an input, some of them several times. It
// goes through all look-ups of the set.
func (s *Set) RowsOf(input int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for what, x := range s.first {
			for ; x != nil && what.Input() == input; x = x.next {
				if !yield(x.of.key) {
					return
				}
			}
		}
	}
}

// Len returns the number of look-ups.
func (r *Reads) Len() int { return len(r.edges) }

// Lookups returns the first n look-ups, or all if there are fewer.
func (r *Reads) Lookups(n int) (what []Lookup) {
	for _, x := range r.edges[:min(n, len(r.edges))] {
		what = append(what, x.what)
	}
	return what
}
