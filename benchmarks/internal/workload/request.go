// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"fmt"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// request compares controllers with n workers.
func request(n int, contenders ...string) Workload {
	return Workload{
		Name: fmt.Sprintf("request-%d", n),
		About: fmt.Sprintf("200,000 distinct requests, prepared and then made all at once, by a commit or by a call, and "+
			"a reconciler that does nothing, with %d at a time; from making them to the end of the last reconciliation.", n),
		Contenders: contenders,
		Runs:       fewRuns,
		Headline:   "throughput",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.withController(ctx, func(controller subject.Controller) (Figures, error) {
				return measureRequests(ctx, env, controller, env.Rows(200_000))
			})
		},
	}
}

// measureRequests measures the reconciliation of n requests that are made at once.
func measureRequests(ctx context.Context, env *Env, controller subject.Controller, n uint64) (Figures, error) {
	tally := tallied(controller.Target(), n, nothing)
	ask, err := controller.Prepare(0, n)
	if err != nil {
		return nil, err
	}
	reached := tally.ended.Reached(n)
	used, err := env.measure(func() error {
		if err := ask(); err != nil {
			return err
		}
		return wait(ctx, reached, "the last request")
	})
	if err != nil {
		return nil, err
	}
	if err := controller.Await(ctx); err != nil {
		return nil, err
	}
	var c checks
	c.reconciled(controller, tally, n)
	return Figures{
		rate("throughput", "requests/s", n, used.wall),
		cost("cpu", "us/request", micros(used.cpu), n),
		cost("allocs", "allocs/request", float64(used.allocs), n),
		cost("alloc_bytes", "B/request", float64(used.bytes), n),
		info("in_flight", "requests", float64(tally.inFlight())),
	}, c.err()
}

// reconciled checks that each of n requests was reconciled once, that none is left, and that no more ran at
// a time than the controller has workers.
func (c *checks) reconciled(controller subject.Controller, t *tally, n uint64) {
	c.equal("requests that are left", controller.Left(), 0)
	c.equal("reconciliations", controller.Target().Updates.Load(), n)
	c.each("Update", t, n, 1)
	c.atMost("requests at a time", t.inFlight(), uint64(controller.Workers()))
}
