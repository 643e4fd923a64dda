// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"time"

	"github.com/statekeel/statekeel/internal/core"
)

// directive is an error by which an operation says what comes next.
type directive struct {
	kind  core.Kind
	delay time.Duration
	watch []<-chan struct{}
	err   error
}

func (d *directive) Error() string { return d.err.Error() }
func (d *directive) Unwrap() error { return d.err }

// RetryAfter makes an operation's failure err be retried after d in place of the
// exponential backoff, as for a server's Retry-After. With a d of zero or below the
// backoff applies. It returns nil if err is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &directive{kind: core.Failed, delay: d, err: err}
}

// TerminalError makes an operation's failure err final: it is not retried until the
// object changes or its status is set to Pending or Refreshing. It returns nil if err
// is nil.
func TerminalError(err error) error {
	if err == nil {
		return nil
	}
	return &directive{kind: core.FailedForGood, err: err}
}

// Requeue says that an operation is done and is to be run again after d. The status is
// Done meanwhile, and is not written again while it stays so. A d of zero or below
// means at once, behind what is due. A refresh that is due meanwhile comes in between.
func Requeue(d time.Duration) error {
	return &directive{
		kind: core.DoneAgain, delay: max(d, 0), err: fmt.Errorf("requeued after %s", d),
	}
}

// Blocked says that an operation cannot be done before something else happens, which
// closes one of the watch channels. The status is Blocked with the reason; it is no
// failure, and there is no clock: the operation is run again at once when a channel
// closes. For no wake-up to be lost, take the channels from look-ups in the
// transaction that the operation was given. Without a channel the object waits until
// it changes.
func Blocked(reason string, watch ...<-chan struct{}) error {
	return &directive{kind: core.BlockedOn, watch: watch, err: errors.New(reason)}
}

// wraps is what an error that may hide a directive looks like. Asking for it first
// spares the search through every plain error of a failing target.
func wraps(err error) bool {
	switch err.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return true
	}
	return false
}

// directiveOf returns the directive in err, or nil if it is an ordinary failure.
func directiveOf(err error) *directive {
	if !wraps(err) {
		return nil
	}
	var d *directive
	if !errors.As(err, &d) || d.kind == core.DoneAgain && !alone(err) {
		return nil
	}
	return d
}

// alone reports whether an error is a directive with nothing joined to it: what failed is
// not done, though something else of it is.
func alone(err error) bool {
	for err != nil {
		if _, ok := err.(*directive); ok {
			return true
		}
		err = errors.Unwrap(err)
	}
	return false
}
