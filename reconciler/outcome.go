// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"time"

	"github.com/statekeel/statekeel/internal/outcome"
)

// MaxErrorText is the number of bytes (16 KiB) that are kept of the text of an error or of the reason
// of [Blocked]. A longer text is cut, and ends with the number of bytes left out. It is cut when the
// operation returns, or for a batch when the call returns.
const MaxErrorText = outcome.MaxText

// MaxErrorClass is the number of bytes (1 KiB) that count of a class that [Config].ErrorClass
// returns.
const MaxErrorClass = outcome.MaxClass

// RetryAfter returns an error that makes the reconciler retry the failure err after d, instead of
// after the exponential backoff. Use it for the Retry-After header of a server, for example. A d of
// zero or below means the backoff. It returns nil if err is nil.
//
// Like every outcome it may be wrapped by [fmt.Errorf] or joined with other errors by [errors.Join].
// It takes precedence over all other outcomes joined with it, because a retry may do a part of the
// work. If several are joined, the longest d counts.
func RetryAfter(err error, d time.Duration) error { return outcome.RetryAfter(err, d) }

// TerminalError returns an error that makes the failure err final: the operation is not retried until
// the object changes, the program or a trigger sets its status to Pending or Refreshing or hands it
// to [Loop.Reapply], [Loop.Retry] is called for it, or a reconciler starts again. A periodic refresh and [Loop.Refresh] skip the
// object, because it is not Done. It returns nil if err is nil.
//
// The failure of a deletion is never final: there is no row whose change could bring the deletion
// back. It is retried with backoff.
//
// Joined with an ordinary error, TerminalError takes precedence. [RetryAfter] and [Blocked] take
// precedence over it: join [RetryAfter](err, 0) if a part of the work should be retried.
func TerminalError(err error) error { return outcome.TerminalError(err) }

// Requeue returns an error that means that the operation is done, and should run again after d. The
// status is Done meanwhile, and is not written again while it stays Done. A d of zero or below means
// at once, after the work that is already due. A refresh that is due meanwhile runs in between.
//
// For a deletion it means that the object is still being deleted. The deletion stays unreconciled
// until its operation returns nil, so waits for it go on; this is no failure. A deletion has no
// status. A row that an adapter keeps until its deletion is done is Blocked, "still deleting",
// meanwhile.
//
// Every other error joined with it takes precedence. If several are joined, the shortest d counts.
func Requeue(d time.Duration) error { return outcome.Requeue(d) }

// RequeueBackoff returns an error that means that the operation is done, and should run again with
// exponential backoff. It is [Requeue] for operations that do not know when there is work again.
//
// The delay is that of [WithRetry] and [Settings].Jitter. It doubles each time in a row that the
// operation on the object returns RequeueBackoff, also if the object changed in between. Any other
// outcome, or the deletion of the object, resets it. This is no failure: it does not count for
// [Settings].MaxRetries or a breaker, and health stays OK.
//
// A [Requeue] joined with it takes precedence. Otherwise it is as Requeue.
func RequeueBackoff() error { return outcome.RequeueBackoff() }

// Blocked returns an error that means that the operation cannot be done before something else
// happens, which closes one of the watch channels. The status is Blocked, with the reason. This is no
// failure. The operation runs again at once when a channel closes, and also after
// [Settings].BlockedRecheck unless that is zero.
//
// Take the channels from look-ups in the transaction that the operation was given: then no wake-up is
// lost. Without a channel the object waits for the recheck, or until it changes; nil channels do not
// count.
//
// If several are joined, the object waits until any channel of any of them closes. Blocked takes
// precedence over all other errors but [RetryAfter].
func Blocked(reason string, watch ...<-chan struct{}) error { return outcome.Blocked(reason, watch...) }

// IsBlocked reports whether the reconciler treats err as [Blocked]: err is such an outcome, or wraps
// or joins one, and no other outcome in it takes precedence.
func IsBlocked(err error) bool { return outcome.IsBlocked(err) }

// IsTerminal reports whether the reconciler treats err as [TerminalError]: err is such an outcome, or
// wraps or joins one, and no other outcome in it takes precedence.
func IsTerminal(err error) bool { return outcome.IsTerminal(err) }
