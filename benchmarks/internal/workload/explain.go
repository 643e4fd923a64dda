// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// conditions are the states of rows that are not done. Rows 0, 1, 2, ... take turns.
var conditions = []struct {
	state inspect.State
	kind  subject.Kind
}{
	{inspect.StateRetry, subject.Failed},
	{inspect.StateBlocked, subject.Blocked},
	{inspect.StatePaused, subject.Waiting},
}

const (
	// eachCondition is the number of rows in each state, if there are enough rows.
	eachCondition = 1000
	// One in oneInTen of the rows that are asked about is not done.
	oneInTen = 10
)

// measureExplain moves some of the n rows to a state that is not done, and measures how long Explain takes
// to say why a row is or is not reconciled.
func measureExplain(ctx context.Context, env *Env, sys subject.System, view *subject.View, n uint64) (Figures, error) {
	each := min(eachCondition, n/10)
	unfit := each * uint64(len(conditions))
	if err := spoil(ctx, sys, view, unfit); err != nil {
		return nil, err
	}
	// The garbage of the load is not part of the measurement.
	collectGarbage()
	samples, wrong := explainSome(ctx, view.Registry.All()[0], env.Inserts(1000), unfit, n)

	var c checks
	want := map[subject.Kind]uint64{subject.Done: n - unfit}
	for _, condition := range conditions {
		want[condition.kind] = each
	}
	c.rows(sys, want)
	c.calls(sys, n+2*each, 0)
	c.failed = append(c.failed, wrong...)
	return Figures{
		less("explain_p50", "us", micros(quantile(samples, 0.5))),
		less("explain_p99", "us", micros(quantile(samples, 0.99))),
		less("explain_max", "us", micros(quantile(samples, 1))),
	}, c.err()
}

// spoil writes rows 0 ... n-1 again and moves each of them to its state.
func spoil(ctx context.Context, sys subject.System, view *subject.View, n uint64) error {
	held := uint64(len(conditions))
	never := make(chan struct{})
	sys.Targets()[0].SetRule(func(id uint64) error {
		if conditions[id%held].state == inspect.StateBlocked {
			return subject.BlockedOn("nothing that comes", never)
		}
		return errDown
	})
	var paused []string
	for id := range n {
		if conditions[id%held].state == inspect.StatePaused {
			paused = append(paused, strconv.FormatUint(id, 10))
		}
	}
	if err := view.Registry.All()[0].(inspect.Loop).PauseOnly(paused...); err != nil {
		return fmt.Errorf("pause %d rows: %w", len(paused), err)
	}
	if err := load(sys, 0, n); err != nil {
		return err
	}
	return settled(ctx, view)
}

// settled waits until the reconcilers have attempted and counted everything: they answer Snapshot between
// two rounds.
func settled(ctx context.Context, view *subject.View) error {
	for _, inspector := range view.Registry.All() {
		if _, err := inspector.WaitAll(ctx, reconciler.Attempted); err != nil {
			return fmt.Errorf("wait for %s: %w", inspector.ID(), err)
		}
		inspector.Snapshot(ctx)
	}
	return nil
}

// explainSome asks about random rows of n, of which the first unfit ones are not done, and returns the time
// of each answer, and the wrong answers.
func explainSome(ctx context.Context, inspector inspect.Inspector, questions, unfit, n uint64) (took []time.Duration, wrong []error) {
	// The same rows in every run.
	random := rand.New(rand.NewPCG(1, 2))
	for i := range questions {
		id, want := unfit+random.Uint64N(n-unfit), inspect.StateDone
		if i%oneInTen == 0 {
			id = random.Uint64N(unfit)
			want = conditions[id%uint64(len(conditions))].state
		}
		key := strconv.FormatUint(id, 10)
		begin := time.Now()
		x := inspector.Explain(ctx, key)
		took = append(took, time.Since(begin))
		if x.State != want {
			wrong = append(wrong, fmt.Errorf("check failed: row %d is explained to be %q (%s), want %q", id, x.State, x.Why, want))
		}
	}
	return took, wrong
}
