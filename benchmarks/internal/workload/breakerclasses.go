// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// classBackoff is when the retry of a row is due that no breaker holds back, and untilDue is long enough for
// that retry to have happened.
const (
	classBackoff = 10 * time.Millisecond
	untilDue     = 20 * classBackoff
)

func breakerClasses() Workload {
	return Workload{
		Name: "breaker-classes",
		About: "One healthy row inserted, and the next as soon as a watch channel has shown it done, 2000 times, each a " +
			"round of its own: beside 5000 rows that are done (..._none), and then beside the same rows failed, each with " +
			"an error of a class of its own, so that 5000 breakers are open (..._open). What a round costs more is p50_more " +
			"and cpu_more. The breakers are not probed. The peer has none.",
		Contenders: []string{subject.StatekeelClasses},
		Runs:       manyRuns,
		Headline:   "p50_open",
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			o := subject.Options{RetryMin: classBackoff, RetryMax: classBackoff}
			return env.with(ctx, o, func(sys subject.System) (Figures, error) {
				return measureClasses(ctx, env, sys, env.Rows(5000), env.Inserts(2000))
			})
		},
	}
}

func measureClasses(ctx context.Context, env *Env, sys subject.System, n, inserts uint64) (Figures, error) {
	if err := loadDone(ctx, sys, n); err != nil {
		return nil, err
	}
	none, before, err := measureHealthy(ctx, env, sys, n, inserts, 0)
	if err != nil {
		return nil, err
	}

	sys.Targets()[0].SetRule(func(id uint64) error {
		if id < n {
			return subject.FailedWith("server " + letters(id))
		}
		return nil
	})
	if err := load(sys, 0, n); err != nil {
		return nil, err
	}
	if err := awaitRows(ctx, sys, 0, n, subject.Failed); err != nil {
		return nil, err
	}
	if err := pause(ctx, untilDue); err != nil {
		return nil, err
	}
	open, beside, err := measureHealthy(ctx, env, sys, n+inserts, inserts, 0)
	if err != nil {
		return nil, err
	}

	var c checks
	c.rows(sys, map[subject.Kind]uint64{subject.Failed: n, subject.Done: 2 * inserts})
	// A row whose breaker is not open would have been retried.
	c.calls(sys, 2*n+2*inserts, 0)
	p50none, p50open := micros(quantile(none, 0.50)), micros(quantile(open, 0.50))
	cpuNone, cpuOpen := micros(before.cpu)/float64(inserts), micros(beside.cpu)/float64(inserts)
	return Figures{
		less("p50_more", "us/round", p50open-p50none),
		less("cpu_more", "us/round", cpuOpen-cpuNone),
		less("p50_none", "us", p50none),
		less("p50_open", "us", p50open),
		less("p99_none", "us", micros(quantile(none, 0.99))),
		less("p99_open", "us", micros(quantile(open, 0.99))),
		less("cpu_none", "us/round", cpuNone),
		less("cpu_open", "us/round", cpuOpen),
	}, c.err()
}

// letters writes a number without digits: the class of an error has none.
func letters(n uint64) string {
	var text []byte
	for ; n > 0 || len(text) == 0; n /= 26 {
		text = append(text, byte('a'+n%26))
	}
	return string(text)
}
