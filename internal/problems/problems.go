// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package problems keeps the error of each key, in the order in which they began, and names the oldest.
//
// The state of a [Set] is a map and a list. It is not safe for concurrent use.
package problems

import (
	"container/list"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"
)

// MaxNamed bounds the errors that [Joined] names, so that its cost does not grow with their number.
const MaxNamed = 10

// Set has errors by key.
type Set struct {
	byKey map[string]*list.Element
	order *list.List
	// version changes whenever an error does.
	version uint64
}

// Problem is the error of a key. It never changes.
type Problem struct {
	Key string
	Err error
	// Since is when the key came to have an error.
	Since time.Time
}

// New returns an empty set.
func New() Set { return Set{byKey: map[string]*list.Element{}, order: list.New()} }

// Keep sets the error of a key. It returns false if the key has an error with this text already.
func (s *Set) Keep(key string, err error, now time.Time) (news bool) {
	if element := s.byKey[key]; element != nil {
		old := element.Value.(*Problem)
		if old.Err.Error() == err.Error() {
			return false
		}
		element.Value = &Problem{key, err, old.Since}
	} else {
		s.byKey[key] = s.order.PushBack(&Problem{key, err, now})
	}
	s.version++
	return true
}

// Forget removes the error of a key, if there is one.
func (s *Set) Forget(key string) {
	if element := s.byKey[key]; element != nil {
		s.order.Remove(element)
		delete(s.byKey, key)
		s.version++
	}
}

// Of returns the problem of a key; nil if it has none.
func (s *Set) Of(key string) *Problem {
	if element := s.byKey[key]; element != nil {
		return element.Value.(*Problem)
	}
	return nil
}

// Len returns the number of keys with an error.
func (s *Set) Len() int { return s.order.Len() }

// Version returns a number that changes whenever an error does.
func (s *Set) Version() uint64 { return s.version }

// First returns the n oldest problems.
func (s *Set) First(n int) (out []*Problem) {
	for element := s.order.Front(); element != nil && len(out) < n; element = element.Next() {
		out = append(out, element.Value.(*Problem))
	}
	return out
}

// Keys returns the keys with an error.
func (s *Set) Keys() iter.Seq[string] { return maps.Keys(s.byKey) }

// Joined returns the oldest errors of some sets, and how many others there are, as one error; nil if there are none.
func Joined(all ...*Set) error {
	var errs []error
	total := 0
	for _, s := range all {
		total += s.Len()
		for _, one := range s.First(MaxNamed - len(errs)) {
			errs = append(errs, one.Err)
		}
	}
	if omitted := total - len(errs); omitted > 0 {
		errs = append(errs, fmt.Errorf("%d further errors omitted", omitted))
	}
	return errors.Join(errs...)
}
