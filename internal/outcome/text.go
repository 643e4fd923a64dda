// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

import (
	"fmt"

	"github.com/statekeel/statekeel/internal/text"
)

// MaxText bounds the bytes of an error's text that are kept.
const MaxText = 16 << 10

// TextOf returns the text of an error. If the Error method panics, as that of a nil pointer in an
// error does, it returns a text about the panic.
func TextOf(err error) (said string) {
	defer func() {
		if r := recover(); r != nil {
			said = fmt.Sprintf("panic in the Error method of %T: %s", err, TextOfAny(r))
		}
	}()
	return err.Error()
}

// TextOfAny returns the text of the value of a panic, whose methods may panic as well. Package fmt panics itself if
// they do so with such a value again.
func TextOfAny(v any) (said string) {
	defer func() {
		if recover() != nil {
			said = fmt.Sprintf("a %T, whose text panics", v)
		}
	}()
	return fmt.Sprint(v)
}

// Cut replaces an error whose text was too long to keep. It has the outcome of that error.
type Cut struct {
	text string
	// next is the directive of the error; nil if it was an ordinary failure.
	next *Directive
}

func (c *Cut) Error() string { return c.text }

// Keep returns the error to keep for an error that an operation returned: the error itself, or a
// [Cut] if its text is longer than [MaxText]; nil for nil.
func Keep(err error) error {
	if err == nil {
		return nil
	}
	if d, is := err.(*Directive); is && d.Err == nil {
		// This spares the text of a requeue, which is seldom read.
		return err
	}
	whole := TextOf(err)
	if len(whole) <= MaxText {
		return err
	}
	c := &Cut{text: text.Cut(whole, MaxText)}
	if d := Of(err); d != nil {
		next := *d
		next.Err = c
		c.next = &next
	}
	return c
}
