// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

func startedPoller(t *testing.T, name string) subject.Poller {
	poller, ok := startedController(t, name).(subject.Poller)
	require.True(t, ok)
	return poller
}

// pollers are the contenders that poll, with the number of their writes for 10 resources and three polls of
// each.
var pollers = map[string]uint64{
	subject.StatekeelManaged: 10, subject.StatekeelManaged8: 10,
	subject.Crossplane: 30, subject.Crossplane8: 30,
	subject.CrossplaneCopied: 30, subject.CrossplaneCopied8: 30,
}

func TestResourcesArePolledUntilTheIntervalIsZero(t *testing.T) {
	for name, writes := range pollers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, p := within(t), startedPoller(t, name)
			seen := make([]atomic.Int64, 10)
			var passed subject.Counter
			p.Target().SetRule(func(id uint64) error {
				seen[id].Add(1)
				passed.Add()
				return nil
			})
			p.PollAfter(func(id uint64) time.Duration {
				if seen[id].Load() < 3 {
					return time.Nanosecond
				}
				return 0
			})
			last := passed.Reached(30)
			assert.Zero(t, p.Well())
			assert.Zero(t, p.Written())
			ask(t, p, 0, 10)
			<-last
			require.NoError(t, p.Await(ctx))
			for id := range seen {
				assert.EqualValues(t, 3, seen[id].Load(), id)
			}
			assert.Zero(t, p.Left())
			assert.EqualValues(t, 10, p.Well())
			assert.Equal(t, writes, p.Written())
			assert.Equal(t, writes, p.Writes(10, 3))
		})
	}
}

func TestUnobservableResourceIsNotWell(t *testing.T) {
	for name := range pollers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, p := within(t), startedPoller(t, name)
			var passed subject.Counter
			var healed atomic.Bool
			p.Target().SetRule(func(id uint64) error {
				if id == 3 && !healed.Load() {
					passed.Add()
					return errors.New("out of order")
				}
				return nil
			})
			failed := passed.Reached(2)
			ask(t, p, 0, 5)
			<-failed
			assert.Less(t, p.Well(), uint64(5))
			assert.Positive(t, p.Left())
			healed.Store(true)
			require.NoError(t, p.Await(ctx))
			assert.Zero(t, p.Left())
			assert.EqualValues(t, 5, p.Well())
		})
	}
}
