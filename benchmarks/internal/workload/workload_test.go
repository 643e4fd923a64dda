// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

func named(t *testing.T, name string) workload.Workload {
	for _, w := range workload.All() {
		if w.Name == name {
			return w
		}
	}
	require.Fail(t, "no such workload", name)
	return workload.Workload{}
}

func contender(t *testing.T, name string) subject.Contender {
	for _, c := range subject.Contenders() {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "no such contender", name)
	return subject.Contender{}
}

func starter(t *testing.T, name string) func(subject.Options) (subject.System, error) {
	return contender(t, name).Start
}

// withoutPeer are the workloads that the peer has no feature for.
var withoutPeer = map[string]bool{
	"blocked-many": true, "observed-noop": true, "stuck-64": true,
	"request-1": true, "request-8": true, "stepper": true, "stateful": true,
	"managed-1": true, "managed-8": true, "derive-best": true, "fleet-1000": true, "relist-100k": true,
}

func TestCatalogueListsAllWorkloads(t *testing.T) {
	var names []string
	contenders := map[string]bool{}
	for _, c := range subject.Contenders() {
		contenders[c.Name] = true
	}
	for _, w := range workload.All() {
		names = append(names, w.Name)
		assert.NotEmpty(t, w.About, w.Name)
		assert.Positive(t, w.Runs, w.Name)
		assert.True(t, strings.HasPrefix(w.Ours(), subject.Statekeel), w.Name)
		if !withoutPeer[w.Name] {
			assert.Contains(t, w.Contenders, subject.Peer, w.Name)
		}
		for _, c := range w.Contenders {
			assert.True(t, contenders[c], "%s names the contender %q", w.Name, c)
		}
	}
	assert.Equal(t, []string{
		"noop-single", "noop-batch", "noop-10m", "delete", "load-15us",
		"noop-beside-single", "noop-beside-batch", "noop-beside-workers-8", "failing-100k", "failing-1m",
		"parked", "starvation", "latency-b2b", "latency-spaced",
		"statusset-1", "statusset-8", "reconcilers-8-beside", "refresh", "refresh-batch", "idle",
		"slow-1ms", "stuck-64", "head-of-line", "behind-backlog", "breaker", "blocked-many",
		"workers-4", "observed-noop",
		"request-1", "request-8", "stepper", "stateful", "managed-1", "managed-8", "derive-best", "fleet-1000", "relist-100k",
	}, names)
}

// Every workload is run at this size, with every contender and with all checks.
func TestAllWorkloadsPassTheirChecks(t *testing.T) {
	for _, w := range workload.All() {
		for _, name := range w.Contenders {
			t.Run(w.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := contender(t, name)
				var parts []workload.Figures
				for _, part := range w.AllParts() {
					env := workload.Env{Sizes: workload.Tiny(), Part: part, Start: c.Start, StartController: c.StartController, StartFleet: c.StartFleet}
					figures, err := w.Measure(t.Context(), env)
					require.NoError(t, err)
					parts = append(parts, figures)
				}
				figures := w.Join(parts)
				seen := map[string]bool{}
				for _, f := range figures {
					assert.False(t, seen[f.Metric], "two figures for %s", f.Metric)
					seen[f.Metric] = true
					assert.NotEmpty(t, f.Unit, f.Metric)
					assert.False(t, math.IsNaN(f.Value) || math.IsInf(f.Value, 0), "%s is %v", f.Metric, f.Value)
				}
				if w.Headline != "" {
					assert.True(t, seen[w.Headline], "no figure for the headline %s", w.Headline)
				}
			})
		}
	}
}

// tampered is a system that reports wrong numbers.
type tampered struct {
	subject.System
	count func() map[subject.Kind]uint64
}

func (s tampered) Count() map[subject.Kind]uint64 { return s.count() }

