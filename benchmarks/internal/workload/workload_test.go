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
	"resync":       true, // it cannot list its target
	"blocked-many": true, "observed-noop": true, "stuck-64": true,
	"request-1": true, "request-8": true, "stepper": true, "stateful": true,
	"managed-1": true, "managed-8": true, "derive-best": true, "fleet-1000": true, "relist-100k": true,
}

func TestCatalogueIsComplete(t *testing.T) {
	names := map[string]bool{}
	contenders := map[string]bool{}
	for _, c := range subject.Contenders() {
		contenders[c.Name] = true
	}
	for _, w := range workload.All() {
		assert.False(t, names[w.Name], w.Name)
		names[w.Name] = true
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

// uncounted are the parts of workloads in which a row may be updated any number of times, or of which no row is.
var uncounted = map[string]bool{
	"statusset-1": true, "statusset-8": true, "reconcilers-8-beside": true, "refresh": true, "refresh-batch 1k_100ms": true,
}

func TestWrongCountFailsTheRun(t *testing.T) {
	for _, w := range workload.All() {
		// derive-best has no reconciler: it compares the derived rows.
		if contender(t, w.Ours()).Start == nil || w.Name == "derive-best" {
			continue
		}
		for _, part := range w.AllParts() {
			name := strings.TrimSpace(w.Name + " " + part)
			tamper := func(complaint string, wrong func(subject.System, map[subject.Kind]uint64)) {
				t.Run(name+"/"+complaint, func(t *testing.T) {
					t.Parallel()
					start := func(o subject.Options) (subject.System, error) {
						sys, err := starter(t, w.Ours())(o)
						return tampered{sys, func() map[subject.Kind]uint64 {
							counts := sys.Count()
							wrong(sys, counts)
							return counts
						}}, err
					}
					_, err := w.Measure(t.Context(), workload.Env{Sizes: workload.Tiny(), Part: part, Start: start})
					require.Error(t, err)
					assert.Regexp(t, "check failed: "+complaint, err.Error())
				})
			}
			tamper("rows that are Error", func(_ subject.System, counts map[subject.Kind]uint64) { counts[subject.Failed]++ })
			if !uncounted[name] {
				tamper("(successful )?Update calls.*: got ", func(sys subject.System, _ map[subject.Kind]uint64) {
					// One call is added when the rows are counted at the end.
					_ = sys.Targets()[0].Update(1)
				})
			}
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

func TestRetryIsALowerBoundOnlyIfItStarves(t *testing.T) {
	t.Parallel()
	starvation := func(contender string, limit time.Duration) workload.Figures {
		sizes := workload.Tiny()
		sizes.Cap = limit
		figures, err := named(t, "starvation").Measure(t.Context(), workload.Env{Sizes: sizes, Start: starter(t, contender)})
		require.NoError(t, err)
		return figures
	}
	figures := starvation(subject.Peer, workload.Tiny().Cap)
	assert.Zero(t, figures.Find("retried"))
	assert.Equal(t, 200.0, figures.Find("retry_wait"), "50 ms until due and the cap of 150 ms")
	assert.Equal(t, 150.0, figures.Find("late"))
	assert.True(t, figures[0].AtLeast)
	figures = starvation(subject.Statekeel, time.Minute)
	assert.EqualValues(t, 1, figures.Find("retried"))
	assert.False(t, figures[0].AtLeast)
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

func TestRefreshWithFreeCallsFailsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := prepared(t, subject.Statekeel, func(target *subject.Target) { target.SetBatchRule(nil) })
		_, err := named(t, "refresh-batch").Measure(t.Context(),
			workload.Env{Sizes: workload.Tiny(), Part: "1k_5ms", Start: start})
		assert.ErrorContains(t, err, "check failed: us since the rows were due, for the calls that there were: got ")
	})
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
