// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

const (
	partBlocked = "blocked"
	partDone    = "done"
)

// blocked measures rows that wait for a channel each.
func blocked() Workload {
	return Workload{
		Name: "blocked-many",
		About: "100,000 rows blocked on a channel each, then released: from before the first channel is closed until all are " +
			"done. In another process the same rows done at once: the memory (heap and stacks in use) that a blocked " +
			"row holds beyond a row that is done. The channels themselves are not counted. The peer has no such feature.",
		Contenders: []string{subject.Statekeel, subject.StatekeelBeside},
		Runs:       fewRuns,
		Headline:   "release",
		Parts:      []string{partBlocked, partDone},
		Combine:    combineBlocked,
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return env.with(ctx, subject.Options{}, func(sys subject.System) (Figures, error) {
				n := env.Rows(100_000)
				return measureBlocked(ctx, env, sys, n, newGate(n))
			})
		},
	}
}

// gate holds the channels that blocked rows wait for. All close together.
type gate struct {
	channels []chan struct{}
	open     atomic.Bool
	passed   subject.Counter
}

func newGate(channels uint64) *gate {
	g := &gate{channels: make([]chan struct{}, channels)}
	for i := range g.channels {
		g.channels[i] = make(chan struct{})
	}
	return g
}

// operation is the rule of the target.
func (g *gate) operation(id uint64) error {
	if !g.open.Load() {
		return subject.BlockedOn("the gate is closed", g.channels[id%uint64(len(g.channels))])
	}
	g.passed.Add()
	return nil
}

// release opens the gate, then closes each channel once.
func (g *gate) release() {
	g.open.Store(true)
	for _, channel := range g.channels {
		close(channel)
	}
}

func measureBlocked(ctx context.Context, env *Env, sys subject.System, n uint64, gate *gate) (Figures, error) {
	tally := tallied(sys.Targets()[0], n, gate.operation)
	outcome := subject.Blocked
	if env.Part == partDone {
		outcome = subject.Done
		gate.open.Store(true)
	}
	figures, err := measureHeld(ctx, env, sys, n, outcome)
	if err != nil {
		return nil, err
	}
	var c checks
	c.rows(sys, map[subject.Kind]uint64{outcome: n})
	c.each("Update", tally, n, 1)
	if outcome == subject.Done {
		c.worked(sys, tally, n, 1)
		return figures, c.err()
	}

	released, err := measureRelease(ctx, env, sys, n, gate)
	if err != nil {
		return nil, err
	}
	c.worked(sys, tally, n, 2)
	return append(released, figures...), c.err()
}

// measureHeld loads n rows until all are of that kind, and measures the memory they hold.
func measureHeld(ctx context.Context, env *Env, sys subject.System, n uint64, kind subject.Kind) (Figures, error) {
	before, goroutines := memoryInUse(), runtime.NumGoroutine()
	used, _, err := loadUntil(ctx, env, sys, n, kind)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, env.Settle); err != nil {
		return nil, err
	}
	return Figures{
		less("pass_"+env.Part, "s", used.wall.Seconds()),
		cost("memory_"+env.Part, "B/object", memoryInUse()-before, n),
		info("goroutines_"+env.Part, "goroutines", float64(runtime.NumGoroutine()-goroutines)),
	}, nil
}

func measureRelease(ctx context.Context, env *Env, sys subject.System, n uint64, gate *gate) (Figures, error) {
	used, err := env.measure(func() error {
		passed := gate.passed.Reached(n)
		gate.release()
		if err := wait(ctx, passed, "every row to be released"); err != nil {
			return err
		}
		_, err := sys.AwaitAll(ctx, subject.Done)
		return err
	})
	if err != nil {
		return nil, err
	}
	return Figures{
		less("release", "s", used.wall.Seconds()),
		cost("release_cpu", "us/object", micros(used.cpu), n),
	}, nil
}

func combineBlocked(parts []Figures) Figures {
	blocked, done := parts[0], parts[1]
	figures := Figures{
		less("memory_beyond_row", "B/object", blocked.Find("memory_blocked")-done.Find("memory_done")),
	}
	figures = append(figures, blocked...)
	return append(figures, done...)
}
