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

// Directive is an error by which an operation says what comes next.
//
// An operation's error is searched for directives, through everything that it wraps. One
// that wraps another takes its place. Of those that are joined, by [errors.Join] or by
// several %w of [fmt.Errorf], the one of the highest rank counts. The text of the status
// is that of the whole error all the same. What is beyond the first 1,000 errors of a search
// says nothing of what comes next.
type Directive struct {
	// Kind is Failed, FailedForGood, BlockedOn or DoneAgain; Delay is when to run again, and
	// Watch the channels that one who is blocked waits for.
	Kind  core.Kind
	Delay time.Duration
	// Backoff: Delay does not count, the backoff of the key does.
	Backoff bool
	Watch   []<-chan struct{}
	// Err has the text; nil for a requeue after Delay, whose text is seldom read.
	Err error
}

func (d *Directive) Error() string {
	if d.Err == nil {
		return fmt.Sprintf("requeued after %s", d.Delay)
	}
	return d.Err.Error()
}

func (d *Directive) Unwrap() error { return d.Err }

// RetryAfter returns a failure that is retried after d; nil if err is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &Directive{Kind: core.Failed, Delay: d, Err: err}
}

// TerminalError returns a failure that is final; nil if err is nil.
func TerminalError(err error) error {
	if err == nil {
		return nil
	}
	return &Directive{Kind: core.FailedForGood, Err: err}
}

// Requeue returns the outcome of an operation that is done and runs again after d; below zero counts as zero.
func Requeue(d time.Duration) error {
	return &Directive{Kind: core.DoneAgain, Delay: max(d, 0)}
}

// RequeueBackoff returns the outcome of an operation that is done and runs again after the backoff of its key.
func RequeueBackoff() error { return requeueBackoff }

var requeueBackoff error = &Directive{
	Kind: core.DoneAgain, Backoff: true, Err: errors.New("requeued with backoff"),
}

// Blocked returns the outcome of an operation that waits for a channel.
func Blocked(reason string, watch ...<-chan struct{}) error {
	return &Directive{Kind: core.BlockedOn, Watch: watch, Err: errors.New(reason)}
}

// IsBlocked reports whether the outcome of an error is that of [Blocked].
func IsBlocked(err error) bool {
	d := Of(err)
	return d != nil && d.Kind == core.BlockedOn
}

// IsTerminal reports whether the outcome of an error is that of [TerminalError].
func IsTerminal(err error) bool {
	d := Of(err)
	return d != nil && d.Kind == core.FailedForGood
}

// The ranks of what may be joined, from the lowest. What failed is not done, so that
// everything counts before a requeue; what says what comes next counts before what does
// not; and what may be done by trying again is tried again.
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

// ordinary stands for an error that says nothing of what comes next.
var ordinary = &Directive{Kind: core.Failed}

// Of returns what an error says comes next, or nil if it is an ordinary failure.
func Of(err error) *Directive {
	if c, is := err.(*Cut); is {
		return c.next
	}
	// Spares the search through every plain error of a failing target.
	if !wraps(err) {
		return nil
	}
	nodes := maxNodes
	if d := search(err, &nodes); d != ordinary {
		return d
	}
	return nil
}

// wraps is what an error that may hide a Directive looks like.
func wraps(err error) bool {
	switch err.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return true
	}
	return false
}

// maxNodes bounds the errors that are looked at in one, each as often as there are ways to it:
// an error may wrap itself, or others that share what they wrap.
const maxNodes = 1000

// search returns what an error and what it wraps come to, which is ordinary beyond so many nodes.
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

// unwrapped returns what an error wraps; nothing if its method panics, as that of a nil
// pointer in an error does.
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

// joined returns what comes next when an operation came back with two outcomes.
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
