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

// lookEvery is the interval between two reads of a view. Prometheus scrapes less often; a browser that shows
// the page reads as often.
const lookEvery = time.Second

// watcher reads everything in a view, as its users would.
type watcher struct {
	view   *subject.View
	client *http.Client
	cancel context.CancelFunc
	ended  chan struct{}

	// The fields below are valid after ended is closed.
	looks uint64
	err   error
}

// watch reads the view at once, and then periodically until it is stopped.
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
		// A read that the end interrupts is neither counted nor a failure.
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

// look reads everything once, and checks that there is something to see.
func (w *watcher) look(ctx context.Context) error {
	for url, has := range map[string]string{
		w.view.MetricsURL: operationsTotal, w.view.VarsURL: `"reconciliation_figures"`, w.view.ShowURL: `"snapshot"`,
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

// stop ends the reads. It returns their number, and the error that ended them early, if one did.
func (w *watcher) stop() (looks uint64, err error) {
	w.cancel()
	<-w.ended
	w.client.CloseIdleConnections()
	return w.looks, w.err
}

// operationsTotal is the metric that counts operations, up to the beginning of its labels.
const operationsTotal = "statekeel_operations_total{"

// operations returns the total number of operations that a scrape shows, over all outcomes.
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
