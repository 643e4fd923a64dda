// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

import (
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
)

const (
	// MaxClass bounds the bytes of a class.
	MaxClass = 120
	// classText bounds the bytes of a text that its class is made from.
	classText = 1024
)

// Classes is the classifier of a reconciler's failures. It uses the user's function if there is one,
// else the texts of the errors. It is safe from any goroutine if Function is.
type Classes[Obj any] struct {
	// Function is the user's class function; nil if there is none. If it panics, the panic is logged
	// and the class is empty, unless Panics is set: then the panic is not recovered.
	Function func(err error) string
	Panics   bool
	Rows     *rows.Rows[Obj]
	Log      *slog.Logger
}

// ByFunction returns the class of an error from the user's function; empty if there is no function.
func (c *Classes[Obj]) ByFunction(err error) (class string) {
	if c.Function == nil {
		return ""
	}
	if cut, is := err.(*Cut); is {
		return cut.Class
	}
	defer func() {
		if r := recover(); r != nil && !c.Panics {
			c.Log.Error("Config.ErrorClass panicked", "panic", text.Short(TextOfAny(r), MaxText), "error", text.Short(TextOf(err), MaxText))
		} else if r != nil {
			panic(r)
		}
	}()
	// A clone: the class may be a piece of a long text.
	return strings.Clone(text.Short(c.Function(err), MaxClass))
}

// ByText returns the class of a text about obj. The text's parts that name the object are replaced:
// its name, and its key if the name is the key in quotes or in hexadecimal.
func (c *Classes[Obj]) ByText(said string, obj Obj) string {
	name, key := c.Rows.Name(obj), c.Rows.Key(obj)
	if name == c.Rows.KeyName(key) {
		return PlainClass(said, name, string(key))
	}
	return PlainClass(said, name)
}

// PlainClass returns the class of a text: the text with "#" in place of numbers and of the names of
// the object where these are separate words.
func PlainClass(said string, names ...string) string {
	said = text.Short(said, classText)
	for _, name := range names {
		if name != "" {
			said = withoutWord(said, name)
		}
	}
	var b strings.Builder
	digits := false
	for _, r := range said {
		was := digits
		digits = r >= '0' && r <= '9'
		switch {
		case !digits:
			b.WriteRune(r)
		case !was:
			b.WriteByte('#')
		}
	}
	return text.Short(b.String(), MaxClass)
}

// withoutWord returns text with "#" in place of word where no letter or digit is beside it.
func withoutWord(text, word string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, word)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		last, _ := utf8.DecodeLastRuneInString(b.String())
		next, _ := utf8.DecodeRuneInString(rest)
		if isWordRune(last) || isWordRune(next) {
			b.WriteString(word)
		} else {
			b.WriteByte('#')
		}
		text = rest
	}
}

// isWordRune is false for the rune that stands for none.
func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
