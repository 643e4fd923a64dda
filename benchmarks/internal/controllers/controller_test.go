// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/benchmarks/internal/controllers"
	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// contenders are those that get requests.
var contenders = map[string]func(workers int) (controllers.Controller, error){
	"statekeel":          controllers.Requests,
	"controller-runtime": controllers.ControllerRuntime,
	"managed":            func(workers int) (controllers.Controller, error) { return controllers.Managed(workers) },
	"crossplane-runtime": func(workers int) (controllers.Controller, error) { return controllers.Crossplane(workers) },
}

// within returns a context that ends before the test is killed.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func await(ctx context.Context, t *testing.T, event <-chan struct{}) {
	select {
	case <-event:
	case <-ctx.Done():
		require.Fail(t, "it did not happen in time")
	}
}

func ask(t *testing.T, c controllers.Controller, first, n uint64) {
	ask, err := c.Prepare(first, n)
	require.NoError(t, err)
	require.NoError(t, ask())
}

// TestControllersRunAsManyAsTheyHaveWorkers holds the operations until all workers have one.
func TestControllersRunAsManyAsTheyHaveWorkers(t *testing.T) {
	for name, start := range contenders {
		for _, workers := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s-%d", name, workers), func(t *testing.T) {
				t.Parallel()
				ctx := within(t)
				c, err := start(workers)
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, c.Stop(context.Background())) })
				var running, most atomic.Int64
				var passed subject.Counter
				together := c.Target().Updates.Reached(uint64(workers))
				c.Target().SetRule(func(uint64) error {
					defer passed.Add()
					now := running.Add(1)
					defer running.Add(-1)
					for before := most.Load(); now > before && !most.CompareAndSwap(before, now); {
						before = most.Load()
					}
					select {
					case <-together:
					case <-ctx.Done():
					}
					return nil
				})
				last := passed.Reached(500)
				ask(t, c, 0, 500)
				await(ctx, t, last)
				require.NoError(t, c.Await(ctx))
				assert.EqualValues(t, workers, most.Load())
				assert.Zero(t, c.Left())
			})
		}
	}
}

func TestUnreconciledRequestsAreLeft(t *testing.T) {
	for name, complaint := range map[string]string{
		"statekeel":          "5 requests are left",
		"controller-runtime": "",
		"managed":            `resource "0" is Pending`,
		"crossplane-runtime": "5 requests are left",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			c, err := contenders[name](1)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, c.Stop(context.Background())) })
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
