// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

const (
	// maxClasses bounds the kinds of failures that are told apart: the one that did not
	// happen for the longest time makes room for a new one.
	maxClasses = 32
	// maxClass bounds the length of a kind's name.
	maxClass = 120
	// saidEvery is the shortest time between two lines in the log for one kind of
	// failure, and complaintsBurst how many lines there may be at a time; then it is one
	// a second.
	saidEvery       = 30 * time.Second
	complaintsBurst = 10
)

// errorClasses are the kinds of failures there were.
type errorClasses[Obj any] struct {
	classes map[string]*errorClass[Obj]
	// last is the kind of the failure before, lastText its text: what fails together
	// mostly fails with the same.
	last     *errorClass[Obj]
	lastText string
}

// errorClass is a kind of failure; object and text are those of the last one, at its time.
type errorClass[Obj any] struct {
	name   string
	count  uint64
	at     time.Duration
	object Obj
	text   string
	// said is when a failure of the kind was logged, if ever; unsaid how many were not
	// since.
	said   time.Duration
	ever   bool
	unsaid int
}

// complaint is a failure that is to be logged.
type complaint[Obj any] struct {
	operation string
	object    Obj
	revision  statedb.Revision
	attempt   int32
	text      string
	repeated  int
}

// of returns the kind with a name, made if need be.
func (c *errorClasses[Obj]) of(name string) *errorClass[Obj] {
	class := c.classes[name]
	if class != nil {
		return class
	}
	if c.classes == nil {
		c.classes = map[string]*errorClass[Obj]{}
	}
	if len(c.classes) == maxClasses {
		var oldest *errorClass[Obj]
		for _, other := range c.classes {
			if oldest == nil || cmp.Or(cmp.Compare(other.at, oldest.at), cmp.Compare(other.name, oldest.name)) < 0 {
				oldest = other
			}
		}
		delete(c.classes, oldest.name)
	}
	class = &errorClass[Obj]{name: name}
	c.classes[name] = class
	return class
}

// blame counts a failure among its kind, and notes it for the log if it is its turn. It is
// called under the lock of the book.
func (l *Loop[Obj]) blame(t *task[Obj], a *attempt[Obj], at time.Duration) {
	c, text := &l.book.errors, *a.text
	if a.classed || c.last == nil || c.lastText != text || c.classes[c.last.name] != c.last {
		name := a.class
		if name == "" {
			name = l.plainClassOf(text, a.row)
		}
		c.last, c.lastText = c.of(cut(name, maxClass)), text
	}
	class := c.last
	class.count++
	class.at, class.object, class.text = at, a.row, text
	class.unsaid++
	if class.ever && at-class.said < saidEvery || !l.mayComplain.Allow() {
		return
	}
	l.complaints = append(l.complaints, complaint[Obj]{
		operation: t.operation(), object: a.row, revision: t.revision, attempt: a.number,
		text: text, repeated: class.unsaid - 1,
	})
	class.ever, class.said, class.unsaid = true, at, 0
}

// list returns copies of the kinds.
func (c *errorClasses[Obj]) list() []errorClass[Obj] {
	list := make([]errorClass[Obj], 0, len(c.classes))
	for _, class := range c.classes {
		list = append(list, *class)
	}
	return list
}

// errorClasses says for people what kinds of failures there were, the latest first.
func (v *view[Obj]) errorClasses(classes []errorClass[Obj]) []inspect.ErrorClass {
	list := make([]inspect.ErrorClass, 0, len(classes))
	for _, c := range classes {
		list = append(list, inspect.ErrorClass{
			Class: c.name, Count: c.count, Last: v.timeOf(c.at), Key: v.rows.Name(c.object), Example: c.text,
		})
	}
	slices.SortFunc(list, func(a, b inspect.ErrorClass) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Class, b.Class))
	})
	return list
}

// complain logs the failures of a round whose turn it is.
func (l *Loop[Obj]) complain() {
	for i := range l.complaints {
		c := &l.complaints[i]
		l.log.Warn("operation failed", "operation", c.operation, "key", l.rows.Name(c.object), "revision", c.revision,
			"attempt", c.attempt, "error", c.text, "repeated", c.repeated)
	}
	clear(l.complaints)
	l.complaints = l.complaints[:0]
	if !l.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	for i := range l.batch.tasks {
		t, a := &l.batch.tasks[i], &l.batch.attempts[i]
		args := []any{"operation", t.operation(), "key", l.rows.Name(a.row), "revision", t.revision,
			"attempt", a.number, "cause", a.cause.Text(), "result", a.result.String(), "took", t.took}
		if a.text != nil {
			args = append(args, "error", *a.text)
		}
		l.log.Debug("operation", args...)
	}
}
