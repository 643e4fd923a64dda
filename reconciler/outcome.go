// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"time"

	"github.com/statekeel/statekeel/internal/outcome"
)

// MaxErrorText is how many bytes of the text of an error, or of the reason of [Blocked], are
// kept. What is longer is cut, and ends in how many bytes were left out. It is cut where an
// operation returns, so that a text of any length is held by the reconciler for one operation
// only, or for the call of a batch.
const MaxErrorText = outcome.MaxText

// MaxErrorClass is how many bytes of a class count that [Config].ErrorClass returns.
const MaxErrorClass = outcome.MaxClass

// RetryAfter makes an operation's failure err be retried after d in place of the
// exponential backoff, as for a server's Retry-After. With a d of zero or below the
// backoff applies. It returns nil if err is nil.
//
// As every outcome it may be wrapped or joined with other errors, by [fmt.Errorf] and
// [errors.Join]. Joined with other outcomes it counts before all of them, since trying
// again may do a part of the work; of several, the longest d counts.
func RetryAfter(err error, d time.Duration) error { return outcome.RetryAfter(err, d) }

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
func TerminalError(err error) error { return outcome.TerminalError(err) }

// Requeue says that an operation is done and is to be run again after d. The status is
// Done meanwhile, and is not written again while it stays so. A d of zero or below
// means at once, behind what is due. A refresh that is due meanwhile comes in between.
//
// Of a deletion it says that the object is still being deleted: the deletion is unreconciled until
// its operation returns nil, so that waits for it go on; it is no failure. A deletion has no
// status; a row that stays until its deletion is done is Blocked, "still deleting", meanwhile.
//
// Joined with any other error it does not count: what failed is not done. Of several,
// the shortest d counts.
func Requeue(d time.Duration) error { return outcome.Requeue(d) }

// RequeueBackoff says that an operation is done and is to be run again with exponential
// backoff: it is [Requeue] for those who do not know when there will be something to do. The
// wait is that of [WithRetry] and [Settings].Jitter, and doubles with every time in a row that the
// object's operation says this, also when the object has changed in between; any other
// outcome starts it anew, and so does the object's deletion. It is no failure: nothing
// counts for [Settings].MaxRetries or a breaker, and health stays well.
//
// Joined with [Requeue], that counts, which says when; else it is as Requeue.
func RequeueBackoff() error { return outcome.RequeueBackoff() }

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
func Blocked(reason string, watch ...<-chan struct{}) error { return outcome.Blocked(reason, watch...) }

// IsBlocked reports whether an operation that returns err waits for what [Blocked] names: err is
// such an outcome, or wraps or joins one that counts before the others. It is for those who show
// what an operation came to.
func IsBlocked(err error) bool { return outcome.IsBlocked(err) }

// IsTerminal reports whether an operation that returns err failed for good: err is what
// [TerminalError] returns, or wraps or joins it, and nothing in it counts before that.
func IsTerminal(err error) bool { return outcome.IsTerminal(err) }
