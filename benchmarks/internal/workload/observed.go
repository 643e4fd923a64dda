// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"errors"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// neverAgain is a backoff longer than a run.
const neverAgain = time.Hour

func observedNoop() Workload {
	return Workload{
		Name: "observed-noop",
		About: "1,000,000 rows inserted in transactions of 1000, reconciled meanwhile with single operations that do " +
			"nothing, as in noop-single: the cost of observation. With metrics, expvar and the page mounted, " +
			"and each read once a second; and without metrics. " +
			"Then some rows fail, are blocked or are paused, and 1000 are asked about: why is it, or is it not, reconciled?",
		Contenders: []string{subject.StatekeelObserved, subject.StatekeelBare},
		Runs:       closeRuns,
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			n := env.Rows(1_000_000)
			// Rows that fail must still be failing when they are asked about.
			o := subject.Options{RetryMin: neverAgain, RetryMax: neverAgain}
			return env.with(ctx, o, func(sys subject.System) (Figures, error) {
				view := sys.View()
				if view == nil {
					return measureLoad(ctx, env, sys, n)
				}
				return measureObserved(ctx, env, sys, view, n)
			})
		},
	}
}

func measureObserved(ctx context.Context, env *Env, sys subject.System, view *subject.View, n uint64) (Figures, error) {
	watcher := watch(ctx, view)
	figures, err := measureLoad(ctx, env, sys, n)
	looks, watchErr := watcher.stop()
	if err := errors.Join(err, watchErr); err != nil {
		return nil, err
	}
	if err := checkSeen(ctx, sys, watcher, looks, n); err != nil {
		return nil, err
	}
	explained, err := measureExplain(ctx, env, sys, view, n)
	return append(append(figures, info("looks", "looks/run", float64(looks))), explained...), err
}

// checkSeen checks that the view was read, and that it shows what was done.
func checkSeen(ctx context.Context, sys subject.System, watcher *watcher, looks, n uint64) error {
	// The last round may have written its statuses and not have counted them yet.
	if err := settled(ctx, watcher.view); err != nil {
		return err
	}
	scraped, err := watcher.operations(ctx)
	watcher.client.CloseIdleConnections()
	var c checks
	c.atLeast("looks at the view", looks, 1)
	c.equal("operations that were scraped", scraped, n)
	c.equal("operations that were scraped, as the target counted them", scraped, sys.Targets()[0].Updates.Load())
	return errors.Join(err, c.err())
}
