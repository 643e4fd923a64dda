// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/statekeel/statekeel/internal/running"
)

// MaxNote is how many bytes of a [Note] are kept. What is longer is cut, and ends in "…".
const MaxNote = 1024

// Note attaches a short text to the operation that is running, for people to read: it is in
// [inspect.Operation].Note and [inspect.Event].Note, and so in [Loop.Explain] and the journal. It says
// what an operation did on its way, such as the steps that it took; what came of it is for
// the error. Of several notes of one operation the last counts, an empty text takes it back.
//
// It is called inside an update or a deletion of [Operations] with the context of the call,
// from any goroutine, but not after the call has returned: it might then be another's note.
// In a call for several objects it does nothing; that is for [NoteOn]. Outside of an
// operation it does nothing. Operations that make no notes pay nothing for them.
func Note(ctx context.Context, text string) {
	if s, ok := ctx.Value(running.Key{}).(noter); ok {
		s.note(text)
	}
}

// NoteOn is [Note] for one object of a call for several, as those of [BatchOperations] and
// [RoundOperations]: obj is the one that the call was handed, or a copy of it. It works for
// a single object, too. It does nothing if obj is not an object of the call.
func NoteOn[Obj comparable](ctx context.Context, obj Obj, text string) {
	if s, ok := ctx.Value(running.Key{}).(*scope[Obj]); ok {
		s.noteOn(obj, text)
	}
}

// noter is a scope, whatever its objects are.
type noter interface{ note(text string) }

func (s *scope[Obj]) note(text string) {
	s.mark(func(a *attempt[Obj]) { a.noted(text) })
}

func (s *scope[Obj]) noteOn(obj Obj, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if place := s.find(obj); place >= 0 {
		s.attempts[place].noted(text)
	}
}

// Deletion implements [running.Operation]: see [running.Deletion].
func (s *scope[Obj]) Deletion() {
	s.mark(func(a *attempt[Obj]) { a.deletion = true })
}

// Changed implements [running.Operation]: see [running.Changed].
func (s *scope[Obj]) Changed() {
	s.mark(func(a *attempt[Obj]) { a.changed = true })
}

// mark notes something of the operation that is running on a single object.
func (s *scope[Obj]) mark(how func(*attempt[Obj])) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := int(s.at.Load()); at >= 0 && at < len(s.attempts) {
		how(&s.attempts[at])
	}
}

func (a *attempt[Obj]) noted(text string) {
	a.note = nil
	if text != "" {
		// It may be a piece of a text that is long.
		text = strings.Clone(cut(text, MaxNote))
		a.note = &text
	}
}

// cut returns a text of at most the given number of bytes, of whole runes, and says if there
// was more. What is left out is not held on to.
func cut(text string, most int) string {
	const more = "…"
	if len(text) <= most {
		return text
	}
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end]) + more
}
