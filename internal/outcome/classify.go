// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

import (
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/internal/core"
)

// ErrDeleting is what the status says of a deletion that goes on.
var ErrDeleting = errors.New("still deleting")

// Result is what the error of an operation means.
type Result struct {
	// Kind is Done, Failed, FailedForGood, BlockedOn, DoneAgain or Deleting.
	Kind core.Kind
	// Directive is what the error said comes next; nil if it said nothing.
	Directive *Directive
	// GivenUp: FailedForGood only for having failed too often.
	GivenUp bool
}

// Classify returns what the error of an operation means. deletion: it removes its object from the
// target. An operation that failed tries times before, since its object changed, is given up if
// that is maxRetries or more, unless maxRetries is 0. A deletion is never given up and never failed
// for good, whatever its error says: no change would ever run it again.
func Classify(err error, deletion bool, tries, maxRetries int) Result {
	if err == nil {
		return Result{Kind: core.Done}
	}
	r := Result{Kind: core.Failed, Directive: Of(err)}
	if r.Directive != nil {
		r.Kind = r.Directive.Kind
	}
	switch {
	case r.Kind == core.DoneAgain && deletion:
		r.Kind = core.Deleting
	case r.Kind == core.FailedForGood && deletion:
		r.Kind = core.Failed
	case r.Kind == core.Failed && maxRetries > 0 && !deletion && tries >= maxRetries:
		r.Kind, r.GivenUp = core.FailedForGood, true
	}
	return r
}

// Text returns what the status says, for the kinds that have a text.
func (r Result) Text(err error, tries int) string {
	switch {
	case r.Kind == core.Deleting:
		return ErrDeleting.Error()
	case r.GivenUp:
		return fmt.Sprintf("given up after %d retries: %s", tries, TextOf(err))
	}
	return TextOf(err)
}
