// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prometheus

import (
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cilium/hive/cell"
	client "github.com/prometheus/client_golang/prometheus"

	"github.com/statekeel/statekeel/metrics"
)

// Metrics is a [metrics.Metrics] for reconcilers and a [client.Collector] to register with
// Prometheus. It stores no figures: it reads those of the reconcilers at each scrape and ignores
// the calls in between. It is safe for concurrent use. See [New].
type Metrics struct {
	metrics.Metrics
	families *families

	mu       sync.Mutex
	attached map[string]*attached
}

// attached is a reconciler that is scraped.
type attached struct {
	source metrics.Source
	since  time.Time
}

var (
	_ metrics.Metrics  = (*Metrics)(nil)
	_ metrics.Binder   = (*Metrics)(nil)
	_ metrics.Attacher = (*Metrics)(nil)
	_ client.Collector = (*Metrics)(nil)
)

// New returns a Metrics without reconcilers. One Metrics serves all reconcilers of a program; two
// can be registered together if they differ in their namespace or in the values of their constant
// labels. The error joins everything that is wrong with the options.
func New(options ...Option) (*Metrics, error) {
	s, err := settingsOf(options)
	if err != nil {
		return nil, err
	}
	return &Metrics{
		Metrics:  metrics.Discard,
		families: newFamilies(s),
		attached: map[string]*attached{},
	}, nil
}

// Bind returns a handle that ignores all figures and costs nothing: scrapes read the source given
// to [Metrics.Attach].
func (m *Metrics) Bind(moduleID cell.FullModuleID, name string) metrics.Handle {
	return metrics.Bind(metrics.Discard, moduleID, name)
}

// Attach adds a reconciler to the scrapes until detach is called. It replaces a reconciler with the
// same module and name.
func (m *Metrics) Attach(moduleID cell.FullModuleID, name string, source metrics.Source) (detach func()) {
	label := reconcilerLabel(moduleID, name)
	a := &attached{source: source, since: time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attached[label] = a
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.attached[label] == a {
			delete(m.attached, label)
		}
	}
}

// reconcilerLabel returns the value of the label of a reconciler: its key in [metrics.ExpVar],
// encoded by [labelValue].
func reconcilerLabel(moduleID cell.FullModuleID, name string) string {
	label := moduleID.String()
	if name != "" {
		label += "/" + name
	}
	return labelValue(label)
}

// labelValue returns a text as a valid label value, which is UTF-8. Other text, and text that looks
// like quoted text, is quoted as in Go. So two texts never become one, which would fail the scrape
// or hide a reconciler.
func labelValue(text string) string {
	if !utf8.ValidString(text) || strings.HasPrefix(text, `"`) {
		return strconv.Quote(text)
	}
	return text
}

// Describe is called by the registry.
func (m *Metrics) Describe(descs chan<- *client.Desc) {
	m.families.describe(descs)
}

// Collect is called by the registry at each scrape. It does not wait for reconcilers.
func (m *Metrics) Collect(out chan<- client.Metric) {
	m.mu.Lock()
	all := maps.Clone(m.attached)
	m.mu.Unlock()
	for reconciler, a := range all {
		figures := a.source.Figures()
		m.families.collect(out, reconciler, a.since, &figures)
	}
}
