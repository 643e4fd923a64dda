// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package prometheus shows the figures of reconcilers to Prometheus. Each scrape reads
// them from the reconcilers at that moment; between scrapes it costs them nothing.
//
//	figures, err := prometheus.New()
//	if err != nil {
//		return err
//	}
//	registry := client.NewRegistry() // of github.com/prometheus/client_golang/prometheus
//	registry.MustRegister(figures)
//	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//
//	config.Options = append(config.Options, reconciler.WithMetrics(figures))
//	loop, err := reconciler.New(config)
//
// To have expvar as well, use [metrics.Join].
//
// # Its module
//
// The package is a module of its own. While nothing has been released, the go.mod of a program
// that imports it needs two replaces, here with a clone of the repository beside the program:
//
//	replace github.com/statekeel/statekeel => ../statekeel
//
//	replace github.com/statekeel/statekeel/metrics/prometheus => ../statekeel/metrics/prometheus
//
// With only the first, "go mod tidy" says that module github.com/statekeel/statekeel "does not
// contain package" metrics/prometheus.
//
// # Labels
//
// Every metric has the label "reconciler": the module ID, followed by "/" and the name if
// the reconciler has one. The other labels are "operation" (update, delete), "result"
// (done, failed, terminal, blocked, requeued) and "state" (those that a reconciler tells
// apart). Their values are fixed: the number of series does not grow with objects, and no
// metric has the name of one.
//
// # Histograms
//
// They are native histograms, whose buckets are 9 % wide, and have classic buckets for
// those who do not take native ones: at each fourth power of two, where the counts are
// exact. Prometheus stores native histograms if told so (scrape_native_histograms: true, in
// older versions a feature flag) and then leaves the classic buckets out; otherwise it takes
// those. [WithoutClassicBuckets] saves sending them.
//
// # Managed resources
//
// [NewManaged] shows the figures of managed reconcilers in the same way, with the label "kind" in
// place of "reconciler": see [Managed].
//
// # Dashboard and alerts
//
// Beside this package are dashboard.json, for Grafana, and alerts.yaml, rules for
// Prometheus. Both use the names that metrics have without [WithNamespace], and work with
// both kinds of histograms.
package prometheus
