// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/stepper"
)

// endless wraps itself.
type endless struct{ looks *int }

func (endless) Error() string { return "endless" }
func (e endless) Unwrap() error {
	if *e.looks++; *e.looks > 100_000 {
		panic("the search does not end")
	}
	return e
}

// level wraps one error twice, so that there are two ways for each level below.
type level struct {
	inner error
	looks *int
}

func (level) Error() string { return "level" }
func (l level) Unwrap() []error {
	if *l.looks++; *l.looks > 100_000 {
		panic("the search does not end")
	}
	return []error{l.inner, l.inner}
}

func TestTheSearchForAGiveupIsBounded(t *testing.T) {
	looks := 0
	levels := errors.New("plain")
	for range 1000 {
		levels = level{levels, &looks}
	}
	for name, err := range map[string]error{"wraps itself": endless{&looks}, "1,000 levels": levels} {
		t.Run(name, func(t *testing.T) {
			looks = 0
			var r stepper.Results
			require.Equal(t, err, r.AddOp("disk", "created", err, time.Second))
			giveup, first := r.ConsolidatedError()
			require.False(t, giveup)
			require.Equal(t, err, first)
			require.Error(t, r.Outcome())
		})
	}
}
