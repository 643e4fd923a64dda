// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/core"
)

// Directive is an error that says what comes next.
//
// An operation's error is searched for directives through everything that it wraps. A directive hides
// the directives that it wraps. Of directives that are joined, by [errors.Join] or by several %w of
// [fmt.Errorf], the one of the highest rank counts. The text of the status is always the text of the
// whole error. The search ends after 1,000 errors: the rest counts as ordinary failures.
type Directive struct {
	// Kind is Failed, FailedForGood, BlockedOn or DoneAgain. Delay is the time until the next run.
	// Watch has the channels of a blocked operation.
	Kind  core.Kind
	Delay time.Duration
	// Backoff: the next run is after the backoff of the key, and Delay is not used.
	Backoff bool
	Watch   []<-chan struct{}
	// Err has the text. It is nil for [Requeue], whose text is seldom read.
	Err error
}

func (d *Directive) Error() string {
	if d.Err == nil {
		return fmt.Sprintf("requeued after %s", d.Delay)
	}
	return d.Err.Error()
}

func (d *Directive) Unwrap() error { return d.Err }

// RetryAfter returns a failure that is retried after d; with a d of zero or below, after the backoff.
// It returns nil if err is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &Directive{Kind: core.Failed, Delay: d, Err: err}
}

// TerminalError returns a failure that is not retried. It returns nil if err is nil.
func TerminalError(err error) error {
	if err == nil {
		return nil
	}
	return &Directive{Kind: core.FailedForGood, Err: err}
}

// Requeue returns the outcome of an operation that is done and is run again after d. A negative d
// counts as zero.
func Requeue(d time.Duration) error {
	return &Directive{Kind: core.DoneAgain, Delay: max(d, 0)}
}

// RequeueBackoff returns the outcome of an operation that is done and is run again after the backoff
// of its key.
func RequeueBackoff() error { return requeueBackoff }

var requeueBackoff error = &Directive{
	Kind: core.DoneAgain, Backoff: true, Err: errors.New("requeued with backoff"),
}

// Blocked returns the outcome of an operation that waits until one of the channels closes.
func Blocked(reason string, watch ...<-chan struct{}) error {
	return &Directive{Kind: core.BlockedOn, Watch: watch, Err: errors.New(reason)}
}

// IsBlocked reports whether err has the outcome of [Blocked].
func IsBlocked(err error) bool {
	d := Of(err)
	return d != nil && d.Kind == core.BlockedOn
}

// IsTerminal reports whether err has the outcome of [TerminalError].
func IsTerminal(err error) bool {
	d := Of(err)
	return d != nil && d.Kind == core.FailedForGood
}

// The ranks of outcomes that may be joined, from the lowest. Any failure is above a requeue, since
// what failed is not done. A directive is above an ordinary error. RetryAfter and Blocked are above
// TerminalError, since another run may do a part of the work.
const (
	rankRequeue = iota
	rankOrdinary
	rankTerminal
	rankBlocked
	rankRetryAfter
)

func (d *Directive) rank() int {
	switch {
	case d == ordinary:
		return rankOrdinary
	case d.Kind == core.DoneAgain:
		return rankRequeue
	case d.Kind == core.FailedForGood:
		return rankTerminal
	case d.Kind == core.BlockedOn:
		return rankBlocked
	}
	return rankRetryAfter
}

// ordinary stands for an error without a directive.
var ordinary = &Directive{Kind: core.Failed}

// Of returns the directive that counts in an error; nil for an ordinary failure.
func Of(err error) *Directive {
	if c, is := err.(*Cut); is {
		return c.next
	}
	// This saves the search for plain errors, which are most errors of a failing target.
	if !wraps(err) {
		return nil
	}
	nodes := maxNodes
	if d := search(err, &nodes); d != ordinary {
		return d
	}
	return nil
}

// wraps reports whether an error may contain a Directive. A Directive itself has an Unwrap method.
func wraps(err error) bool {
	switch err.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return true
	}
	return false
}

// maxNodes bounds the errors that one search visits. An error is visited once for each way to it: an
// error may wrap itself, or several errors may share what they wrap.
const maxNodes = 1000

// search returns the outcome of an error and of what it wraps: a directive or ordinary. nodes is the
// number of errors that it may still visit; the others count as ordinary.
func search(err error, nodes *int) *Directive {
	if *nodes == 0 {
		return ordinary
	}
	*nodes--
	if d, ok := err.(*Directive); ok {
		return d
	}
	var found *Directive
	for _, inner := range unwrapped(err) {
		if inner == nil {
			continue
		}
		if d := search(inner, nodes); found == nil {
			found = d
		} else {
			found = joined(found, d)
		}
	}
	if found == nil {
		return ordinary
	}
	return found
}

// unwrapped returns what an error wraps. It returns nothing if the Unwrap method panics, as that of a
// nil pointer in an error does.
func unwrapped(err error) (inner []error) {
	defer func() {
		if recover() != nil {
			inner = nil
		}
	}()
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return []error{err.Unwrap()}
	case interface{ Unwrap() []error }:
		return err.Unwrap()
	}
	return nil
}

// joined returns the outcome of an error that joins a and b.
func joined(a, b *Directive) *Directive {
	if a.rank() != b.rank() {
		if a.rank() > b.rank() {
			return a
		}
		return b
	}
	switch a.rank() {
	case rankRetryAfter:
		return &Directive{Kind: a.Kind, Delay: max(a.Delay, b.Delay), Err: a.Err}
	case rankBlocked:
		return &Directive{Kind: a.Kind, Watch: slices.Concat(a.Watch, b.Watch), Err: a.Err}
	case rankRequeue:
		if a.Backoff {
			return b
		}
		if b.Backoff {
			return a
		}
		return &Directive{Kind: a.Kind, Delay: min(a.Delay, b.Delay)}
	}
	return a
}