func TestWrongCountOfCallsFailsTheRun(t *testing.T) {
	for _, c := range []struct{ workload, part, complaint string }{
		{"noop-single", "", "Update calls to target 0: got 1001, want 1000"},
		{"noop-batch", "", "Update calls to target 0: got 1001, want 1000"},
		{"noop-10m", "10m", "Update calls to target 0: got 10001, want 10000"},
		{"noop-10m", "1m", "Update calls to target 0: got 1001, want 1000"},
		{"noop-beside-single", "", "Update calls to target 0: got 1001, want 1000"},
		{"noop-beside-batch", "", "Update calls to target 0: got 1001, want 1000"},
		{"noop-beside-workers-8", "", "Update calls to target 0: got 1001, want 1000"},
		{"delete", "", "Update calls to target 0: got 1001, want 1000"},
		{"load-15us", "", "Update calls to target 0: got 51, want 50"},
		{"failing-100k", "", "successful Update calls: got 101, want 100"},
		{"failing-1m", "failing", "Update calls to target 0: got 1001, want 1000"},
		{"failing-1m", "succeeding", "Update calls to target 0: got 1001, want 1000"},
		{"parked", "", "Update calls to target 0: got 241, want 240"},
		{"latency-b2b", "latency", "Update calls to target 0: got 21, want 20"},
		{"latency-b2b", "burst", "Update calls to target 0: got 101, want 100"},
		{"latency-spaced", "", "Update calls to target 0: got 21, want 20"},
		{"refresh-batch", "1k_5ms", "Update calls to target 0: got 1001, want 1000"},
		{"refresh-batch", "100k_5ms", "Update calls to target 0: got 1001, want 1000"},
		{"idle", "", "Update calls to target 0: got 1001, want 1000"},
		{"starvation", "", "Update calls to target 0"},
		{"slow-1ms", "", "Update calls to target 0: got 21, want 20"},
		{"stuck-64", "none", "Update calls to target 0: got 149, want 148"},
		{"stuck-64", "stuck", "Update calls to target 0: got 213, want 212"},
		{"stuck-64", "slow", "Update calls to target 0: got 213, want 212"},
		{"head-of-line", "earlier", "Update calls to target 0: got 22, want 21"},
		{"head-of-line", "same", "Update calls to target 0: got 22, want 21"},
		{"behind-backlog", "", "Update calls to target 0"},
		{"breaker", "", "successful Update calls: got 101, want 100"},
		{"blocked-many", "blocked", "Update calls for row 1: got 2, want 1"},
		{"blocked-many", "done", "Update calls for row 1: got 2, want 1"},
		{"workers-4", "noop", "Update calls to target 0: got 301, want 300"},
		{"observed-noop", "", "Update calls to target 0: got 1001, want 1000"},
		{"stepper", "", "Update calls to target 0: got 301, want 300"},
		{"stateful", "", "Update calls to target 0: got 301, want 300"},
	} {
		t.Run(c.workload+c.part, func(t *testing.T) {
			t.Parallel()
			// One call is added when the rows are counted at the end.
			start := func(o subject.Options) (subject.System, error) {
				sys, err := starter(t, named(t, c.workload).Ours())(o)
				return tampered{sys, func() map[subject.Kind]uint64 {
					_ = sys.Targets()[0].Update(1)
					return sys.Count()
				}}, err
			}
			_, err := named(t, c.workload).Measure(t.Context(),
				workload.Env{Sizes: workload.Tiny(), Part: c.part, Start: start})
			assert.ErrorContains(t, err, "check failed: "+c.complaint)
		})
	}
}

func TestWrongCountOfRowsFailsTheRun(t *testing.T) {
	for _, w := range workload.All() {
		// derive-best has no reconciler: it compares the derived rows.
		if contender(t, w.Ours()).Start == nil || w.Name == "derive-best" {
			continue
		}
		for _, part := range w.AllParts() {
			t.Run(w.Name+part, func(t *testing.T) {
				t.Parallel()
				start := func(o subject.Options) (subject.System, error) {
					sys, err := starter(t, w.Ours())(o)
					return tampered{sys, func() map[subject.Kind]uint64 {
						counts := sys.Count()
						counts[subject.Failed]++
						return counts
					}}, err
				}
				_, err := w.Measure(t.Context(), workload.Env{Sizes: workload.Tiny(), Part: part, Start: start})
				assert.ErrorContains(t, err, "check failed: rows that are Error")
			})
		}
	}
}

func TestRepeatedDeletionFailsTheRun(t *testing.T) {
	start := func(o subject.Options) (subject.System, error) {
		sys, err := starter(t, subject.Statekeel)(o)
		return tampered{sys, func() map[subject.Kind]uint64 {
			counts := sys.Count()
			if len(counts) == 0 {
				_ = sys.Targets()[0].Delete(7)
			}
			return counts
		}}, err
	}
	_, err := named(t, "load-15us").Measure(t.Context(), workload.Env{Sizes: workload.Tiny(), Start: start})
	assert.ErrorContains(t, err, "check failed: Delete calls to target 0: got 51, want 50")
	assert.ErrorContains(t, err, "check failed: Delete calls for row 7: got 2, want 1")
}

func TestStuckRunNamesItsWait(t *testing.T) {
	sizes := workload.Tiny()
	sizes.Limit = 100 * time.Millisecond
	start := func(o subject.Options) (subject.System, error) {
		// The target never returns: the floor waits for it until it is stopped.
		sys, err := starter(t, subject.Floor)(o)
		if err != nil {
			return nil, err
		}
		return hanging{sys, make(chan struct{})}, nil
	}
	_, err := named(t, "noop-single").Measure(t.Context(), workload.Env{Sizes: sizes, Start: start})
	assert.ErrorContains(t, err, "row 999 is Pending, waited for Done: the run is stuck: not over after 100ms")
}

// hanging is a system whose target hangs until Stop.
type hanging struct {
	subject.System
	release chan struct{}
}

func (h hanging) Insert(first, n uint64) error {
	h.Targets()[0].SetRule(func(uint64) error { <-h.release; return nil })
	return h.System.Insert(first, n)
}

func (h hanging) Stop(ctx context.Context) error {
	close(h.release)
	return h.System.Stop(ctx)
}

