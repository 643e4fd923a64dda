// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import "errors"

// ErrGiveUpReconciliation matches, with [errors.Is], every error that [Results.AddGiveupError]
// returns. An error that matches it gives up too if it is added with [Results.AddOp].
var ErrGiveUpReconciliation = errors.New("the reconciliation was given up")

// giveUp is a give-up with a reason.
type giveUp struct{ reason error }

func (g *giveUp) Error() string   { return "given up: " + g.reason.Error() }
func (g *giveUp) Unwrap() []error { return []error{ErrGiveUpReconciliation, g.reason} }

// giveUpIn reports whether an error is or wraps a give-up. It returns the error that is its reason,
// or nil if the give-up has none.
func giveUpIn(err error) (gaveUp bool, reason error) {
	if with := (*giveUp)(nil); errors.As(err, &with) {
		return true, with.reason
	}
	if gaveUp = errors.Is(err, ErrGiveUpReconciliation); gaveUp && err != ErrGiveUpReconciliation {
		reason = err
	}
	return gaveUp, reason
}
