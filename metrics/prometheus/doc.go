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
//
// [metrics.Join] adds expvar. [NewInputs] exports what fills tables, [NewAcks] what the program tells etcd. dashboard.json
// for Grafana and alerts.yaml for Prometheus are in the folder of this package. Both need the names that metrics have
// without [WithNamespace], and work with native and with classic histograms ([WithoutClassicBuckets]).
//
// Every metric has the label "reconciler": the module ID, followed by "/" and the name if it has one. The other
// labels are "operation" (update, delete), "result" (done, failed, terminal, blocked, requeued) and "state" (the states of
// [metrics.Figures]): the number of series does not grow with the number of objects.
package prometheus
