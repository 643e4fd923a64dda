// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

import (
	"fmt"

	"github.com/statekeel/statekeel/internal/text"
)

// MaxText is how many bytes of the text of an error are kept.
const MaxText = 16 << 10

// TextOf returns the text of an error, also of one whose Error method panics, as that of
// a nil pointer in an error does.
func TextOf(err error) (said string) {
	defer func() {
		if r := recover(); r != nil {
			said = fmt.Sprintf("panic in the Error method of %T: %v", err, r)
		}
	}()
	return err.Error()
}

// TextOfAny returns the text of what a panic was called with, whose methods may panic as well.
func TextOfAny(v any) string { return TextOf(fmt.Errorf("%v", v)) }

// Cut stands for an error whose text was too long to be kept. It has the outcome of that error,
// and its class.
type Cut struct {
	text, Class string
	// next is nil if the error was an ordinary failure.
	next *Directive
}

func (c *Cut) Error() string { return c.text }

// Keep returns what is kept of an error that an operation returned: the error itself, unless
// its text is too long; nil of nil. class returns the class of an error.
func Keep(err error, class func(error) string) error {
	if err == nil {
		return nil
	}
	if d, is := err.(*Directive); is && d.Err == nil {
		// The text is seldom read.
		return err
	}
	whole := TextOf(err)
	if len(whole) <= MaxText {
		return err
	}
	c := &Cut{text: text.Cut(whole, MaxText), Class: class(err)}
	if d := Of(err); d != nil {
		next := *d
		next.Err = c
		c.next = &next
	}
	return c
}
