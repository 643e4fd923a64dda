// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/stepper"
)

func TestResultsAreCounted(t *testing.T) {
	var r stepper.Results
	boom := errors.New("boom")
	r.AddOpSuccess("disk", "created")
	require.NoError(t, r.AddOp("disk", "created", nil, -time.Second))
	require.Equal(t, boom, r.AddOp("net", "updated", boom, time.Minute))
	require.Equal(t, 2, r.OpsCount("created"))
	require.Equal(t, 1, r.OpsCount("updated"))
	require.Zero(t, r.OpsCount("deleted"))
	require.Equal(t, 1, r.ErrorsCount())
	all := r.All()
	require.Equal(t, []stepper.Result{{Resource: "disk", Operation: "created"}, {Resource: "disk", Operation: "created"},
		{Resource: "net", Operation: "updated", Err: boom, After: time.Minute}}, all)

	r.ResetAllResults()
	require.Zero(t, r.ErrorsCount())
	require.Zero(t, r.OpsCount("created"))
	require.Empty(t, r.All())
	require.NoError(t, r.Outcome())
	require.Equal(t, "created", string(all[0].Operation), "the returned slice is a copy")
}

// The first error counts, but the reason of a give-up takes precedence.
func TestConsolidatedErrorPrefersTheReasonOfAGiveup(t *testing.T) {
	first, second, reason, other := errors.New("first"), errors.New("second"), errors.New("reason"), errors.New("other")
	type results = stepper.Results
	for _, c := range []struct {
		name   string
		add    func(r *results)
		giveup bool
		want   error
	}{
		{"nothing", func(*results) {}, false, nil},
		{"errors", func(r *results) { r.AddOp("", "", first, 0); r.AddOp("", "", second, 0) }, false, first},
		{"give-up", func(r *results) { r.AddGiveupError("", "", nil) }, true, nil},
		{"give-up with a reason", func(r *results) { r.AddGiveupError("", "", reason) }, true, reason},
		{"reason after an error", func(r *results) {
			r.AddOp("", "", first, 0)
			r.AddGiveupError("", "", reason)
		}, true, reason},
		{"two reasons", func(r *results) {
			r.AddGiveupError("", "", reason)
			r.AddGiveupError("", "", other)
		}, true, reason},
		{"later reason", func(r *results) {
			r.AddGiveupError("", "", nil)
			r.AddGiveupError("", "", reason)
		}, true, reason},
		{"give-up after an error", func(r *results) {
			r.AddOp("", "", first, 0)
			r.AddGiveupError("", "", nil)
		}, true, first},
		{"give-up as an error", func(r *results) { r.AddOp("", "", stepper.ErrGiveUpReconciliation, 0) }, true, nil},
		{"wrapped give-up", func(r *results) {
			var inner stepper.Results
			r.AddOp("", "", fmt.Errorf("inside: %w", inner.AddGiveupError("", "", reason)), 0)
		}, true, reason},
		{"joined give-up", func(r *results) {
			var inner results
			r.AddOp("", "", errors.Join(first, inner.AddGiveupError("", "", reason)), 0)
		}, true, reason},
		{"give-up by its Is method", func(r *results) { r.AddOp("", "", refusal("422"), 0) }, true, refusal("422")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r stepper.Results
			c.add(&r)
			giveup, err := r.ConsolidatedError()
			require.Equal(t, c.giveup, giveup)
			require.Equal(t, c.want, err)
			r.ResetAllResults()
			giveup, err = r.ConsolidatedError()
			require.False(t, giveup)
			require.NoError(t, err)
		})
	}
}

// The error of a give-up matches its reason and ErrGiveUpReconciliation. A reason must not contain an unescaped name
// of a resource.
func TestGiveupErrorWrapsItsReason(t *testing.T) {
	reason := errors.New("reason")
	var r stepper.Results
	err := r.AddGiveupError("", "", reason)
	require.ErrorIs(t, err, reason)
	require.ErrorIs(t, err, stepper.ErrGiveUpReconciliation)
	require.ErrorIs(t, r.Outcome(), reason)
	require.EqualError(t, err, "given up: reason")

	r.ResetAllResults()
	r.AddGiveupError("a\x1b[31m\n<<end>>\x00", "created", nil)
	text := r.Outcome().Error()
	require.Contains(t, text, "created")
	require.False(t, strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", text)
}

// refusal is an error whose Is method matches ErrGiveUpReconciliation.
type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == stepper.ErrGiveUpReconciliation }

// A hook with one Results for several rows starts each reconciliation with an empty one. It is that of one
// reconciliation: the next one does not touch it.
func TestSetResultsEmptiesTheResults(t *testing.T) {
	var shared stepper.Results
	for name, engine := range engines(func(c *call) {
		if c.Object().Value == 1 {
			c.SetResults(&shared)
			c.AddGiveupError("disk", "created", errors.New("no such disk"))
			c.SetResults(&shared) // the same Results are not emptied
		}
	}) {
		t.Run(name, func(t *testing.T) {
			ops := operationsOf(t, engine)
			for id := range uint64(2) {
				require.EqualError(t, ops.Update(t.Context(), nil, 1, pending(id, 1)), "given up: no such disk")
				require.NoError(t, ops.Update(t.Context(), nil, 2, pending(2, 2)))
				require.Equal(t, 1, shared.ErrorsCount())
			}
		})
	}
}
