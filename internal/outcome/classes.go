// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

import (
	"log/slog"
	"strings"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
)

// Classes tells the failures of a reconciler apart: by a function of the program, or by their
// texts without what names the object.
type Classes[Obj comparable] struct {
	// Function is that of the program, nil if there is none. A panic of it is logged, and the
	// class is empty, unless Panics is set: then it goes on.
	Function func(err error) string
	Panics   bool
	Rows     *rows.Rows[Obj]
	Log      *slog.Logger
}

// ByFunction returns the class of an error by the function; empty if there is none.
func (c *Classes[Obj]) ByFunction(err error) (class string) {
	if c.Function == nil {
		return ""
	}
	defer func() {
		if r := recover(); r != nil && !c.Panics {
			c.Log.Error("Config.ErrorClass panicked", "panic", text.Short(TextOfAny(r), MaxText), "error", text.Short(TextOf(err), MaxText))
		} else if r != nil {
			panic(r)
		}
	}()
	// It may be a piece of a text that is long.
	return strings.Clone(text.Short(c.Function(err), MaxClass))
}

// Of returns the class of an error that an operation on an object returned, with the text that
// its status has.
func (c *Classes[Obj]) Of(err error, said string, obj Obj) string {
	if c.Function == nil {
		return c.ByText(said, obj)
	}
	if cut, is := err.(*Cut); is {
		return cut.Class
	}
	return c.ByFunction(err)
}

// ByText returns the class of a text about an object: the text without the object's name, and
// without its key if the name is that in quotes or in hexadecimal.
func (c *Classes[Obj]) ByText(said string, obj Obj) string {
	name, key := c.Rows.Name(obj), c.Rows.Key(obj)
	if name == c.Rows.KeyName(key) {
		return PlainClass(said, name, string(key))
	}
	return PlainClass(said, name)
}
