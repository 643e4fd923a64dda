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
		About: fmt.Sprintf("200,000 distinct requests, made before and asked for all at once, by a commit or by a call, and "+
			"a reconciler that does nothing, with %d at a time; from the asking to the end of the last reconciliation.", n),
		Contenders: contenders,
		Runs:       manyRuns,
		Headline:   "throughput",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.withController(ctx, func(controller subject.Controller) (Figures, error) {
				last := func(context.Context) error { return nil }
				return measureRequests(ctx, env, controller, env.Rows(200_000), last)
			})
		},
	}
}

// cycle compares managed reconcilers with n workers.
func cycle(n int, contenders ...string) Workload {
	return Workload{
		Name: fmt.Sprintf("managed-%d", n),
		About: fmt.Sprintf("100,000 managed resources that are ready and synced are looked at once, with %d at a time: each is "+
			"observed to be up to date, its status is written, and it is to be polled again; from asking for all at "+
			"once until the last status is written. Neither has an API server or an external system to wait for.", n),
		Contenders: contenders,
		Runs:       manyRuns,
		Headline:   "throughput",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.withController(ctx, func(controller subject.Controller) (Figures, error) {
				return measureRequests(ctx, env, controller, env.Rows(100_000), controller.Await)
			})
		},
	}
}

// measureRequests measures the reconciliation of n requests that are asked for at once: until
// the last reconciliation has ended, and until last returns.
func measureRequests(
	ctx context.Context, env *Env, controller subject.Controller, n uint64, last func(context.Context) error,
) (Figures, error) {
	var passed subject.Counter
	tally := tallied(controller.Target(), n, func(uint64) error {
		passed.Add()
		return nil
	})
	ask, err := controller.Prepare(0, n)
	if err != nil {
		return nil, err
	}
	reached := passed.Reached(n)
	used, err := env.measure(func() error {
		if err := ask(); err != nil {
			return err
		}
		if err := wait(ctx, reached, "the last request"); err != nil {
			return err
		}
		return last(ctx)
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

// reconciled checks that each of n requests was reconciled once, that none are left, and
// that there were no more at a time than the controller says.
func (c *checks) reconciled(controller subject.Controller, t *tally, n uint64) {
	c.equal("requests that are left", controller.Left(), 0)
	c.equal("reconciliations", controller.Target().Updates.Load(), n)
	c.each(t, n, 1)
	c.atMost("requests at a time", t.inFlight(), uint64(controller.Workers()))
}
