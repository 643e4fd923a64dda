// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/stepper"
)

// A give-up with an error waits for a change.
func TestAGiveupWithAnErrorWaitsForAChange(t *testing.T) {
	inBubble(t, refusing(errors.New("no such disk")), func(e *env) {
		e.Insert(pending(1, 1))
		e.Pass(time.Hour)
		require.Equal(e, []string{"update terminal: CRChecker > ErrorManager > GiveupManager > End"}, e.events(1))
		_, text := e.status(1)
		require.Equal(e, "given up: no such disk", text)
		require.Equal(e, 1, e.snapshot().Failing)
		e.Insert(pending(1, 2))
		synctest.Wait()
		kind, _ := e.status(1)
		require.Equal(e, reconciler.StatusKindDone, kind)
	})
}

// A give-up without an error waits for a change or the next recheck.
func TestAGiveupWithoutAnErrorIsNoFailure(t *testing.T) {
	withWorkers(t, func() stepper.Engine[*row] { return refusing(nil) }, func(e *env) {
		e.Insert(pending(1, 1))
		e.Pass(time.Second)
		kind, text := e.status(1)
		require.Equal(e, reconciler.StatusKindBlocked, kind)
		require.Equal(e, "given up: checked disk", text)
		require.Zero(e, e.snapshot().Failing)
		require.Equal(e, []string{"update blocked: CRChecker > GiveupManager > End"}, e.events(1))
		e.Pass(time.Hour)
		require.Len(e, e.events(1), 2, "rechecked after an hour")
		e.Insert(pending(1, 2))
		synctest.Wait()
		kind, _ = e.status(1)
		require.Equal(e, reconciler.StatusKindDone, kind)
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = time.Hour }))
}

// refusing returns an engine that gives up rows of value 1.
func refusing(reason error) stepper.Engine[*row] {
	return stepper.NewStepper(in(stepper.CRChecker, func(e *stepper.Stepper[*row]) {
		if e.Object().Value == 1 {
			e.AddGiveupError("disk", "checked", reason)
		}
	}))
}

// endless is an error that wraps itself.
type endless struct{ looks *int }

func (endless) Error() string { return "endless" }
func (e endless) Unwrap() error {
	if *e.looks++; *e.looks > 100_000 {
		panic("the search does not end")
	}
	return e
}

func TestSearchingAnErrorForGiveupsIsBounded(t *testing.T) {
	looks := 0
	err := endless{&looks}
	var r stepper.Results
	require.Equal(t, err, r.AddOp("disk", "created", err, time.Second))
	giveup, first := r.ConsolidatedError()
	require.False(t, giveup)
	require.Equal(t, err, first)
	require.Error(t, r.Outcome())
}
