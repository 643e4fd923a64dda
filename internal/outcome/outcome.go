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
	// Watch has the channels of a blocked operation, Needs what else it waits for.
	Kind  core.Kind
	Delay time.Duration
	// Backoff: the next run is after the backoff of the key, and Delay is not used.
	Backoff bool
	Watch   []<-chan struct{}
	Needs   []core.Need
	// looked: the operation is blocked because of a look-up. The texts of several that are joined are one line.
	looked bool
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

// With returns the same outcome with another error as its text; err itself if d is nil.
func (d *Directive) With(err error) error {
	if d == nil {
		return err
	}
	other := *d
	other.Err = err
	return &other
}

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

// Missing returns the outcome of an operation that has looked up what it needs: it waits for needs, or until one of
// the channels closes.
func Missing(reason error, needs []core.Need, watch ...<-chan struct{}) error {
	return &Directive{Kind: core.BlockedOn, Watch: watch, Needs: needs, Err: reason, looked: true}
}

// Is reports whether err has the outcome of a directive of a kind.
func Is(err error, kind core.Kind) bool {
	d := Of(err)
	return d != nil && d.Kind == kind
}

// rank orders outcomes that may be joined: the highest counts. Any failure is above a requeue, since what failed
// is not done. A directive is above an ordinary error, which is nil. RetryAfter and Blocked are above
// TerminalError, since another run may do a part of the work.
func rank(d *Directive) int {
	if d == nil {
		return 1
	}
	return [...]int{core.DoneAgain: 0, core.FailedForGood: 2, core.BlockedOn: 3, core.Failed: 4}[d.Kind]
}

// Of returns the directive that counts in an error; nil for an ordinary failure.
func Of(err error) (counts *Directive) {
	if c, is := err.(*Cut); is {
		return c.next
	}
	nodes := maxNodes
	// Most errors have one outcome, which needs no memory on the heap.
	var few [4]*Directive
	found := outermost(few[:0], err, &nodes)
	counts = found[0]
	for _, d := range found[1:] {
		counts = joined(counts, d)
	}
	return counts
}

// maxNodes bounds the errors that one search visits. An error is visited once for each way to it: an
// error may wrap itself, or several errors may share what they wrap.
const maxNodes = 1000

// outermost appends the outcomes of an error and of what it wraps, at least one: directives, and nil for what is an
// ordinary failure. nodes is the number of errors that it may still visit; the others count as ordinary.
func outermost(found []*Directive, err error, nodes *int) []*Directive {
	if *nodes == 0 {
		return append(found, nil)
	}
	*nodes--
	if d, is := err.(*Directive); is {
		return append(found, d)
	}
	n := len(found)
	for _, inner := range Unwrapped(err) {
		if inner != nil {
			found = outermost(found, inner, nodes)
		}
	}
	if len(found) == n {
		found = append(found, nil)
	}
	return found
}

// Unwrapped returns what an error wraps. It returns nothing if the Unwrap method panics, as that of a
// nil pointer in an error does.
func Unwrapped(err error) (inner []error) {
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
	switch ra, rb := rank(a), rank(b); {
	case ra > rb, a == nil && b == nil:
		return a
	case ra < rb, a.Backoff:
		return b
	case b.Backoff:
		return a
	}
	both := *a
	switch a.Kind {
	case core.Failed:
		both.Delay = max(a.Delay, b.Delay)
	case core.BlockedOn:
		both.Watch, both.Needs = slices.Concat(a.Watch, b.Watch), slices.Concat(a.Needs, b.Needs)
	case core.DoneAgain:
		both.Delay = min(a.Delay, b.Delay)
	}
	return &both
}
