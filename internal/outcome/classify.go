// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

import (
	"errors"
	"fmt"

	"github.com/statekeel/statekeel/internal/core"
)

// ErrDeleting has the text for the status of an object whose deletion is not finished.
var ErrDeleting = errors.New("still deleting")

// Result is the outcome of an operation.
type Result struct {
	// Kind is Done, Failed, FailedForGood, BlockedOn, DoneAgain or Deleting.
	Kind core.Kind
	// Directive is the directive in the error; nil if there is none.
	Directive *Directive
	// GivenUp reports whether Kind is FailedForGood because the operation has failed too often.
	GivenUp bool
}

// Classify returns the outcome of an operation that returned err. deletion reports whether the
// operation removes its object from the target. tries is the number of earlier attempts that failed
// since the object changed. An update that fails is given up if tries is at least maxRetries; a
// maxRetries of 0 means never. A deletion is never given up and never fails for good, whatever its
// error: no change would ever run it again.
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

// Text returns the text for the status. Call it only for outcomes other than Done and DoneAgain.
func (r Result) Text(err error, tries int) string {
	switch {
	case r.Kind == core.Deleting:
		return ErrDeleting.Error()
	case r.GivenUp:
		return fmt.Sprintf("given up after %d retries: %s", tries, TextOf(err))
	}
	return TextOf(err)
}
