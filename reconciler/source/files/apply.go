// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package files

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/source"
)

type problem = source.Problem

// claim is an object with the file that claims its key, and where.
type claim[Obj any] struct {
	obj  Obj
	file *file[Obj]
	at   string
}

// claims returns what the files want, in their order: of several objects with one key the first one. The others are lost;
// while the first file is missing they are behind it: what it wants stays, since it may be back in a moment. An object
// that has left a file stays, too, unless another file has it: it may be on its way to one.
func (s *Source[Obj]) claims() (keys []string, of map[string]claim[Obj]) {
	of = map[string]claim[Obj]{}
	for _, f := range s.sorted() {
		f.lost, f.behind = nil, ""
		for i := range f.objs {
			o := &f.objs[i]
			first, taken := of[o.key]
			switch {
			case !taken:
				keys = append(keys, o.key)
				of[o.key] = claim[Obj]{o.Object, f, position(f.path, o.Entry)}
			case !f.missing.IsZero():
			case !first.file.missing.IsZero():
				f.behind = first.file.path
			default:
				f.lost = append(f.lost, problem{Keys: []string{o.key}, Err: fmt.Errorf("%s: %s is also in %s, which has it",
					position(f.path, o.Entry), text.Key([]byte(o.key)), first.at)})
			}
		}
	}
	for _, f := range s.sorted() {
		for _, l := range f.leaving {
			if _, taken := of[l.key]; !taken {
				keys = append(keys, l.key)
				of[l.key] = claim[Obj]{l.Object, f, f.path}
			}
		}
	}
	return keys, of
}

// apply puts what the files want into the sink. Before each of them has had a good version, nothing is removed that
// was there before, and the table is not initialised.
func (s *Source[Obj]) apply(ctx context.Context) {
	keys, of := s.claims()
	s.version++
	if s.given != nil && slices.ContainsFunc(s.sorted(), func(f *file[Obj]) bool { return !f.good }) {
		s.applied = s.applyChanges(ctx, of)
		s.unapplied = ctx.Err() != nil
		return
	}
	list := make([]Obj, len(keys))
	for i, key := range keys {
		list[i] = of[key].obj
	}
	before := s.applied
	_, s.applied = s.cfg.Sink.Replace(ctx, list, s.version)
	complete := s.applied == nil || errors.Is(s.applied, source.ErrHeld) || s.cfg.Sink.State().Input == s.version
	if s.unapplied = !complete; complete {
		s.given = nil
	}
	if s.applied != nil && ctx.Err() == nil && (before == nil || before.Error() != s.applied.Error()) {
		s.cfg.Log.Warn("Not all objects of the files were applied", "path", s.cfg.Path, "error", s.applied)
	}
}

// applyChanges puts what has changed into the sink.
func (s *Source[Obj]) applyChanges(ctx context.Context, of map[string]claim[Obj]) error {
	var changes []source.Change[Obj]
	for key, obj := range s.given {
		if _, is := of[key]; !is {
			changes = append(changes, source.Change[Obj]{Object: obj, Deleted: true})
			delete(s.given, key)
		}
	}
	for key, c := range of {
		s.given[key] = c.obj
		changes = append(changes, source.Change[Obj]{Object: c.obj})
	}
	s.cfg.Sink.Connected()
	_, err := s.cfg.Sink.Apply(ctx, changes, s.version)
	return err
}

// report tells the sink what is wrong with the files, if that is news.
func (s *Source[Obj]) report(now time.Time) {
	var problems []problem
	if s.away != nil && now.Sub(s.gone) >= s.cfg.Settle {
		problems = append(problems, problem{Err: s.away})
	}
	for _, f := range s.sorted() {
		var lines []string
		if f.err != nil {
			lines = strings.Split(f.err.Error(), "\n")
		}
		if !f.writing.IsZero() && now.Sub(f.writing) >= unclosed {
			lines = append(lines, fmt.Sprintf("%s: a program has it open for writing since %s: it is read when it is closed",
				f.path, text.Stamp(f.writing)))
		}
		for _, line := range lines {
			if s.given != nil && !f.good {
				line += " (the file has no good version yet, so the table is not initialised)"
			}
			problems = append(problems, problem{Err: errors.New(line), Keys: f.keys()})
		}
		problems = append(problems, f.lost...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	news := !slices.EqualFunc(problems, s.problems, func(a, b problem) bool {
		return a.Err.Error() == b.Err.Error() && slices.Equal(a.Keys, b.Keys)
	})
	if news || s.hung {
		s.problems, s.hung = problems, false
		s.cfg.Sink.Report(problems...)
	}
}

// keys returns the keys of the last good version.
func (f *file[Obj]) keys() []string {
	keys := make([]string, len(f.objs))
	for i := range f.objs {
		keys[i] = f.objs[i].key
	}
	return keys
}