func TestContenderThatDoesNotStartFailsTheRun(t *testing.T) {
	start := func(subject.Options) (subject.System, error) { return nil, errors.New("no such table") }
	_, err := named(t, "idle").Measure(t.Context(), workload.Env{Sizes: workload.Tiny(), Start: start})
	assert.EqualError(t, err, "start the contender: no such table")
}

func TestStarvedRetryIsALowerBound(t *testing.T) {
	t.Parallel()
	figures, err := named(t, "starvation").Measure(t.Context(),
		workload.Env{Sizes: workload.Tiny(), Start: starter(t, subject.Peer)})
	require.NoError(t, err)
	assert.Zero(t, figures.Find("retried"))
	assert.Equal(t, 200.0, figures.Find("retry_wait"), "50 ms until due and the cap of 150 ms")
	assert.Equal(t, 150.0, figures.Find("late"))
	assert.True(t, figures[0].AtLeast)
}

func TestNewRowBehindTheBacklogIsALowerBound(t *testing.T) {
	t.Parallel()
	figures, err := named(t, "behind-backlog").Measure(t.Context(),
		workload.Env{Sizes: workload.Tiny(), Start: starter(t, subject.Peer)})
	require.NoError(t, err)
	assert.Equal(t, 150.0, figures.Find("max"))
	assert.True(t, figures[0].AtLeast)
	assert.EqualValues(t, 1, figures.Find("new_rows"), "a second row would add nothing")
}

// prepared starts a contender whose target has rules in addition to the workload's.
func prepared(t *testing.T, name string, rules func(*subject.Target)) func(subject.Options) (subject.System, error) {
	return func(o subject.Options) (subject.System, error) {
		prepare := o.Prepare
		o.Prepare = func(target *subject.Target) {
			prepare(target)
			rules(target)
		}
		return starter(t, name)(o)
	}
}

func TestUnfinishedRefreshIsALowerBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := prepared(t, subject.Statekeel, func(target *subject.Target) {
			var once sync.Once
			target.SetBatchRule(func() { once.Do(func() { time.Sleep(time.Second) }) })
		})
		figures, err := named(t, "refresh-batch").Measure(t.Context(),
			workload.Env{Sizes: workload.Tiny(), Part: "1k_100ms", Start: start})
		require.NoError(t, err)
		assert.Equal(t, workload.Figures{
			{Metric: "calls_1k_100ms", Unit: "calls", Better: workload.Less, Value: 1, AtLeast: true},
			{Metric: "time_1k_100ms", Unit: "ms", Better: workload.Less, Value: 300, AtLeast: true},
			{Metric: "unfinished_1k_100ms", Unit: "% of rows", Better: workload.Less, Value: 100},
		}, figures)
	})
}

func TestFinishedRefreshIsNotALowerBound(t *testing.T) {
	sizes := workload.Tiny()
	sizes.Cap = time.Minute
	for _, name := range []string{subject.Statekeel, subject.Peer} {
		synctest.Test(t, func(t *testing.T) {
			figures, err := named(t, "refresh-batch").Measure(t.Context(),
				workload.Env{Sizes: sizes, Part: "1k_5ms", Start: starter(t, name)})
			require.NoError(t, err)
			for _, f := range figures {
				assert.False(t, f.AtLeast, f.Metric)
			}
			assert.Zero(t, figures.Find("unfinished_1k_5ms"))
			assert.GreaterOrEqual(t, figures.Find("time_1k_5ms"), 5*figures.Find("calls_1k_5ms"))
		})
	}
}

func TestRefreshWithFreeCallsFailsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := prepared(t, subject.Statekeel, func(target *subject.Target) { target.SetBatchRule(nil) })
		_, err := named(t, "refresh-batch").Measure(t.Context(),
			workload.Env{Sizes: workload.Tiny(), Part: "1k_5ms", Start: start})
		assert.ErrorContains(t, err, "check failed: us since the rows were due, for the calls that there were: got ")
	})
}

func TestRetryInTimeIsNotALowerBound(t *testing.T) {
	t.Parallel()
	sizes := workload.Tiny()
	sizes.Cap = time.Minute
	figures, err := named(t, "starvation").Measure(t.Context(),
		workload.Env{Sizes: sizes, Start: starter(t, subject.Statekeel)})
	require.NoError(t, err)
	assert.EqualValues(t, 1, figures.Find("retried"))
	assert.False(t, figures[0].AtLeast)
}

func TestProfileCoversOnlyTheFirstMeasuredSection(t *testing.T) {
	var began, ended int
	env := workload.Env{
		Sizes: workload.Tiny(),
		Start: starter(t, subject.Floor),
		Profile: func() (func() error, error) {
			began++
			return func() error { ended++; return nil }, nil
		},
	}
	_, err := named(t, "noop-single").Measure(t.Context(), env)
	require.NoError(t, err)
	assert.Equal(t, 1, began)
	assert.Equal(t, 1, ended)

	env.Profile = func() (func() error, error) {
		return func() error { return errors.New("disk full") }, nil
	}
	_, err = named(t, "noop-single").Measure(t.Context(), env)
	assert.EqualError(t, err, "write the CPU profile: disk full")
}
