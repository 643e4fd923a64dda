// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package measure

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// waiting knows which endpoints and services the kernel does not have yet, and since when they wait.
type waiting struct {
	mu        sync.Mutex
	zero      time.Time       // the moment of which the moments below are distances
	since     []time.Duration // of an endpoint, by serial number; 0 if it does not wait
	services  []bool
	overtaken map[int32]int32 // an endpoint, and the one that it replaced before the kernel had that
	left      int
	none      chan struct{} // closed when nothing is left
	last      time.Time     // when something was last seen that waited
	latencies []time.Duration
	err       error
}

func newWaiting(shape Shape) *waiting {
	w := &waiting{
		// A millisecond ago, so that a distance is never 0.
		zero:      time.Now().Add(-time.Millisecond),
		since:     make([]time.Duration, shape.Services*shape.Endpoints),
		services:  make([]bool, shape.Services),
		overtaken: make(map[int32]int32),
		none:      make(chan struct{}),
	}
	close(w.none)
	return w
}

func (w *waiting) add(n int) {
	if w.left == 0 {
		w.none = make(chan struct{})
	}
	w.left += n
}

// everything says that all services of a workload and their endpoints begin to wait.
func (w *waiting) everything(workload *Workload, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, serial := range workload.slots {
		w.begin(serial, now)
	}
	for i := range w.services {
		w.services[i] = true
	}
	w.add(len(w.services))
}

// endpoint says that an endpoint begins to wait, and that another one is gone. If the kernel never had that, it has
// waited until the kernel has the one in its place.
func (w *waiting) endpoint(added, removed int32, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if int(removed) < len(w.since) && w.since[removed] != 0 {
		w.overtaken[added] = removed
	}
	w.begin(added, now)
}

func (w *waiting) begin(serial int32, now time.Time) {
	for int(serial) >= len(w.since) {
		w.since = append(w.since, 0)
	}
	w.since[serial] = now.Sub(w.zero)
	w.add(1)
}

func (w *waiting) sawEndpoint(a netip.AddrPort, now time.Time) {
	serial, ok := endpointSerial(a)
	w.mu.Lock()
	defer w.mu.Unlock()
	for ok && int(serial) < len(w.since) && w.since[serial] != 0 {
		w.latencies = append(w.latencies, now.Sub(w.zero)-w.since[serial])
		w.since[serial] = 0
		w.saw(now)
		before, replaced := w.overtaken[serial]
		delete(w.overtaken, serial)
		serial, ok = before, replaced
	}
}

func (w *waiting) sawService(a netip.AddrPort, now time.Time) {
	serial, ok := serviceSerial(a)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok && int(serial) < len(w.services) && w.services[serial] {
		w.services[serial] = false
		w.saw(now)
	}
}

func (w *waiting) saw(now time.Time) {
	w.last = now
	if w.err != nil {
		return // the wait has ended with the error
	}
	if w.left--; w.left == 0 {
		close(w.none)
	}
}

// fail ends all waiting.
func (w *waiting) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	w.err = err
	if w.left > 0 {
		close(w.none)
		w.left = 0
	}
}

// wait waits until the kernel has all, and returns when it got the last.
func (w *waiting) wait(ctx context.Context, limit time.Duration) (time.Time, error) {
	w.mu.Lock()
	none, err := w.none, w.err
	w.mu.Unlock()
	if err != nil {
		return time.Time{}, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-none:
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	case <-timer.C:
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Time{}, fmt.Errorf("after %v the kernel still lacks %d services and endpoints", limit, w.left)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.err
}

// take returns the latencies since the last call.
func (w *waiting) take() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	latencies := w.latencies
	w.latencies = nil
	return latencies
}
