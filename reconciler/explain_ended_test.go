// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The running operation may end while Explain collects its answer. The answer is consistent
// nevertheless.
func TestExplainOfAnOperationThatEndsIsConsistent(t *testing.T) {
	for n := range 30 {
		var calls atomic.Int64
		calls.Store(math.MinInt64)
		ended := func() {}
		key := func(o *object) index.KeySet {
			if calls.Add(1) == int64(n) {
				ended()
			}
			return index.NewKeySet(keyOf(o))
		}
		inBubble(t, func(e *env) {
			gate := make(chan struct{})
			e.target.mu.Lock()
			e.target.before = func(context.Context, call) { <-gate }
			e.target.mu.Unlock()
			e.put(1, 1)
			e.pass(time.Second)
			began := time.Now().Add(-time.Second)
			release := sync.OnceFunc(func() { close(gate) })
			ended = func() {
				release()
				for e.kind(1) != reconciler.StatusKindDone {
					runtime.Gosched()
				}
			}
			calls.Store(-1)
			x := e.loop.Explain(context.Background(), "1")
			calls.Store(math.MinInt64)
			release()
			if x.State == inspect.StateInFlight {
				require.Equal(t, "update is running, and the reconciler waits for it", x.Why)
				require.Equal(t, began.UnixNano(), x.Since.UnixNano())
			}
		}, func(e *env, cfg *reconciler.Config[*object]) {
			hooked := idIndex
			hooked.FromObject = key
			table, err := statedb.NewTable(e.db, "hooked", hooked)
			require.NoError(t, err)
			e.table, cfg.Table = table, table
		}, reconciler.WithoutPruning())
	}
}
