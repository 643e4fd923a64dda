// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package prometheus exports the figures of reconcilers to Prometheus. Each scrape reads them from the reconcilers at that
// moment; between scrapes it costs nothing.
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
// To have expvar as well, use [metrics.Join]. [NewInputs] exports what fills tables, [NewAcks] what the program tells etcd.
// The folder of this package contains dashboard.json for Grafana and alerts.yaml, rules for Prometheus. Both use the names
// that metrics have without [WithNamespace], and work with both kinds of histograms.
//
// Every metric has the label "reconciler": the module ID, followed by "/" and the name if the reconciler has one. The other
// labels are "operation" (update, delete), "result" (done, failed, terminal, blocked, requeued) and "state" (the states of
// [metrics.Figures]). Their values are fixed: the number of series does not grow with the number of objects.
//
// Histograms are native histograms with buckets that are 9 % wide, which Prometheus stores if configured
// (scrape_native_histograms: true). They also have classic buckets, at every fourth power of two, unless
// [WithoutClassicBuckets] is set.
package prometheus
