// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package report

import (
	"fmt"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// goal is a bound on a figure that Statekeel wants to reach.
type goal struct {
	workload, metric string
	// against selects what the figure is compared with.
	against against
	// bound is the lower or the upper limit, depending on better.
	bound  float64
	better workload.Better
}

type against int8

const (
	itself            against = iota // the figure as it is
	ratioToPeer                      // divided by the peer's better variant's
	ratioToFloor                     // divided by the floor's
	ratioToOne                       // divided by that of Statekeel with its defaults: with one worker
	ratioToBare                      // divided by that of Statekeel without metrics
	beyondFloor                      // less the floor's
	beyondPeer                       // less the peer's
	ratioToKube                      // divided by that of controller-runtime with as many workers
	ratioToXP                        // divided by that of crossplane-runtime with as many workers
	ratioToWatchers                  // divided by that of bare watchers of the store
	ratioToInRow                     // divided by that of Statekeel with the status in the rows
	growthBeyondFloor                // less the floor's, as a multiple of the same with a tenth of the rows
	beyondUpdate                     // less that of bare operations with the same loop and rows
)

// isDifference reports whether the figures are subtracted, not divided.
func (a against) isDifference() bool {
	switch a {
	case beyondFloor, beyondPeer, beyondUpdate, growthBeyondFloor:
		return true
	default:
		return false
	}
}

func goals() []goal {
	return []goal{
		{"noop-single", "throughput", ratioToPeer, 1.2, workload.More},
		{"noop-single", "throughput", ratioToFloor, 0.92, workload.More},
		{"noop-single", "allocs", beyondFloor, 1, workload.Less},
		{"noop-batch", "throughput", ratioToPeer, 1.2, workload.More},
		{"noop-batch", "throughput", ratioToFloor, 0.92, workload.More},
		{"noop-batch", "allocs", beyondFloor, 1, workload.Less},
		{"noop-10m", "cpu", growthBeyondFloor, 1.1, workload.Less},
		{"noop-10m", "throughput", ratioToPeer, 1.1, workload.More},
		{"load-15us", "insert_wall", ratioToPeer, 1, workload.Less},
		{"load-15us", "insert_cpu", ratioToPeer, 1, workload.Less},
		{"load-15us", "delete_wall", ratioToPeer, 1, workload.Less},
		{"load-15us", "delete_cpu", ratioToPeer, 1, workload.Less},
		{"noop-beside-single", "throughput", ratioToPeer, 2.5, workload.More},
		{"noop-beside-single", "throughput", ratioToFloor, 0.85, workload.More},
		// A round allocates, an object does not.
		{"noop-beside-single", "allocs", beyondFloor, 0.05, workload.Less},
		{"noop-beside-single", "heap_total", beyondFloor, 1, workload.Less},
		{"noop-beside-batch", "throughput", ratioToPeer, 2.5, workload.More},
		{"noop-beside-batch", "throughput", ratioToFloor, 0.85, workload.More},
		{"noop-beside-batch", "allocs", beyondFloor, 0.05, workload.Less},
		{"noop-beside-batch", "heap_total", beyondFloor, 1, workload.Less},
		{"noop-beside-workers-8", "throughput", itself, 500_000, workload.More},
		{"failing-100k", "cpu", itself, 2.5, workload.Less},
		{"failing-100k", "heal", itself, 1.2, workload.Less},
		{"failing-pass", "slowdown", itself, 2, workload.Less},
		{"failing-pass", "heap_beyond_row", itself, 400, workload.Less},
		{"parked", "p50_growth", itself, 1.2, workload.Less},
		{"starvation", "late", itself, 100, workload.Less},
		{"latency-b2b", "p50", itself, 25, workload.Less},
		{"latency-b2b", "burst_throughput", ratioToPeer, 1, workload.More},
		{"latency-b2b", "burst_batch", ratioToPeer, 1, workload.More},
		{"statusset-8", "throughput", ratioToPeer, 1.5, workload.More},
		{"reconcilers-8-beside", "throughput", ratioToPeer, 12, workload.More},
		{"reconcilers-8-beside", "cpu_each", itself, 0.5, workload.Less},
		{"refresh", "cpu", itself, 4, workload.Less},
		{"refresh", "fresh_p99", itself, 2000, workload.Less},
		// For any cost of a call.
		{"refresh-batch", "calls_1k_5ms", itself, 20, workload.Less},
		{"refresh-batch", "calls_1k_100ms", itself, 20, workload.Less},
		{"restart-equal", "beyond_listing", itself, 1.5, workload.Less},
		{"restart-equal", "operations", itself, 0, workload.Less},
		{"restart-1-percent", "operations", itself, 7000, workload.Less},
		{"resync", "beyond_listing", itself, 2, workload.Less},
		{"resync", "fresh_p99", itself, 10, workload.Less},
		{"resync", "memory", itself, 16, workload.Less},
		// At most the peer's, with an allowance for the measurement: see the workload.
		{"idle", "cpu", beyondPeer, 1, workload.Less},
		{"slow-1ms", "throughput", ratioToPeer, 50, workload.More},
		{"stuck-64", "p50_growth_stuck", itself, 2, workload.Less},
		{"head-of-line", "p50_earlier", itself, 10, workload.Less},
		{"head-of-line", "p50_same", itself, 10, workload.Less},
		{"behind-backlog", "max", itself, 50, workload.Less},
		{"breaker", "cpu", itself, 0.02, workload.Less},
		{"breaker", "heal", itself, 1.5, workload.Less},
		// The maximum on two cores is 2.
		{"workers-4", "throughput", ratioToOne, 1.5, workload.More},
		{"observed-noop", "throughput", ratioToBare, 0.95, workload.More},
		{"observed-noop", "explain_p99", itself, 1000, workload.Less},
		{"request-1", "throughput", ratioToKube, 2.5, workload.More},
		{"request-8", "throughput", ratioToKube, 2.5, workload.More},
		{"stepper", "time", beyondUpdate, 2, workload.Less},
		{"stepper", "cpu", beyondUpdate, 2, workload.Less},
		{"stateful", "time", beyondUpdate, 3, workload.Less},
		{"stateful", "cpu", beyondUpdate, 3, workload.Less},
		{"managed-1", "throughput", ratioToXP, 10, workload.More},
		{"managed-8", "throughput", ratioToXP, 10, workload.More},
		{"fleet-1000", "p99", ratioToWatchers, 1.5, workload.Less},
		{"fleet-1000", "p99", itself, 250, workload.Less},
		{"derive-best", "cpu", itself, 5, workload.Less},
	}
}

// besideGoals are the goals for the ledger beside the table, in workloads that measure both ledgers.
func besideGoals() []goal {
	return []goal{
		{"noop-10m", "cpu_growth", itself, 1.1, workload.Less},
		{"failing-100k", "cpu", itself, 3, workload.Less},
		{"failing-pass", "cpu_failing", itself, 9, workload.Less},
		{"failing-pass", "pass_failing", ratioToInRow, 1, workload.Less},
		{"latency-b2b", "p50", itself, 15, workload.Less},
		{"refresh", "cpu", itself, 1.5, workload.Less},
		{"refresh", "fresh_p99", itself, 1000, workload.Less},
		{"blocked-many", "release", itself, 1, workload.Less},
	}
}

// answer is the result of a goal.
type answer struct {
	wanted, measured string
	met              bool
	shortfall        string // "" if met
}

// answer evaluates the goal for the workload's variant of Statekeel; it returns false if the series did not
// measure it.
func (g goal) answer(r *series.Result) (answer, bool) { return g.answerOf(r, r.Workload.Ours()) }

// answerOf is answer for a variant of Statekeel.
func (g goal) answerOf(r *series.Result, ours string) (answer, bool) {
	metric, known := r.Metric(g.metric)
	own := r.Figure(ours, g.metric)
	if !known || own.Runs == 0 {
		return answer{}, false
	}
	var (
		value float64
		unit  = metric.Unit
		bound = g.bound
		than  string
	)
	switch g.against {
	case itself:
		value = own.Median
	case ratioToPeer, ratioToFloor, ratioToOne, ratioToBare, ratioToInRow, ratioToKube, ratioToXP, ratioToWatchers:
		other := g.other(r, metric)
		ratio := r.Ratio(ours, other, g.metric)
		if ratio.Runs == 0 {
			return answer{}, false
		}
		value, unit, than = ratio.Median, "x", " "+other
	case beyondFloor, beyondPeer, beyondUpdate:
		other := g.other(r, metric)
		if other == "" {
			return answer{}, false
		}
		value, than = own.Median-r.Figure(other, g.metric).Median, " beyond "+other
	case growthBeyondFloor:
		other, fewer := g.other(r, metric), g.metric+workload.AmongFewer
		if other == "" || r.Figure(ours, fewer).Runs == 0 {
			return answer{}, false
		}
		value = own.Median - r.Figure(other, g.metric).Median
		base := max(0, r.Figure(ours, fewer).Median-r.Figure(other, fewer).Median)
		bound = g.bound * base
		than = fmt.Sprintf(" beyond %s (%s x the %s of %s)", other, number(g.bound), number(base), fewer)
	}
	a := answer{
		wanted:   fmt.Sprintf("%s %s %s%s", atMost(g.better), number(bound), unit, than),
		measured: fmt.Sprintf("%s %s", number(value), unit),
	}
	if ours != subject.Statekeel {
		a.measured += " by " + ours
	}
	if g.better == workload.More {
		a.met = value >= bound
	} else {
		a.met = value <= bound && !own.AtLeast
	}
	if !a.met {
		a.shortfall = shortfall(value-bound, bound, unit)
	}
	return a, true
}

// other returns the contender that the goal compares with: the better one of a peer's variants.
func (g goal) other(r *series.Result, metric series.Metric) string {
	switch g.against {
	case ratioToPeer, beyondPeer:
		return r.Best(metric, r.Workload.AgainstPeers()...)
	case ratioToOne, ratioToInRow:
		return r.Best(metric, subject.Statekeel)
	case ratioToBare:
		return r.Best(metric, subject.StatekeelBare)
	case ratioToKube:
		return r.Best(metric, subject.ControllerRuntime, subject.ControllerRuntime8)
	case ratioToXP:
		return r.Best(metric, subject.Crossplane, subject.Crossplane8)
	case ratioToWatchers:
		return r.Best(metric, subject.Watchers)
	case beyondUpdate:
		return r.Best(metric, subject.Statekeel, subject.StatekeelResources)
	default:
		return r.Best(metric, subject.Floor, subject.FloorBeside)
	}
}

func atMost(b workload.Better) string {
	if b == workload.More {
		return "at least"
	}
	return "at most"
}

// shortfall renders by how much a goal was missed: as a share of the bound, unless that is 0.
func shortfall(by, bound float64, unit string) string {
	if by < 0 {
		by = -by
	}
	if bound == 0 {
		return fmt.Sprintf("short by %s %s", number(by), unit)
	}
	return fmt.Sprintf("short by %s %%", number(100*by/bound))
}
