// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// lookEvery is the time from one look at a view to the next: a Prometheus scrapes less
// often, and a browser that shows the page asks as often.
const lookEvery = time.Second

// watcher looks at a view like those who have it open, all of them at once.
type watcher struct {
	view   *subject.View
	client *http.Client
	cancel context.CancelFunc
	ended  chan struct{}

	// What there is to tell once it has ended.
	looks uint64
	err   error
}

// watch looks at the view at once, and then from time to time until it is stopped.
func watch(ctx context.Context, view *subject.View) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{view: view, client: &http.Client{Transport: &http.Transport{}}, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		w.run(ctx)
	}()
	return w
}

func (w *watcher) run(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		// A look that the end cuts short is neither counted nor a failure.
		if err := w.look(ctx); ctx.Err() != nil {
			return
		} else if err != nil {
			w.err = err
			return
		}
		w.looks++
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// look gets everything once, and checks that there is something to see.
func (w *watcher) look(ctx context.Context) error {
	for url, has := range map[string]string{
		w.view.MetricsURL: operationsTotal, w.view.VarsURL: `"reconciliation_figures"`, w.view.ShowURL: `"timeline"`,
	} {
		body, err := w.get(ctx, url)
		if err == nil && !bytes.Contains(body, []byte(has)) {
			err = fmt.Errorf("GET %q: there is no %s in the answer", url, has)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) get(ctx context.Context, url string) (body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %q: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

// stop ends the looking. It returns how often there was a look, and the error that ended
// it before, if one did.
func (w *watcher) stop() (looks uint64, err error) {
	w.cancel()
	<-w.ended
	w.client.CloseIdleConnections()
	return w.looks, w.err
}

// operationsTotal is the metric that counts operations, with the beginning of its labels.
const operationsTotal = "statekeel_operations_total{"

// operations scrapes how many operations there were, whatever they came back with.
func (w *watcher) operations(ctx context.Context) (n uint64, err error) {
	body, err := w.get(ctx, w.view.MetricsURL)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, operationsTotal) {
			continue
		}
		series, text, _ := strings.Cut(strings.TrimSpace(line), "} ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("value of %s}: %w", series, err)
		}
		n += uint64(value)
	}
	return n, nil
}
