// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus

import (
	client "github.com/prometheus/client_golang/prometheus"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// Managed is a [managed.Metrics] for managed reconcilers, see [managed.WithMetrics], and a
// [client.Collector] to register with Prometheus. One Managed serves all managed reconcilers of a
// program. Each of its metrics has the label "kind" (of [managed.WithKind], never the name of an
// object):
//
//   - managed_resource_known: objects that have had a pass and are not gone;
//   - managed_resource_exists, managed_resource_ready, managed_resource_synced: the number of them whose external resource exists, and whose conditions are True;
//   - managed_resource_first_time_to_reconcile_seconds and managed_resource_first_time_to_readiness_seconds: the time from being wanted to the first pass, and to being ready for the first time;
//   - managed_resource_deletion_seconds: the time from the request of a deletion until the object is gone;
//   - managed_resource_drift_seconds: for each repaired drift, its largest possible age.
//
// The last four are histograms, like those of [Metrics]. The names begin with the namespace and
// "_": with [WithNamespace] "crossplane", all but the first are the names of crossplane-runtime.
// Managed is safe for concurrent use. See [NewManaged].
type Managed struct {
	managed.Book
	values families
	counts []*client.Desc
	times  []*client.Desc
}

var (
	_ managed.Metrics  = (*Managed)(nil)
	_ client.Collector = (*Managed)(nil)
)

const labelKind = "kind"

// managedCount is a metric that counts objects of a kind.
type managedCount struct {
	name, help string
	of         func(*managed.KindFigures) int
}

var managedCounts = []managedCount{
	{"managed_resource_known", "Objects that have had a pass and are not gone.",
		func(f *managed.KindFigures) int { return f.Objects }},
	{"managed_resource_exists", "Objects whose external resource exists, as observed last.",
		func(f *managed.KindFigures) int { return f.Existing }},
	{"managed_resource_ready", "Objects whose condition Ready is True.",
		func(f *managed.KindFigures) int { return f.Ready }},
	{"managed_resource_synced", "Objects whose condition Synced is True.",
		func(f *managed.KindFigures) int { return f.Synced }},
}

// managedTime is a histogram with one series for each kind.
type managedTime struct {
	name, help string
	of         func(*managed.KindFigures) *metrics.Histogram
}

var managedTimes = []managedTime{
	{"managed_resource_first_time_to_reconcile_seconds", "Time from when an object was wanted to the end of its first pass.",
		func(f *managed.KindFigures) *metrics.Histogram { return &f.FirstReconcile }},
	{"managed_resource_first_time_to_readiness_seconds", "Time from when an object was wanted until it was ready first.",
		func(f *managed.KindFigures) *metrics.Histogram { return &f.FirstReady }},
	{"managed_resource_deletion_seconds", "Time from when a deletion was asked for until the object was gone.",
		func(f *managed.KindFigures) *metrics.Histogram { return &f.Deletion }},
	{"managed_resource_drift_seconds", "Of each repaired drift, time since the external resource was as wanted last.",
		func(f *managed.KindFigures) *metrics.Histogram { return &f.Drift }},
}

// NewManaged returns a Managed without figures. It takes the options of [New], and can be
// registered beside a [Metrics] with the same namespace; "kind" must not be a constant label. The
// error joins everything that is wrong with the options.
func NewManaged(options ...Option) (*Managed, error) {
	s, err := settingsOf(options, labelKind)
	if err != nil {
		return nil, err
	}
	m := &Managed{values: families{classic: !s.noClassic}}
	for _, c := range managedCounts {
		m.counts = append(m.counts, s.desc(c.name, c.help, labelKind))
	}
	for _, t := range managedTimes {
		m.times = append(m.times, s.desc(t.name, t.help, labelKind))
	}
	return m, nil
}

// Describe is called by the registry.
func (m *Managed) Describe(descs chan<- *client.Desc) {
	for _, d := range m.counts {
		descs <- d
	}
	for _, d := range m.times {
		descs <- d
	}
}

// Collect is called by the registry, at each scrape. It waits for no reconciler.
func (m *Managed) Collect(out chan<- client.Metric) {
	for kind, f := range m.Figures() {
		kind = labelValue(kind)
		for i, c := range managedCounts {
			out <- gauge(m.counts[i], float64(c.of(&f)), kind)
		}
		for i, t := range managedTimes {
			out <- m.values.histogram(m.times[i], t.of(&f), seconds, f.Since, kind)
		}
	}
}
