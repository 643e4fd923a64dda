// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Readers may ask the loop from any goroutine while it works, with each kind of operations.
func TestReadersDoNotDisturbTheLoop(t *testing.T) {
	for _, kind := range operationKinds {
		for _, n := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, n), func(t *testing.T) {
				inBubble(t, readWhileItWorks, kind.change, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.Timeout = n, 5*time.Millisecond }), breaksAfter(100))
			})
		}
	}
}

func readWhileItWorks(e *env) {
	e.target.takes(time.Millisecond)
	e.target.deciding(func(c call) error {
		if (c.id+uint64(c.at.UnixMilli()))%3 == 0 {
			return errors.New("no")
		}
		return nil
	})
	var readers sync.WaitGroup
	done := make(chan struct{})
	for i := range 4 {
		readers.Go(func() {
			for n := i; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(3 * time.Millisecond):
				}
				readAll(e, fmt.Sprint(n%50))
			}
		})
	}
	for value := range 20 {
		e.put(value, ids(1, 50)...)
		e.remove(uint64(1 + value))
		time.Sleep(10 * time.Millisecond)
	}
	close(done)
	readers.Wait()
	e.target.failing("")
	e.pass(10 * time.Second)
	e.eachDone()
}

// readAll calls every method that reads the state of the loop.
func readAll(e *env, key string) {
	ctx := e.Context()
	require.NotEmpty(e, e.loop.Snapshot(ctx).Condition)
	require.NotEmpty(e, e.loop.Explain(ctx, key).State)
	_, _ = e.loop.Objects(ctx, inspect.ObjectQuery{Status: "Error"})
	_, _ = e.loop.Objects(ctx, inspect.ObjectQuery{Status: "Deleted"})
	e.loop.Operations(inspect.OperationQuery{Key: key})
	e.loop.Rounds()
	e.loop.Figures()
	e.loop.Keys("1", 5)
}
