// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/text"
)

// errSharedField is the problem of reconcilers that share a status field. Each takes the statuses of
// the others for its own, so that a row becomes Done although only one of them has applied it.
var errSharedField = errors.New(health.SharedField)

// sharing holds the running loops that share the status field of a loop. Sharing is mutual: either
// both of two loops have each other, or neither has.
type sharing[Obj comparable] struct {
	mu   sync.Mutex
	with []*Loop[Obj]
	// over: the loop has stopped.
	over bool
}

// add adds a loop. It returns false, and does not, if this loop has stopped.
func (s *sharing[Obj]) add(other *Loop[Obj]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over && !slices.Contains(s.with, other) {
		s.with = append(s.with, other)
	}
	return !s.over
}

func (s *sharing[Obj]) remove(other *Loop[Obj]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.with = slices.DeleteFunc(s.with, func(l *Loop[Obj]) bool { return l == other })
}

// end removes all loops and returns them. Later calls of add return false.
func (s *sharing[Obj]) end() []*Loop[Obj] {
	s.mu.Lock()
	defer s.mu.Unlock()
	with := s.with
	s.with, s.over = nil, true
	return with
}

// names returns the names of the loops, sorted; nil if there are none.
func (s *sharing[Obj]) names() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.with {
		names = append(names, other.ID().String())
	}
	slices.Sort(names)
	return names
}

// text returns a line for each of the first few loops, and one that counts the others; empty if there
// are none.
func (s *sharing[Obj]) text() string {
	names := s.names()
	if len(names) == 0 {
		return ""
	}
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = fmt.Sprintf("%s: this one and %q", errSharedField, name)
	}
	return health.Few(lines, "reconciler")
}

// findSharers finds the loops that share the status field. It is called for the first row that this
// loop reads. Of two loops only the later one has to find the other: by then both are in the
// registry.
func (l *Loop[Obj]) findSharers(row Obj) {
	if l.opts.registry == nil || l.beside {
		return
	}
	var others []*Loop[Obj]
	for _, i := range l.opts.registry.All() {
		other, ok := i.(*Loop[Obj])
		if ok && other != l && other.running.Load() && !other.beside && other.rows.Writable.Table.ToTable() == l.rows.Writable.Table.ToTable() {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return
	}
	for _, other := range l.readersOf(row, others) {
		l.sharing.add(other)
		if other.sharing.add(l) {
			other.calls.made.Send()
		} else {
			l.sharing.remove(other)
		}
	}
}

// readersOf returns which of some loops read a status that this one has set on a clone of the row. A
// panic in a function of the program is logged, and ends the search but not the loop.
func (l *Loop[Obj]) readersOf(row Obj, others []*Loop[Obj]) (readers []*Loop[Obj]) {
	defer func() {
		if r := recover(); r != nil {
			l.log.Error("looking for reconcilers that share the status field panicked",
				"panic", text.Cut(outcome.TextOfAny(r), MaxErrorText), "stack", string(debug.Stack()))
		}
	}()
	marker := StatusPending()
	marked := l.rows.Writable.SetStatus(l.rows.Writable.Clone(row), marker)
	for _, other := range others {
		if other.cfg.GetStatus(marked).ID == marker.ID {
			readers = append(readers, other)
		}
	}
	return readers
}

// endSharing removes this loop from the loops that share its status field.
func (l *Loop[Obj]) endSharing() {
	for _, other := range l.sharing.end() {
		other.sharing.remove(l)
		other.calls.made.Send()
	}
}

// notes returns the lines of text for explanations; none if the field is not shared.
func (s *sharing[Obj]) notes() []string {
	text := s.text()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
