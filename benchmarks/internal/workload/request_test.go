// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// doctored is a controller that reports wrong numbers about itself.
type doctored struct {
	subject.Controller
	left    uint64
	workers int
	// twice: one request more is reconciled than was made.
	twice bool
}

func (d doctored) Left() uint64 {
	if d.twice {
		_ = d.Target().Update(0)
	}
	return d.Controller.Left() + d.left
}

func (d doctored) Workers() int { return d.workers }

func TestControllerWithWrongCountsFailsTheRun(t *testing.T) {
	for complaint, change := range map[string]func(*doctored){
		"check failed: requests that are left: got 1, want 0":     func(d *doctored) { d.left = 1 },
		"check failed: reconciliations: got 21, want 20":          func(d *doctored) { d.twice = true },
		"check failed: Update calls for row 0: got 2, want 1":     func(d *doctored) { d.twice = true },
		"check failed: requests at a time: got 1, want at most 0": func(d *doctored) { d.workers = 0 },
	} {
		t.Run(complaint, func(t *testing.T) {
			t.Parallel()
			start := func() (subject.Controller, error) {
				c, err := contender(t, subject.StatekeelRequest).StartController()
				d := &doctored{Controller: c, workers: 1}
				change(d)
				return d, err
			}
			sizes := workload.Tiny()
			sizes.Scale = 0.0001 // the fewest possible
			_, err := named(t, "request-1").Measure(t.Context(), workload.Env{Sizes: sizes, StartController: start})
			assert.ErrorContains(t, err, complaint)
		})
	}
}

// lost is a controller that loses its requests.
type lost struct{ subject.Controller }

func (lost) Prepare(uint64, uint64) (func() error, error) { return func() error { return nil }, nil }

func TestLostRequestFailsTheRun(t *testing.T) {
	sizes := workload.Tiny()
	sizes.Limit = 100 * time.Millisecond
	start := func() (subject.Controller, error) {
		c, err := contender(t, subject.ControllerRuntime).StartController()
		return lost{c}, err
	}
	_, err := named(t, "request-1").Measure(t.Context(), workload.Env{Sizes: sizes, StartController: start})
	assert.ErrorContains(t, err, "waited for the last request: the run is stuck: not over after 100ms")
}
