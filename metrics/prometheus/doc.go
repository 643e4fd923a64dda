// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package prometheus exports the figures of reconcilers to Prometheus. Each scrape reads them from
// the reconcilers at that moment; between scrapes it costs nothing.
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
// To have expvar as well, use [metrics.Join]. The package is a module of its own.
//
// # Labels
//
// Every metric has the label "reconciler": the module ID, followed by "/" and the name if the
// reconciler has one. The other labels are "operation" (update, delete), "result" (done, failed,
// terminal, blocked, requeued) and "state" (the states of [metrics.Figures]). Their values are
// fixed: the number of series does not grow with the number of objects, and no label contains the
// name of an object.
//
// # Histograms
//
// Histograms are native histograms with buckets that are 9 % wide, which Prometheus stores if configured
// (scrape_native_histograms: true). They also have classic buckets, at every fourth power of two:
// [WithoutClassicBuckets] avoids sending them.
//
// # Sources and derivations
//
// [NewInputs] exports how far the tables of a database have followed what fills them, with the labels
// "table" and "input": whether a source such as etcd is away, and what is rejected: see [Inputs]. [NewAcks]
// exports what the program tells etcd of how far it is: see [Acks].
//
// # Dashboard and alerts
//
// The folder of this package contains dashboard.json for Grafana and alerts.yaml, rules for
// Prometheus. Both use the names that metrics have without [WithNamespace], and work with both
// kinds of histograms.
package prometheus
