// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/statekeel/statekeel/reconciler"
)

// result holds the measurements.
type result struct {
	objects, attempts uint64
	took              time.Duration
	// rows is the size of the rows at the end, live the largest live heap while the loop ran, and idle the
	// live heap after it had stopped, all in bytes.
	rows, live, idle uint64
	// answers are the answers of the page and the commands, the slowest first.
	answers []asked
}

// measure makes all objects fail, asks about them meanwhile, and returns the measurements. The result is nil
// if the run did not finish.
func measure(ctx context.Context, cfg config) (*result, error) {
	s, err := newSystem(cfg)
	if err != nil {
		return nil, err
	}
	if err := s.db.Start(); err != nil {
		return nil, err
	}
	begin, before := time.Now(), liveHeap()
	revision, err := s.fill(cfg.objects)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.loop.Run(running) }()
	for len(s.registry.All()) == 0 { // the loop adds itself as it starts
		time.Sleep(time.Millisecond)
	}

	r := &result{objects: cfg.objects}
	enough, answered := make(chan struct{}), make(chan error, 1)
	go func() {
		answers, err := s.ask(ctx, cfg.objects/2, enough)
		r.answers = answers
		answered <- err
	}()
	_, err = s.loop.Wait(ctx, revision, reconciler.Attempted)
	for end := time.Now().Add(cfg.window); time.Now().Before(end); time.Sleep(2 * time.Second) {
		// A collection counts what is allocated while it runs as live. With a text of 10 MB for each
		// operation that would measure the duration of the collection, not the memory held.
		s.target.counting.Lock()
		r.live = max(r.live, liveHeap()-before)
		s.target.counting.Unlock()
	}
	close(enough)
	err = errors.Join(err, <-answered)
	stop()
	err = errors.Join(err, <-ended)
	r.idle = liveHeap() - before
	r.took, r.attempts = time.Since(begin), s.target.attempts.Load()
	slices.SortFunc(r.answers, func(a, b asked) int { return cmp.Compare(b.longest(), a.longest()) })

	var n uint64
	var wrong error
	r.rows, n, wrong = s.rows(cfg.text)
	if n != cfg.objects {
		wrong = errors.Join(wrong, fmt.Errorf("%d rows, want %d", n, cfg.objects))
	}
	return r, errors.Join(err, wrong, s.db.Stop())
}

// liveHeap returns the live heap in bytes after a garbage collection. Garbage that other goroutines make
// after it does not count.
func liveHeap() uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// bounds returns an error if a promise is broken.
func (r *result) bounds() error {
	var errs []error
	if beyond := max(r.live, r.rows) - r.rows; beyond > maxBeyondRows {
		errs = append(errs, fmt.Errorf("%d MB of live heap beyond the rows, want at most %d", beyond>>20, maxBeyondRows>>20))
	}
	for _, a := range r.answers {
		if a.longest() > maxAnswer {
			errs = append(errs, fmt.Errorf("%s: %s, want at most %s", a.question, a.longest(), maxAnswer))
		}
	}
	return errors.Join(errs...)
}

func (r *result) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d objects, %d failures, %.0f s\n", r.objects, r.attempts, r.took.Seconds())
	fmt.Fprintf(&out, "rows %d MB; live heap %d MB while it fails, %d MB at the end: %d and %d MB beyond the rows\n",
		r.rows>>20, r.live>>20, r.idle>>20, (int64(r.live)-int64(r.rows))>>20, (int64(r.idle)-int64(r.rows))>>20)
	for _, a := range r.answers {
		fmt.Fprintf(&out, "%8.1f ms at most, %6.1f ms in the middle, of %4d answers, %8d bytes: %s\n",
			millis(a.longest()), millis(a.median()), len(a.took), a.bytes, a.question)
	}
	return out.String()
}

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }
