// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

func TestOnlyObservedContendersAreReadAndAsked(t *testing.T) {
	for contender, observed := range map[string]bool{subject.StatekeelObserved: true, subject.StatekeelBare: false} {
		t.Run(contender, func(t *testing.T) {
			t.Parallel()
			figures, err := named(t, "observed-noop").Measure(t.Context(),
				workload.Env{Sizes: workload.Tiny(), Start: starter(t, contender)})
			require.NoError(t, err)
			assert.Positive(t, figures.Find("throughput"))
			assert.Equal(t, observed, figures.Find("looks") > 0)
			assert.Equal(t, observed, figures.Find("explain_p99") > 0)
			assert.LessOrEqual(t, figures.Find("explain_p50"), figures.Find("explain_p99"))
		})
	}
}

// misled is a system whose view shows the objects of another reconciler.
type misled struct {
	subject.System
	change func(*subject.View)
}

func (s misled) View() *subject.View {
	view := s.System.View()
	s.change(view)
	return view
}

// liar reports every object as done.
type liar struct{ inspect.Loop }

func (l liar) Explain(context.Context, string) inspect.Explanation {
	return inspect.Explanation{State: inspect.StateDone, Why: "it is said to be"}
}

func TestWrongViewFailsTheRun(t *testing.T) {
	other, err := starter(t, subject.StatekeelObserved)(subject.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, other.Stop(context.Background())) })

	for name, c := range map[string]struct {
		change    func(*subject.View)
		complaint string
	}{
		"counts of another": {
			func(v *subject.View) { v.MetricsURL = other.View().MetricsURL },
			"check failed: operations that were scraped: got 0, want 1000",
		},
		"no metrics": {
			func(v *subject.View) { v.MetricsURL += "/none" },
			"404 Not Found",
		},
		"wrong explanations": {
			func(v *subject.View) {
				controller := v.Registry.All()[0]
				v.Registry = &inspect.Registry{}
				v.Registry.Add(liar{controller.(inspect.Loop)})
			},
			`is explained to be "done" (it is said to be), want "`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := func(o subject.Options) (subject.System, error) {
				sys, err := starter(t, subject.StatekeelObserved)(o)
				return misled{sys, c.change}, err
			}
			_, err := named(t, "observed-noop").Measure(t.Context(), workload.Env{Sizes: workload.Tiny(), Start: start})
			assert.ErrorContains(t, err, c.complaint)
		})
	}
}
