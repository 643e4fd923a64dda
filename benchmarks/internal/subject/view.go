// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/metrics/prometheus"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// View is what a program has mounted to show what its reconcilers do.
type View struct {
	// Registry holds the reconcilers.
	Registry *inspect.Registry
	// MetricsURL is for Prometheus to scrape, VarsURL has the expvar variables of the process, and ShowURL
	// is the page of the first reconciler, as JSON.
	MetricsURL, VarsURL, ShowURL string
}

// mount is a View that is served until it is closed.
type mount struct {
	registry   *inspect.Registry
	metrics    metrics.Metrics
	prometheus *client.Registry
	listener   net.Listener
	server     http.Server
	served     chan error
}

// The paths are those that the documentation of each recommends.
const (
	metricsPath = "/metrics"
	varsPath    = "/debug/vars"
	pagePath    = "/debug/reconciler/"
)

func startObserved(o Options) (System, error) {
	m, err := newMount()
	if err != nil {
		return nil, err
	}
	sys, err := statekeel.start(o, statekeelVariant{options: []reconciler.Option{
		reconciler.WithMetrics(m.metrics), reconciler.WithRegistry(m.registry),
	}})
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	for len(m.registry.All()) == 0 { // the loop adds itself as it starts
		time.Sleep(time.Millisecond)
	}
	return &observed{System: sys, mount: m}, nil
}

// newMount listens on a port of its own. A process may have several mounts, which share the variables of
// expvar.
func newMount() (*mount, error) {
	published, err := metrics.PublishExpVar()
	if err != nil {
		return nil, err
	}
	scraped, err := prometheus.New()
	if err != nil {
		return nil, err
	}
	m := &mount{registry: &inspect.Registry{}, prometheus: client.NewRegistry(), served: make(chan error, 1)}
	if err := m.prometheus.Register(scraped); err != nil {
		return nil, err
	}
	m.metrics = metrics.Join(published, scraped)
	if m.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	m.server.Handler = m.mux()
	go func() { m.served <- m.server.Serve(m.listener) }()
	return m, nil
}

func (m *mount) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(metricsPath, promhttp.HandlerFor(m.prometheus, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	mux.Handle(varsPath, expvar.Handler())
	mux.Handle(pagePath, debug.New(m.registry))
	return mux
}

func (m *mount) view() *View {
	base := "http://" + m.listener.Addr().String()
	first := m.registry.All()[0].ID().String()
	return &View{
		Registry:   m.registry,
		MetricsURL: base + metricsPath,
		VarsURL:    base + varsPath,
		ShowURL:    base + pagePath + "show?format=json&reconciler=" + url.QueryEscape(first),
	}
}

// close stops the server and waits for its end.
func (m *mount) close() error {
	err := m.server.Close()
	if served := <-m.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("the server of the page did not stop: %w", err)
	}
	return nil
}

// observed is a System with a mount.
type observed struct {
	System
	mount *mount
}

func (o *observed) View() *View { return o.mount.view() }

func (o *observed) Stop(ctx context.Context) error {
	return errors.Join(o.mount.close(), o.System.Stop(ctx))
}
