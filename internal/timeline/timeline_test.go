// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package timeline_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/timeline"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// epoch is the zero of the clock.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func timeOf(at time.Duration) time.Time { return epoch.Add(at) }

func TestRatesCoverTenSecondsOrLessAtTheStart(t *testing.T) {
	var line timeline.Timeline
	line.Add(0, timeline.Standing{}, 8, 4)
	line.Add(time.Second, timeline.Standing{}, 8, 0)
	operations, failures, rounds := line.Rates(time.Second)
	require.Equal(t, []float64{8, 2, 1}, []float64{operations, failures, rounds})
	operations, _, _ = line.Rates(10 * time.Second)
	require.Equal(t, 0.8, operations)
	operations, _, _ = line.Rates(11 * time.Second)
	require.Zero(t, operations)
}

// The model keeps every second. The ring has the last 600 of them, after any gap.
func TestLastTenMinutesAreKept(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var line timeline.Timeline
	require.Empty(t, line.Seconds(time.Hour, timeOf))
	at := time.Duration(rng.IntN(2000)) * time.Second
	var model []inspect.Sample
	for range 300 {
		to := at
		switch rng.IntN(20) {
		case 0:
			to += time.Duration(rng.IntN(3000)) * time.Second
		default:
			to += time.Duration(rng.IntN(2500)) * time.Millisecond
		}
		if len(model) == 0 {
			model = append(model, inspect.Sample{At: timeOf(to.Truncate(time.Second))})
		}
		for last := model[len(model)-1]; last.At.Before(timeOf(to.Truncate(time.Second))); last = model[len(model)-1] {
			last.At, last.Operations, last.Failures = last.At.Add(time.Second), 0, 0
			model = append(model, last)
		}
		at = to
		now := &model[len(model)-1]
		if rng.IntN(3) > 0 || len(model) == 1 {
			s := timeline.Standing{Pending: rng.Int32N(9), InFlight: rng.Int32N(9), Failing: rng.Int32N(9), Blocked: rng.Int32N(9)}
			n := rng.IntN(3)
			line.Add(at, s, n, n/2)
			now.Pending, now.InFlight, now.Failing, now.Blocked = int(s.Pending), int(s.InFlight), int(s.Failing), int(s.Blocked)
			now.Operations, now.Failures = now.Operations+n, now.Failures+n/2
		}
		require.Equal(t, model[max(0, len(model)-600):], line.Seconds(at, timeOf))
	}
}
