// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/core"
)

// directive is an error by which an operation says what comes next.
//
// An operation's error is searched for directives, through everything that it wraps. One
// that wraps another takes its place. Of those that are joined, by [errors.Join] or by
// several %w of [fmt.Errorf], the one of the highest rank counts. The text of the status
// is that of the whole error all the same. What is beyond the first 1,000 errors of a search
// says nothing of what comes next.
type directive struct {
	kind  core.Kind
	delay time.Duration
	// backoff: the delay is the wait that the key has earned.
	backoff bool
	watch   []<-chan struct{}
	// err is nil of what is to be run again after the delay: its text is seldom read.
	err error
}

func (d *directive) Error() string {
	if d.err == nil {
		return fmt.Sprintf("requeued after %s", d.delay)
	}
	return d.err.Error()
}

func (d *directive) Unwrap() error { return d.err }

// RetryAfter makes an operation's failure err be retried after d in place of the
// exponential backoff, as for a server's Retry-After. With a d of zero or below the
// backoff applies. It returns nil if err is nil.
//
// As every outcome it may be wrapped or joined with other errors, by [fmt.Errorf] and
// [errors.Join]. Joined with other outcomes it counts before all of them, since trying
// again may do a part of the work; of several, the longest d counts.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &directive{kind: core.Failed, delay: d, err: err}
}

// TerminalError makes an operation's failure err final: it is not retried until the
// object changes or its status is set to Pending or Refreshing. It returns nil if err
// is nil.
//
// A deletion is never final: no row is left that could change, and nothing else would bring
// the deletion back. It is retried as after any failure.
//
// Joined with errors that say nothing of what comes next, such as one that tells the
// kind of the failure, it is final all the same: make it [RetryAfter](err, 0) if a part
// of the work is to be retried. [RetryAfter] and [Blocked] count before it.
func TerminalError(err error) error {
	if err == nil {
		return nil
	}
	return &directive{kind: core.FailedForGood, err: err}
}

// Requeue says that an operation is done and is to be run again after d. The status is
// Done meanwhile, and is not written again while it stays so. A d of zero or below
// means at once, behind what is due. A refresh that is due meanwhile comes in between.
//
// Of a deletion it says that the object is still being deleted: the deletion is owed until
// its operation returns nil, so that waits for it go on; it is no failure. A deletion has no
// status; a row that stays until its deletion is done is Blocked, "still deleting", meanwhile.
//
// Joined with any other error it does not count: what failed is not done. Of several,
// the shortest d counts.
func Requeue(d time.Duration) error {
	return &directive{kind: core.DoneAgain, delay: max(d, 0)}
}

// RequeueBackoff says that an operation is done and is to be run again with exponential
// backoff: it is [Requeue] for those who do not know when there will be something to do. The
// wait is that of [WithRetry] and [Settings].Jitter, and doubles with every time in a row that the
// object's operation says this, also when the object has changed in between; any other
// outcome starts it anew, and so does the object's deletion. It is no failure: nothing
// counts for [Settings].MaxRetries or a breaker, and health stays well.
//
// Joined with [Requeue], that counts, which says when; else it is as Requeue.
func RequeueBackoff() error { return requeueBackoff }

var requeueBackoff error = &directive{
	kind: core.DoneAgain, backoff: true, err: errors.New("requeued with backoff"),
}

// Blocked says that an operation cannot be done before something else happens, which
// closes one of the watch channels. The status is Blocked with the reason; it is no
// failure, and there is no clock but that of [Settings].BlockedRecheck: the operation is run
// again at once when a channel closes. For no wake-up to be lost, take the channels from
// look-ups in the transaction that the operation was given. Without a channel the object
// waits for the recheck or until it changes; nil channels do not count.
//
// Joined with others of its kind it waits until any channel of any of them closes. It
// counts before everything but [RetryAfter], also before an error that says nothing of
// what comes next.
func Blocked(reason string, watch ...<-chan struct{}) error {
	return &directive{kind: core.BlockedOn, watch: watch, err: errors.New(reason)}
}

// IsBlocked reports whether an operation that returns err waits for what [Blocked] names: err is
// such an outcome, or wraps or joins one that counts before the others. It is for those who show
// what an operation came to.
func IsBlocked(err error) bool {
	d := directiveOf(err)
	return d != nil && d.kind == core.BlockedOn
}

// IsTerminal reports whether an operation that returns err failed for good: err is what
// [TerminalError] returns, or wraps or joins it, and nothing in it counts before that.
func IsTerminal(err error) bool {
	d := directiveOf(err)
	return d != nil && d.kind == core.FailedForGood
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

func (d *directive) rank() int {
	switch {
	case d == ordinary:
		return rankOrdinary
	case d.kind == core.DoneAgain:
		return rankRequeue
	case d.kind == core.FailedForGood:
		return rankTerminal
	case d.kind == core.BlockedOn:
		return rankBlocked
	}
	return rankRetryAfter
}

// errDeleting is what the status says of a deletion that goes on.
var errDeleting = errors.New("still deleting")

// ordinary stands for an error that says nothing of what comes next.
var ordinary = &directive{kind: core.Failed}

// directiveOf returns what an error says comes next, or nil if it is an ordinary failure.
func directiveOf(err error) *directive {
	if c, is := err.(*cutError); is {
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

// wraps is what an error that may hide a directive looks like.
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
func search(err error, nodes *int) *directive {
	if *nodes == 0 {
		return ordinary
	}
	*nodes--
	if d, ok := err.(*directive); ok {
		return d
	}
	var found *directive
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
func joined(a, b *directive) *directive {
	if a.rank() != b.rank() {
		if a.rank() > b.rank() {
			return a
		}
		return b
	}
	switch a.rank() {
	case rankRetryAfter:
		return &directive{kind: a.kind, delay: max(a.delay, b.delay), err: a.err}
	case rankBlocked:
		return &directive{kind: a.kind, watch: slices.Concat(a.watch, b.watch), err: a.err}
	case rankRequeue:
		if a.backoff {
			return b
		}
		if b.backoff {
			return a
		}
		return &directive{kind: a.kind, delay: min(a.delay, b.delay)}
	}
	return a
}
