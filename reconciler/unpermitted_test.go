// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

// countedRounds records the number of objects of each of its calls.
type countedRounds struct {
	roundTarget
	sizes *[]int
}

func (r countedRounds) ProcessRound(ctx context.Context, txn statedb.ReadTxn, deletes, updates []reconciler.BatchEntry[*object]) {
	*r.sizes = append(*r.sizes, len(deletes)+len(updates))
	r.roundTarget.ProcessRound(ctx, txn, deletes, updates)
}

// Another reconciler may take the permits of a shared limiter after a round was planned.
func TestRoundWithoutPermitsDoesNotPanic(t *testing.T) {
	for _, hooked := range []bool{false, true} {
		limiter := rate.NewLimiter(10, 5)
		var take atomic.Bool
		var sizes []int
		var options []reconciler.Option
		if hooked {
			options = append(options, reconciler.WithOperationHook(func(ctx context.Context, op reconciler.OperationInfo) (context.Context, func(error)) {
				return ctx, nil
			}))
		}
		inBubble(t, func(e *env) {
			take.Store(true)
			e.put(1, 1)
			e.pass(time.Second)
			e.eachDone()
			require.Zero(t, e.loop.Figures().Panics)
			require.NotContains(t, e.Logged(), "panicked")
			require.Equal(t, []int{1}, sizes)
		}, func(e *env, cfg *reconciler.Config[*object]) {
			cfg.Operations, cfg.RoundOperations = nil, countedRounds{roundTarget{e.target}, &sizes}
			cfg.GetStatus = func(o *object) reconciler.Status {
				if o.Status.Kind == reconciler.StatusKindPending && take.Swap(false) {
					limiter.AllowN(time.Now(), 5)
				}
				return o.Status
			}
			cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) { s.OperationLimiter = limiter }), reconciler.WithoutPruning())
			cfg.Options = append(cfg.Options, options...)
		})
	}
}
