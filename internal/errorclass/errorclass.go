// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package errorclass

import (
	"cmp"
	"slices"
	"time"

	"github.com/cilium/statedb"
	"golang.org/x/time/rate"
)

const (
	// MaxClasses bounds the number of classes. A new class replaces the class whose last failure is
	// the oldest.
	MaxClasses = 32
	// LogEvery is the shortest time between two log lines of one class. LogBurst bounds the lines of
	// all classes that are logged at once; beyond it there is one a second.
	LogEvery = 30 * time.Second
	LogBurst = 10
)

// Failure is an operation that failed.
type Failure[Obj any] struct {
	Operation string
	Object    Obj
	Revision  statedb.Revision
	Attempt   int32
	// Text is the text of the error.
	Text string
}

// Line is a failure to log. Repeated is the number of failures of its class since the last line that
// were not logged.
type Line[Obj any] struct {
	Failure[Obj]
	Repeated int
}

// Class is a class of failures.
type Class[Obj any] struct {
	Name  string
	Count uint64
	// At is the time of the last failure. Object and Text are those of that failure.
	At     time.Duration
	Object Obj
	Text   string
}

// Classes is a set of classes with the lines to log. The zero value is empty. [Classes.Add]
// and [Classes.TakeLines] belong to one goroutine. Add and [Classes.List] must be called with a lock of
// the caller held. Times are those of one clock, with any zero.
type Classes[Obj any] struct {
	classes map[string]*entry[Obj]
	// lines are the lines that were not taken yet. mayLog bounds their rate.
	lines  []Line[Obj]
	mayLog *rate.Limiter
}

type entry[Obj any] struct {
	Class[Obj]
	// logged is when a failure of the class was last logged, if ever is true. unlogged is the number
	// of failures since then.
	logged   time.Duration
	ever     bool
	unlogged int
}

// Add counts a failure of a class. It adds a log line unless the class was logged within [LogEvery]
// or too many lines were logged lately.
func (c *Classes[Obj]) Add(class string, at time.Duration, failure Failure[Obj]) {
	e := c.entry(class)
	e.Count++
	e.At, e.Object, e.Text = at, failure.Object, failure.Text
	e.unlogged++
	if e.ever && at-e.logged < LogEvery || !c.mayLog.AllowN(time.Time{}.Add(at), 1) {
		return
	}
	c.lines = append(c.lines, Line[Obj]{failure, e.unlogged - 1})
	e.ever, e.logged, e.unlogged = true, at, 0
}

// entry returns the entry of a class, and creates it if there is none.
func (c *Classes[Obj]) entry(class string) *entry[Obj] {
	if e := c.classes[class]; e != nil {
		return e
	}
	if c.classes == nil {
		c.classes, c.mayLog = map[string]*entry[Obj]{}, rate.NewLimiter(1, LogBurst)
	}
	if len(c.classes) == MaxClasses {
		var oldest *entry[Obj]
		for _, e := range c.classes {
			if oldest == nil || cmp.Or(cmp.Compare(e.At, oldest.At), cmp.Compare(e.Name, oldest.Name)) < 0 {
				oldest = e
			}
		}
		delete(c.classes, oldest.Name)
	}
	e := &entry[Obj]{Class: Class[Obj]{Name: class}}
	c.classes[class] = e
	return e
}

// List returns copies of the classes, the one with the latest failure first.
func (c *Classes[Obj]) List() []Class[Obj] {
	list := make([]Class[Obj], 0, len(c.classes))
	for _, e := range c.classes {
		list = append(list, e.Class)
	}
	slices.SortFunc(list, func(a, b Class[Obj]) int {
		return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// TakeLines returns the lines that were added since its last call.
func (c *Classes[Obj]) TakeLines() []Line[Obj] {
	lines := c.lines
	c.lines = nil
	return lines
}
