// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package edge marks the steps of an operation at which it changes the target, so that reconcilertest.Check can let each
// of them fail, come late, or be the last one before the program is killed.
package edge

import (
	"context"

	"github.com/statekeel/statekeel/internal/edgehook"
)

// Do calls f, one step of an operation, and returns its error. In a program it does nothing else. In a run of
// reconcilertest.Check it may return another error, call f later, not at all, or never return to an operation that
// ignores its context, as a target may.
//
// ctx is the context of the operation. step names the step in reports, such as "map update"; the name of a step that an
// operation repeats has what it changes in it. An error of f means that the step was not carried out. A late f runs after its
// operation has returned, so what it uses must still be there. Call Do with no lock held for which another operation, or
// the program after a restart, waits: a step at which the program is killed does not return before the run ends.
//
// Do is safe from any goroutine.
func Do(ctx context.Context, step string, f func() error) error {
	if hook := edgehook.From(ctx); hook != nil {
		return hook.Step(ctx, step, f)
	}
	return f()
}
