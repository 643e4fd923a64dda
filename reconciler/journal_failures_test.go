// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// failsOnce makes the first operation on each of the objects fail.
func failsOnce(x *target, ids ...uint64) {
	failed := map[uint64]bool{}
	for _, id := range ids {
		failed[id] = true
	}
	x.deciding(func(c call) error {
		if failed[c.id] {
			delete(failed, c.id)
			return fmt.Errorf("no route to %d", c.id)
		}
		return nil
	})
}

// failuresOf returns the keys, results and errors of the events with an error.
func failuresOf(events []inspect.Event) (texts []string) {
	for _, e := range events {
		if e.Error != "" {
			texts = append(texts, e.Key+" "+string(e.Result)+": "+e.Error)
		}
	}
	return texts
}

// A load of other objects does not push failures out of the journal, whatever the size of its
// transactions.
func TestFailureOutlastsALoadInTheJournal(t *testing.T) {
	for _, kind := range []string{"single", "batches", "rounds"} {
		for _, size := range []uint64{1, 1000} {
			t.Run(fmt.Sprintf("%s of %d", kind, size), func(t *testing.T) {
				inBubble(t, func(e *env) {
					failsOnce(e.target, 1, 2)
					e.put(1, 1)
					e.pass(time.Second)
					e.put(1, 2)
					e.pass(time.Second)
					for first := uint64(10); first < 10+5000; first += size {
						e.put(1, ids(first, first+size-1)...)
						e.pass(10 * time.Millisecond)
					}
					e.eachDone()
					want := []string{"1 failed: no route to 1", "2 failed: no route to 2"}
					require.Equal(e, want, failuresOf(e.loop.Events(inspect.EventQuery{})))
					require.Equal(e, want[:1], failuresOf(e.loop.Events(inspect.EventQuery{Key: "1"})))
					x := e.loop.Explain(e.Context(), "1")
					require.Equal(e, want[:1], failuresOf(x.Events))
					require.Equal(e, inspect.StateDone, x.State)
					require.Zero(e, x.LastAttempt, "the journal has forgotten it")
				}, operate(kind))
			})
		}
	}
}

// Explain does not report an old failure when the journal has forgotten what a blocked deletion
// waits for.
func TestForgottenReasonIsNotAnOldFailure(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put(1, 1)
		e.pass(time.Second)
		deletions := 0
		e.target.deciding(func(c call) error {
			if c.op != "delete" {
				return nil
			}
			if deletions++; deletions == 1 {
				return errors.New("no")
			}
			return reconciler.Blocked("device eth0", make(chan struct{}))
		})
		e.remove(1)
		e.pass(time.Second)
		require.Equal(e, "device eth0", e.loop.Explain(e.Context(), "1").BlockedOn)
		e.put(1, ids(10, 100)...)
		e.pass(time.Second)
		require.Equal(e, "something that is not known any more", e.loop.Explain(e.Context(), "1").BlockedOn)
		e.target.deciding(nil)
		e.pass(time.Hour)
	}, nil, reconciler.WithJournal(9, 4))
}
