// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/statekeel/statekeel/internal/core"
)

// ErrDeleting has the text for the status of an object whose deletion is not finished.
var ErrDeleting = errors.New("still deleting")

// Classify sets the kind of the outcome of an operation that returned err, what the error says about the next
// run, and whether the operation is given up. deletion reports whether the operation removes its object from
// the target. tries is the number of earlier attempts that failed since the object changed. An update that
// fails is given up if tries is at least maxRetries; a maxRetries of 0 means never. A deletion is never given
// up and never fails for good, whatever its error: no change would ever run it again.
func Classify[Obj any](out *core.Outcome[Obj], err error, deletion bool, tries, maxRetries int) {
	out.Kind, out.Delay, out.Backoff, out.GivenUp, out.Final = core.Done, 0, false, false, false
	if err == nil {
		return
	}
	out.Kind = core.Failed
	if d := Of(err); d != nil {
		out.Kind, out.Delay, out.Backoff = d.Kind, d.Delay, d.Backoff
	}
	switch {
	case out.Kind == core.DoneAgain && deletion:
		out.Kind = core.Deleting
	case out.Kind == core.FailedForGood && deletion:
		out.Kind, out.Final = core.Failed, true
	case out.Kind == core.Failed && maxRetries > 0 && !deletion && tries >= maxRetries:
		out.Kind, out.GivenUp = core.FailedForGood, true
	}
}

// Text returns the text for the status. Call it only for outcomes other than Done and DoneAgain.
func Text[Obj any](out *core.Outcome[Obj], err error, tries int) string {
	switch {
	case out.Kind == core.Deleting:
		return ErrDeleting.Error()
	case out.GivenUp:
		return fmt.Sprintf("given up after %d retries: %s", tries, TextOf(err))
	case out.Kind == core.BlockedOn:
		return reasonOf(err)
	}
	return TextOf(err)
}

// reasonOf returns the text of a blocked operation: one line for several look-ups that were joined with [errors.Join].
func reasonOf(err error) string {
	text := TextOf(err)
	var reasons []string
	for _, one := range Unwrapped(err) {
		if d, is := one.(*Directive); !is || !d.looked {
			return text
		}
		reasons = append(reasons, TextOf(one))
	}
	if strings.Join(reasons, "\n") != text {
		return text
	}
	return strings.Join(slices.Compact(reasons), "; ")
}
