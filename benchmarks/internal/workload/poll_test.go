// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/benchmarks/internal/workload"
)

// strange is a poller that reports wrong numbers about itself.
type strange struct {
	subject.Poller
	left, unwell, written uint64
	workers               int
	// once: a resource is polled once more than expected.
	once bool
}

func (s strange) Left() uint64 {
	if s.once {
		_ = s.Target().Update(0)
	}
	return s.Poller.Left() + s.left
}

func (s strange) Well() uint64 { return s.Poller.Well() - s.unwell }

func (s strange) Written() uint64 { return s.Poller.Written() + s.written }

func (s strange) Workers() int { return s.workers }

// forgetful is a poller that stops polling a resource after a few polls.
type forgetful struct{ subject.Poller }

func (f forgetful) PollAfter(after func(id uint64) time.Duration) {
	polled := 0 // by the only worker
	f.Poller.PollAfter(func(id uint64) time.Duration {
		if id == 0 {
			polled++
		}
		if polled == 5 {
			return 0
		}
		return after(id)
	})
}

// polledBy runs the workload with a changed poller, and with the fewest resources possible.
func polledBy(t *testing.T, name string, settle, limit time.Duration, change func(subject.Poller) subject.Controller) (workload.Figures, error) {
	sizes := workload.Tiny()
	sizes.Settle, sizes.Limit = settle, limit
	start := func() (subject.Controller, error) {
		c, err := contender(t, name).StartController()
		if err != nil {
			return nil, err
		}
		return change(c.(subject.Poller)), nil
	}
	return named(t, "managed-1").Measure(t.Context(), workload.Env{Sizes: sizes, StartController: start})
}

var pollers = []string{subject.StatekeelManaged, subject.Crossplane, subject.CrossplaneCopied}

func TestPollerWithWrongCountsFailsTheRun(t *testing.T) {
	for _, c := range []struct {
		complaint string
		strange   strange
	}{
		{"resources that are left: got 1, want 0", strange{left: 1, workers: 1}},
		{"resources that are ready and synced: got 19, want 20", strange{unwell: 1, workers: 1}},
		{"statuses that were written: got ", strange{written: 1, workers: 1}},
		{"polls: got 241, want 240", strange{once: true, workers: 1}},
		{"Update calls for row 0: got 13, want 12", strange{once: true, workers: 1}},
		{"polls at a time: got 1, want at most 0", strange{workers: 0}},
	} {
		for _, name := range pollers {
			t.Run(c.complaint+"/"+name, func(t *testing.T) {
				t.Parallel()
				_, err := polledBy(t, name, 0, time.Minute, func(p subject.Poller) subject.Controller {
					s := c.strange
					s.Poller = p
					return s
				})
				assert.ErrorContains(t, err, "check failed: "+c.complaint)
			})
		}
	}
}

// sleepy is a poller that polls each resource only once.
type sleepy struct{ subject.Poller }

func (sleepy) PollAfter(func(uint64) time.Duration) {}

func TestResourceThatIsNotPolledFailsTheRun(t *testing.T) {
	for _, name := range pollers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := polledBy(t, name, 0, 2*time.Second, func(p subject.Poller) subject.Controller { return forgetful{p} })
			assert.ErrorContains(t, err, "waited for the last poll: the run is stuck: not over after 2s")
			_, err = polledBy(t, name, 0, 100*time.Millisecond, func(p subject.Poller) subject.Controller { return sleepy{p} })
			assert.ErrorContains(t, err, "waited for the first polls: the run is stuck: not over after 100ms")
		})
	}
}

func TestControllerThatDoesNotPollFailsTheRun(t *testing.T) {
	start := contender(t, subject.StatekeelRequest).StartController
	_, err := named(t, "managed-1").Measure(t.Context(), workload.Env{Sizes: workload.Tiny(), StartController: start})
	assert.EqualError(t, err, "a *subject.requests does not poll")
}

func TestPollsAreMeasuredWithTheirWrites(t *testing.T) {
	for name, writes := range map[string]float64{
		subject.StatekeelManaged: 0, subject.Crossplane: 1, subject.CrossplaneCopied: 1,
	} {
		// On a busy machine a resource may be polled again before another one for the first time, which writes.
		figures, err := polledBy(t, name, time.Second, time.Minute, func(p subject.Poller) subject.Controller { return p })
		require.NoError(t, err, name)
		assert.Equal(t, writes, figures.Find("writes"), name)
	}
}

func TestProfileThatDoesNotStartLeavesNoPoll(t *testing.T) {
	env := workload.Env{
		Sizes:           workload.Tiny(),
		StartController: contender(t, subject.StatekeelManaged8).StartController,
		Profile:         func() (func() error, error) { return nil, errors.New("no disk") },
	}
	_, err := named(t, "managed-8").Measure(t.Context(), env)
	assert.EqualError(t, err, "start the CPU profile: no disk")
}
