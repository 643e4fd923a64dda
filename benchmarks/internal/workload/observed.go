// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"errors"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// neverAgain is a backoff that does not end within a run.
const neverAgain = time.Hour

func observedNoop() Workload {
	return Workload{
		Name: "observed-noop",
		About: "1,000,000 rows inserted in transactions of 1000, reconciled meanwhile with single operations that do " +
			"nothing, as in noop-single: what it costs to be seen. With all that shows what a reconciler does mounted, " +
			"somebody gets its metrics, its expvar variables and its page once a second; beside it, without any of that. " +
			"Then some rows fail, are blocked or are paused, and 1000 are asked about: why is it, or is it not, reconciled?",
		Contenders: []string{subject.StatekeelObserved, subject.StatekeelBare},
		Runs:       closeRuns,
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			n := env.Rows(1_000_000)
			// Rows that fail are to be found failing.
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

// checkSeen checks that somebody has looked, and that there is to see what was done.
func checkSeen(ctx context.Context, sys subject.System, watcher *watcher, looks, n uint64) error {
	// The last round may have written its statuses, and not yet be counted.
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
