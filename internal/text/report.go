// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text

import (
	"fmt"
	"strings"
	"time"
)

// Report is an answer for people as data: a sentence, named values and tables. Commands print it, and the
// page shows it. All its texts are printable.
type Report struct {
	Lead Value
	// Fields are rows of a name and a value, which is not cut.
	Fields [][]Value
	Tables []Table
}

// Field adds a named value.
func (r *Report) Field(name string, value Value) {
	r.Fields = append(r.Fields, []Value{{Text: name}, value})
}

// String returns the report for a terminal. Each line ends with a newline.
func (r *Report) String() string {
	var out strings.Builder
	if r.Lead.Text != "" {
		out.WriteString(r.Lead.Text + "\n")
	}
	var fields [][]string
	for _, field := range r.Fields {
		fields = append(fields, []string{field[0].Text, field[1].Text})
	}
	align(&out, "  ", fields)
	for i := range r.Tables {
		r.Tables[i].append(&out)
	}
	return out.String()
}

// Value is a printable text with its meaning, which the page shows as well.
type Value struct {
	Text string `json:"text"`
	Kind Kind   `json:"kind,omitempty"`
	// Href is the address of a page about the value, which the page sets.
	Href string `json:"href,omitempty"`
	// Key is the key of an object, for a value of [KindObject].
	Key string `json:"-"`
}

// Kind is what a value means. The text is clear without it.
type Kind string

// The kinds of values. The page has a class of its style sheet for each.
const (
	KindGood Kind = "good"
	KindWork Kind = "work"
	KindWait Kind = "wait"
	KindBad  Kind = "bad"
	KindHeld Kind = "held"
	// KindCount is a number, KindCode a text from outside the library, KindObject the key of an object.
	KindCount  Kind = "count"
	KindCode   Kind = "code"
	KindObject Kind = "object"
)

// None is the text of a value that is not there.
const None = "-"

// Code returns a text from outside the library, or [None] if it is empty.
func Code(s string) Value {
	if s == "" {
		return Value{Text: None}
	}
	return Value{Text: Plain(s), Kind: KindCode}
}

// Object returns the key of an object.
func Object(key string) Value { return Value{Text: Name(key), Kind: KindObject, Key: key} }

// Count returns a number.
func Count[N int | uint64](n N) Value { return Value{Text: fmt.Sprint(n), Kind: KindCount} }

// Alarm returns a number that is of a kind unless it is zero.
func Alarm(n int, kind Kind) Value {
	v := Count(n)
	if n > 0 {
		v.Kind = kind
	}
	return v
}

// Time returns a time with its distance from now, or [None] for the zero time.
func Time(t, now time.Time) Value {
	if t.IsZero() {
		return Value{Text: None}
	}
	return Value{Text: When(t, now)}
}

// StateKind returns the kind of the name of a state of an object, as of inspect.State; empty for others.
func StateKind(state string) Kind {
	switch state {
	case "done", "requeue":
		return KindGood
	case "in flight", "ready":
		return KindWork
	case "retry", "terminal", "stuck", "tripped":
		return KindBad
	case "unseen", "queued", "held", "blocked":
		return KindWait
	case "paused":
		return KindHeld
	}
	return ""
}
