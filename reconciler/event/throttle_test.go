// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package event_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler/event"
)

// throttled runs a test in a bubble of virtual time.
func throttled(t *testing.T, config event.Throttle, test func(t *testing.T, r event.Recorder, m *memory)) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		r, err := event.NewThrottledRecorder(m, config)
		require.NoError(t, err)
		test(t, r, m)
	})
}

var errRefused = errors.New("refused")

func warn(r event.Recorder, object string, reason event.Reason, times int) {
	for i := range times {
		r.Event(named(object), event.Warning(reason, fmt.Errorf("attempt %d: %w", i, errRefused)))
	}
}

func TestWarningsOfOneObjectAndReasonAreThrottled(t *testing.T) {
	throttled(t, event.Throttle{Limit: 0.1, Burst: 2}, func(t *testing.T, r event.Recorder, m *memory) {
		warn(r, "web", "CannotCreate", 10)
		require.Len(t, m.take(), 2, "a burst")

		time.Sleep(9 * time.Second)
		warn(r, "web", "CannotCreate", 1)
		require.Empty(t, m.take())

		time.Sleep(time.Second)
		warn(r, "web", "CannotCreate", 3)
		passed := m.take()
		require.Len(t, passed, 1)
		require.Equal(t, uint64(8+1), passed[0].event.HeldBack)

		time.Sleep(10 * time.Second)
		warn(r, "web", "CannotCreate", 1)
		require.Equal(t, uint64(2), m.take()[0].event.HeldBack, "each is counted once")

		time.Sleep(10 * time.Second)
		warn(r, "web", "CannotCreate", 1)
		require.Zero(t, m.take()[0].event.HeldBack)
	})
}

func TestObjectsReasonsAndSourcesAreThrottledSeparately(t *testing.T) {
	throttled(t, event.Throttle{Limit: 0.1, Burst: 1}, func(t *testing.T, r event.Recorder, m *memory) {
		other, derived := r.WithAnnotations(event.SourceAnnotation, "other"), r.WithAnnotations("id", "7")
		for range 3 {
			warn(r, "web", "CannotCreate", 1)
			warn(derived, "web", "CannotCreate", 1) // the same as the one before
			warn(r, "web", "CannotDelete", 1)
			warn(r, "db", "CannotCreate", 1)
			warn(other, "web", "CannotCreate", 1)
		}
		require.Len(t, m.take(), 4)
		time.Sleep(10 * time.Second)
		warn(derived, "web", "CannotCreate", 1)
		passed := m.take()
		require.Equal(t, uint64(5), passed[0].event.HeldBack)
		require.Equal(t, map[string]string{"id": "7"}, passed[0].event.Annotations)
	})
}

func TestEventsOfOtherTypesAlwaysPass(t *testing.T) {
	throttled(t, event.Throttle{Limit: 0.1, Burst: 1}, func(t *testing.T, r event.Recorder, m *memory) {
		for range 50 {
			r.Event(named("web"), event.Normal("Created", "made it"))
			r.Event(named("web"), event.Event{Type: "Other", Reason: "Created"})
		}
		require.Len(t, m.take(), 100)
	})
}

func TestAThrottleAddsToWhatAnEarlierOneHeldBack(t *testing.T) {
	throttled(t, event.Throttle{Limit: 0.1, Burst: 1}, func(t *testing.T, r event.Recorder, m *memory) {
		earlier, err := event.NewThrottledRecorder(r, event.Throttle{Limit: 0.2, Burst: 1})
		require.NoError(t, err)
		heldBack := func() (n []uint64) {
			for _, passed := range m.take() {
				n = append(n, passed.event.HeldBack)
			}
			return n
		}
		warn(earlier, "web", "CannotCreate", 4)
		require.Equal(t, []uint64{0}, heldBack())
		time.Sleep(5 * time.Second)
		warn(earlier, "web", "CannotCreate", 3) // the later one holds back one, which had the three
		require.Empty(t, heldBack())
		time.Sleep(5 * time.Second)
		warn(earlier, "web", "CannotCreate", 1)
		require.Equal(t, []uint64{1 + 2}, heldBack())
	})
}

func TestAThrottleHasDefaults(t *testing.T) {
	throttled(t, event.Throttle{}, func(t *testing.T, r event.Recorder, m *memory) {
		warn(r, "web", "CannotCreate", 10)
		require.Len(t, m.take(), 5)
		time.Sleep(10 * time.Second)
		warn(r, "web", "CannotCreate", 10)
		require.Len(t, m.take(), 1)
	})
	throttled(t, event.Throttle{Limit: rate.Inf}, func(t *testing.T, r event.Recorder, m *memory) {
		warn(r, "web", "CannotCreate", 100)
		require.Len(t, m.take(), 100, "without a limit")
	})
}

func TestTheSubjectQuietForLongestIsForgotten(t *testing.T) {
	throttled(t, event.Throttle{Limit: 0.1, Burst: 1, Remembered: 2}, func(t *testing.T, r event.Recorder, m *memory) {
		warn(r, "one", "CannotCreate", 2)
		warn(r, "two", "CannotCreate", 2)
		warn(r, "one", "CannotCreate", 1) // two is now quiet for longer
		require.Len(t, m.take(), 2)
		warn(r, "three", "CannotCreate", 2)
		require.Len(t, m.take(), 1)

		warn(r, "one", "CannotCreate", 1)
		require.Empty(t, m.take(), "one is remembered")
		warn(r, "two", "CannotCreate", 1)
		passed := m.take()
		require.Len(t, passed, 1, "two has a burst again")
		require.Zero(t, passed[0].event.HeldBack)
	})
}

func TestTheErrorNamesEveryMistakeOfAThrottle(t *testing.T) {
	_, err := event.NewThrottledRecorder(nil, event.Throttle{Limit: -1, Burst: -2, Remembered: -3})
	require.EqualError(t, err, `new throttled recorder: the recorder to throttle is nil
Throttle.Limit is -1, must not be negative
Throttle.Burst is -2, must not be negative
Throttle.Remembered is -3, must not be negative`)
}

func TestAThrottleIsSafeForConcurrentUse(t *testing.T) {
	throttled(t, event.Throttle{Limit: 0.1, Burst: 3, Remembered: 8}, func(t *testing.T, r event.Recorder, m *memory) {
		const goroutines, calls = 8, 100
		inParallel(goroutines, calls, func(i int) {
			r.Event(nth(i%4), event.Warning("CannotCreate", errRefused))
		})
		require.Len(t, m.take(), 4*3)
		time.Sleep(10 * time.Second)
		heldBack := uint64(0)
		for i := range 4 {
			r.Event(nth(i), event.Warning("CannotCreate", errRefused))
			heldBack += m.take()[0].event.HeldBack
		}
		require.Equal(t, uint64(goroutines*calls-4*3), heldBack)
	})
}
