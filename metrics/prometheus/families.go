// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus

import (
	"time"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/statekeel/statekeel/metrics"
)

// Names of labels.
const (
	labelReconciler = "reconciler"
	labelOperation  = "operation"
	labelResult     = "result"
	labelState      = "state"
)

// number is a metric with one series for each reconciler.
type number struct {
	name, help string
	kind       client.ValueType
	of         func(*metrics.Figures) float64
}

// numbers are the metrics of this kind, except ages, which need a clock.
var numbers = []number{
	{"retries_total", "Operations on an object that had failed the time before.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Retries) }},
	{"released_total", "Blocked objects of which what they waited for happened.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Released) }},
	{"refreshes_total", "Objects that were refreshed, repaired, or applied again by a trigger.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Refreshes) }},
	{"panics_total", "Calls of operations that panicked.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Panics) }},
	{"timeouts_total", "Calls of operations that failed after their deadline.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Timeouts) }},
	{"stuck_operations", "Calls of operations that are stuck on workers: well past their deadline, or running for a minute without one.", client.GaugeValue,
		func(f *metrics.Figures) float64 { return float64(f.Stuck) }},
	{"breaker_openings_total", "How often the breaker opened.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.BreakerOpenings) }},
	{"breakers_open", "1 while the breaker is open, else 0.", client.GaugeValue,
		func(f *metrics.Figures) float64 { return float64(f.BreakersOpen) }},

	{"objects", "Rows of the table.", client.GaugeValue,
		func(f *metrics.Figures) float64 { return float64(f.Objects) }},
	{"unseen_changes", "About how many changes the reconciler has not looked at yet.", client.GaugeValue,
		func(f *metrics.Figures) float64 { return float64(f.Unseen) }},
	{"failing_objects", "Objects whose last attempt failed.", client.GaugeValue,
		func(f *metrics.Figures) float64 { return float64(f.Failing) }},
	{"blocked_objects", "Objects whose last attempt was blocked.", client.GaugeValue,
		func(f *metrics.Figures) float64 { return float64(f.Blocked) }},
	{"unheld_objects", "Failing objects whose repairs work and do not hold.", client.GaugeValue,
		func(f *metrics.Figures) float64 { return float64(f.Unheld) }},
	{"paused", "1 if the reconciler is paused as a whole, else 0.", client.GaugeValue,
		func(f *metrics.Figures) float64 {
			if f.Paused {
				return 1
			}
			return 0
		}},
	{"unset_total", "Changes of rows without a status, which were left alone.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Unset) }},

	{"commit_lost_total", "Outcomes that were not written, since the object had changed or was deleted.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Lost) }},
	{"commit_conflicts_total", "Outcomes that were written onto an object that another reconciler had written meanwhile.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Conflicts) }},

	{"prune_errors_total", "Prunes and resyncs that failed, or await approval.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.PruneErrors) }},
	{"listed_total", "Objects of the target that were listed.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Listed) }},
	{"adopted_total", "Objects that the target had already, so that no operation was called.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Adopted) }},
	{"different_total", "Objects that were applied, and that resyncs found different in the target.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Different) }},
	{"missing_total", "Objects that were applied, and that resyncs did not find in the target.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Missing) }},
	{"orphans_total", "Objects of the target that no row wanted, as resyncs found.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Orphans) }},
	{"repairs_total", "Operations on objects that a resync had found different or missing.", client.CounterValue,
		func(f *metrics.Figures) float64 { return float64(f.Repairs) }},
}

// spread is a histogram with one series for each reconciler.
type spread struct {
	name, help string
	// bounds are the classic buckets, as exponents of two.
	bounds []int
	of     func(*metrics.Figures) *metrics.Histogram
}

var spreads = []spread{
	{"write_to_applied_seconds", "Time from when a change was written until it was applied and that was committed.", seconds,
		func(f *metrics.Figures) *metrics.Histogram { return &f.Latency }},
	{"in_force_seconds", "Time from a change at the beginning of a chain of derived tables until what follows was applied.", seconds,
		func(f *metrics.Figures) *metrics.Histogram { return &f.InForce }},
	{"round_duration_seconds", "Time that each round took.", seconds,
		func(f *metrics.Figures) *metrics.Histogram { return &f.Rounds }},
	{"commit_size", "Statuses in each commit.", sizes,
		func(f *metrics.Figures) *metrics.Histogram { return &f.CommitSizes }},
	{"commit_duration_seconds", "Time that each commit took, waiting for the table included.", seconds,
		func(f *metrics.Figures) *metrics.Histogram { return &f.CommitDurations }},
	{"prune_duration_seconds", "Time that each prune or resync took, failed ones included.", seconds,
		func(f *metrics.Figures) *metrics.Histogram { return &f.Prunes }},
}

// families are all metrics, with the names and labels that the options set.
type families struct {
	classic bool

	operations, durations, states, oldest *client.Desc
	// derived, edges and edgesToAll are of derivations with further inputs.
	derived, edges, edgesToAll *client.Desc
	// numbers and spreads are in the order of the package variables of the same names.
	numbers, spreads []*client.Desc
}

func newFamilies(s *settings) *families {
	desc := func(name, help string, labels ...string) *client.Desc {
		return s.desc(name, help, append([]string{labelReconciler}, labels...)...)
	}
	fs := &families{
		classic: !s.noClassic,
		operations: desc("operations_total", "Operations on objects, by what they came back with.",
			labelOperation, labelResult),
		durations: desc("operation_duration_seconds", "Time that each call took: for one object, or for a batch.",
			labelOperation),
		states:     desc("objects_in_state", "Objects that are not reconciled, by their state.", labelState),
		derived:    desc("derived_total", "Calls of the function of a derivation for changes of an input, by its table.", labelInput),
		edges:      desc("lookups", "Look-ups in further inputs that a derivation remembers."),
		edgesToAll: desc("table_lookups", "Look-ups of whole tables that a derivation remembers."),
		oldest:     desc("oldest_unapplied_seconds", "Age of the oldest change that is not applied, 0 if all are."),
	}
	for _, n := range numbers {
		fs.numbers = append(fs.numbers, desc(n.name, n.help))
	}
	for _, s := range spreads {
		fs.spreads = append(fs.spreads, desc(s.name, s.help))
	}
	return fs
}

func (fs *families) describe(descs chan<- *client.Desc) {
	for _, d := range []*client.Desc{
		fs.operations, fs.durations, fs.states, fs.oldest, fs.derived, fs.edges, fs.edgesToAll,
	} {
		descs <- d
	}
	for _, d := range fs.numbers {
		descs <- d
	}
	for _, d := range fs.spreads {
		descs <- d
	}
}

// collect sends all metrics of one reconciler. since is the start of its counters.
func (fs *families) collect(out chan<- client.Metric, reconciler string, since time.Time, f *metrics.Figures) {
	fs.collectOperations(out, reconciler, metrics.OpUpdate, since, &f.Updates)
	fs.collectOperations(out, reconciler, metrics.OpDelete, since, &f.Deletes)
	for _, s := range f.States {
		out <- gauge(fs.states, float64(s.Count), reconciler, s.State)
	}
	for _, c := range f.Calls {
		out <- counter(fs.derived, float64(c.Count), since, reconciler, c.State)
	}
	if len(f.Calls)+f.Edges+f.EdgesToAll > 0 {
		out <- gauge(fs.edges, float64(f.Edges), reconciler)
		out <- gauge(fs.edgesToAll, float64(f.EdgesToAll), reconciler)
	}
	out <- gauge(fs.oldest, f.UnappliedFor(time.Now()).Seconds(), reconciler)
	for i, n := range numbers {
		if n.kind == client.CounterValue {
			out <- counter(fs.numbers[i], n.of(f), since, reconciler)
		} else {
			out <- gauge(fs.numbers[i], n.of(f), reconciler)
		}
	}
	for i, s := range spreads {
		out <- fs.histogram(fs.spreads[i], s.of(f), s.bounds, since, reconciler)
	}
}

func (fs *families) collectOperations(out chan<- client.Metric, reconciler, operation string, since time.Time, o *metrics.OperationFigures) {
	for _, r := range []struct {
		result string
		count  uint64
	}{
		{"done", o.Done},
		{"failed", o.Failed},
		{"terminal", o.Terminal},
		{"blocked", o.Blocked},
		{"requeued", o.Requeued},
	} {
		out <- counter(fs.operations, float64(r.count), since, reconciler, operation, r.result)
	}
	out <- fs.histogram(fs.durations, &o.Durations, seconds, since, reconciler, operation)
}
