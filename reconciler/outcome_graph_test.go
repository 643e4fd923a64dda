// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// circular is an error that wraps itself.
type circular struct{}

func (circular) Error() string   { return "circular" }
func (c circular) Unwrap() error { return c }

// levels wraps the error below twice; its text does not grow with the depth.
type levels struct {
	below error
}

func (levels) Error() string { return "levels" }
func (l levels) Unwrap() []error {
	return []error{l.below, l.below}
}

func levelsAbove(bottom error, n int) error {
	for range n {
		bottom = levels{bottom}
	}
	return bottom
}

// An error that wraps itself, or has too many paths for a search, fails like any other error.
func TestSearchOfAnErrorEnds(t *testing.T) {
	for name, err := range map[string]error{
		"wraps itself":           circular{},
		"wraps itself, joined":   errors.Join(errPlain, circular{}),
		"shared by 28 levels":    levelsAbove(errPlain, 28),
		"shared by 1,000 levels": levelsAbove(errPlain, 1000),
		"shared, requeue":        levelsAbove(reconciler.Requeue(time.Hour), 1000),
	} {
		t.Run(name, func(t *testing.T) {
			require.False(t, reconciler.IsBlocked(err))
			returning(t, err, func(e *env) {
				e.put(1, 1)
				e.pass(150 * time.Millisecond)
				require.Len(e, e.target.take(), 2, "with the backoff of any failure")
				require.Equal(e, reconciler.StatusKindError, e.kind(1))
			})
		})
	}
}
