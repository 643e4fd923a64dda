// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"fmt"

	"github.com/statekeel/statekeel/internal/text"
)

// MaxErrorText is how many bytes of the text of an error, or of the reason of [Blocked], are
// kept. What is longer is cut, and ends in how many bytes were left out. It is cut where an
// operation returns, so that a text of any length is held by the reconciler for one operation
// only, or for the call of a batch.
const MaxErrorText = 16 << 10

// textOf returns the text of an error, also of one whose Error method panics, as that of
// a nil pointer in an error does.
func textOf(err error) (said string) {
	defer func() {
		if r := recover(); r != nil {
			said = fmt.Sprintf("panic in the Error method of %T: %v", err, r)
		}
	}()
	return err.Error()
}

// textOfAny returns the text of what a panic was called with, whose methods may panic as well.
func textOfAny(v any) string { return textOf(fmt.Errorf("%v", v)) }

// cutError is an error whose text was too long to be kept: it says what the error said comes
// next, and is of its class.
type cutError struct {
	text, class string
	// next is nil if the error was an ordinary failure.
	next *directive
}

func (c *cutError) Error() string { return c.text }

// kept returns what is kept of an error that an operation returned: the error itself, unless
// its text is too long. class returns the class of an error.
func kept(err error, class func(error) string) error {
	if err == nil || err == errGoexit {
		return err
	}
	if d, is := err.(*directive); is && d.err == nil {
		// The text is seldom read.
		return err
	}
	whole := textOf(err)
	if len(whole) <= MaxErrorText {
		return err
	}
	c := &cutError{text: text.Cut(whole, MaxErrorText), class: class(err)}
	if d := directiveOf(err); d != nil {
		next := *d
		next.err = c
		c.next = &next
	}
	return c
}
