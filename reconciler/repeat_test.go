// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// asking asks for all objects to be applied again, with a context that ends after a second.
var asking = map[string]func(e *env, n uint64){
	"reapply": func(e *env, n uint64) {
		var objs []*object
		for _, id := range ids(1, n) {
			objs = append(objs, &object{ID: id})
		}
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		_, _ = e.loop.Reapply(ctx, objs...)
	},
	"refresh": func(e *env, n uint64) {
		var keys []string
		for _, id := range ids(1, n) {
			keys = append(keys, strconv.FormatUint(id, 10))
		}
		ctx, cancel := context.WithTimeout(e.Context(), time.Second)
		defer cancel()
		_, _ = e.loop.Refresh(ctx, keys...)
	},
	"reconfigure": func(e *env, _ uint64) {
		// A refresh of all objects is waiting for the loop when the settings of refreshes are replaced.
		if e.loop.Settings().RefreshLimiter == nil {
			_, err := e.loop.Refresh(e.Context())
			require.NoError(e, err)
		}
		e.set(func(s *reconciler.Settings) { s.RefreshLimiter = rate.NewLimiter(rate.Inf, 1) })
	},
}

func TestObjectIsAppliedOnceForAllCallsDuringAPause(t *testing.T) {
	const n = 500
	for name, ask := range asking {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.writeRows(1, ids(1, n)...)
				e.pass(0)
				e.target.take()
				e.loop.Pause()
				for range 20 {
					ask(e, n)
				}
				require.Empty(e, e.target.take())
				e.loop.Resume()
				e.pass(time.Minute)
				seen := map[uint64]int{}
				for _, c := range e.target.take() {
					seen[c.id]++
				}
				for id, times := range seen {
					require.Equal(e, 1, times, "object %d", id)
				}
				require.Len(e, seen, n)
			}, beside, reconciler.WithRoundLimits(10, nil))
		})
	}
}

func TestReapplyAfterTheStopIsAnError(t *testing.T) {
	bothLedgers(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		e.stop()
		_, err := e.loop.Reapply(e.Context(), &object{ID: 1})
		require.ErrorIs(e, err, inspect.ErrStopped)
	}, reconciler.WithoutPruning())
}
