// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// operate makes the target's operations single ones, batches or rounds.
func operate(kind string) func(e *env, cfg *reconciler.Config[*object]) {
	return func(e *env, cfg *reconciler.Config[*object]) {
		switch kind {
		case "batches":
			cfg.BatchOperations = batchTarget{e.target}
		case "rounds":
			cfg.RoundOperations = roundTarget{e.target}
		}
	}
}

// everyWay runs a test with each kind of operations, each with one worker and with four,
// and without prunes.
func everyWay(t *testing.T, test func(e *env), opts ...reconciler.Option) {
	for _, kind := range []string{"single", "batches", "rounds"} {
		eachConcurrency(t, kind, test, operate(kind), opts...)
	}
}

// singly runs a test with single operations, with one worker and with four.
func singly(t *testing.T, test func(e *env), opts ...reconciler.Option) {
	eachConcurrency(t, "single", test, nil, opts...)
}

func eachConcurrency(t *testing.T, name string, test func(e *env), change func(e *env, cfg *reconciler.Config[*object]), opts ...reconciler.Option) {
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprintf("%s, %d worker(s)", name, workers), func(t *testing.T) {
			all := append(slices.Clone(opts), reconciler.WithConcurrency(workers), reconciler.WithoutPruning())
			inBubble(t, test, change, all...)
		})
	}
}

// since returns when the calls came, counted from a time.
func since(start time.Time, calls []call) []time.Duration {
	var at []time.Duration
	for _, c := range calls {
		at = append(at, c.at.Sub(start))
	}
	return at
}

// seconds returns durations for tests to name in a row.
func seconds(of ...float64) []time.Duration {
	var out []time.Duration
	for _, s := range of {
		out = append(out, time.Duration(s*float64(time.Second)).Round(time.Millisecond))
	}
	return out
}

// status requires the row's status to be of a kind, with a text.
func (e *env) status(id uint64, kind reconciler.StatusKind, text string) {
	e.Helper()
	require.Equal(e, kind, e.kind(id), "object %d", id)
	require.Equal(e, text, e.get(id).Status.GetError(), "object %d", id)
}
