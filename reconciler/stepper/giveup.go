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

// maxErrors bounds the errors that giveUpIn visits in one error. An error may wrap itself, or wrap
// errors that share what they wrap.
const maxErrors = 1000

// giveUpIn reports whether an error is or wraps a give-up. It returns the error that is its reason,
// or nil if the give-up has none.
func giveUpIn(err error) (gaveUp bool, reason error) {
	todo := []error{err}
	for looked := 0; len(todo) > 0 && looked < maxErrors; looked++ {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if why, ok := at.(*giveUp); ok {
			return true, why.reason
		}
		is, ok := at.(interface{ Is(error) bool })
		gaveUp = gaveUp || at == ErrGiveUpReconciliation || ok && is.Is(ErrGiveUpReconciliation)
		switch at := at.(type) {
		case interface{ Unwrap() error }:
			todo = append(todo, at.Unwrap())
		case interface{ Unwrap() []error }:
			todo = append(todo, at.Unwrap()...)
		}
	}
	if gaveUp && err != ErrGiveUpReconciliation {
		reason = err
	}
	return gaveUp, reason
}
