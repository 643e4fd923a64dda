// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// controllers are the contenders that get requests, with the number of their workers.
var controllers = map[string]int{
	subject.StatekeelRequest: 1, subject.StatekeelRequest8: 8,
	subject.StatekeelRequestAdded: 1, subject.StatekeelRequestAdded8: 8,
	subject.ControllerRuntime: 1, subject.ControllerRuntime8: 8,
	subject.StatekeelManaged: 1, subject.StatekeelManaged8: 8,
	subject.Crossplane: 1, subject.Crossplane8: 8,
	subject.CrossplaneCopied: 1, subject.CrossplaneCopied8: 8,
}

func startedController(t *testing.T, name string) subject.Controller {
	c, err := byName(t, name).StartController()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Stop(context.Background())) })
	return c
}

func ask(t *testing.T, c subject.Controller, first, n uint64) {
	ask, err := c.Prepare(first, n)
	require.NoError(t, err)
	require.NoError(t, ask())
}

func TestAllControllersAreTested(t *testing.T) {
	for _, c := range subject.Contenders() {
		_, known := controllers[c.Name]
		assert.Equal(t, c.StartController != nil, known, c.Name)
	}
}

func TestControllersReconcileTheirRequests(t *testing.T) {
	for name := range controllers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, c := within(t), startedController(t, name)
			seen := make([]atomic.Int64, 20)
			var passed subject.Counter
			c.Target().SetRule(func(id uint64) error {
				seen[id].Add(1)
				passed.Add()
				return nil
			})
			// The second half is added when the first is done.
			for _, first := range []uint64{0, 10} {
				last := passed.Reached(first + 10)
				ask(t, c, first, 10)
				await(ctx, t, last)
				require.NoError(t, c.Await(ctx))
				assert.Zero(t, c.Left())
				assert.EqualValues(t, first+10, c.Target().Updates.Load())
			}
			for id := range seen {
				assert.EqualValues(t, 1, seen[id].Load(), id)
			}
		})
	}
}

func TestControllersRunAsManyWorkersAsTheyReport(t *testing.T) {
	for name, workers := range controllers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, c := within(t), startedController(t, name)
			assert.Equal(t, workers, c.Workers())

			var passed subject.Counter
			rule, check := newTogether(ctx, workers)
			c.Target().SetRule(func(id uint64) error {
				defer passed.Add()
				return rule(id)
			})
			last := passed.Reached(500)
			ask(t, c, 0, 500)
			<-last
			require.NoError(t, c.Await(ctx))
			check(t)
		})
	}
}

func TestUnreconciledRequestsAreLeft(t *testing.T) {
	for name, complaint := range map[string]string{
		subject.StatekeelRequest:      "5 requests are left",
		subject.StatekeelRequestAdded: "5 requests are left",
		subject.ControllerRuntime:     "",
		subject.StatekeelManaged:      `resource "0" is Pending`,
		subject.Crossplane:            "5 requests are left",
		subject.CrossplaneCopied:      "5 requests are left",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, c := within(t), startedController(t, name)
			hold := make(chan struct{})
			release := sync.OnceFunc(func() { close(hold) })
			t.Cleanup(release)
			c.Target().SetRule(func(uint64) error { <-hold; return nil })
			ask(t, c, 0, 5)
			await(ctx, t, c.Target().Updates.Reached(1))
			// controller-runtime removes a request from its queue before it works on it.
			assert.GreaterOrEqual(t, c.Left(), uint64(4))
			reason := errors.New("enough")
			ended, cancel := context.WithCancelCause(ctx)
			cancel(reason)
			if err := c.Await(ended); complaint != "" {
				assert.ErrorIs(t, err, reason)
				assert.ErrorContains(t, err, complaint)
			}
			// The queue of controller-runtime leaks a goroutine if it is stopped with requests in it.
			all := c.Target().Updates.Reached(5)
			release()
			await(ctx, t, all)
		})
	}
}
