// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"fmt"
	"strings"
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

// Events are listed in order of time, each once, including the failures that the journal keeps for
// longer.
func TestKeptFailuresAreInOrder(t *testing.T) {
	inBubble(t, func(e *env) {
		failsOnce(e.target, 3, 5, 16, 19)
		for id := range uint64(20) {
			e.put(1, id)
			e.pass(10 * time.Millisecond)
		}
		var got []string
		var round uint64
		for _, event := range e.loop.Events(inspect.EventQuery{}) {
			got = append(got, event.Key+" "+string(event.Result))
			require.Greater(e, event.Round, round)
			round = event.Round
		}
		require.Equal(e, "3 failed, 5 failed, 16 failed, 17 done, 18 done, 19 failed", strings.Join(got, ", "))
		since := e.loop.Events(inspect.EventQuery{Since: time.Now().Add(-155 * time.Millisecond)})
		require.Equal(e, "5", since[0].Key)
		require.Len(e, e.loop.Events(inspect.EventQuery{Limit: 5}), 5)
		e.pass(time.Hour)
	}, nil, reconciler.WithJournal(9, 4), reconciler.WithRetry(time.Minute, time.Minute))
}

// A round with more operations than the journal holds still records its failures.
func TestRoundLargerThanTheJournalRecordsItsFailures(t *testing.T) {
	inBubble(t, func(e *env) {
		failsOnce(e.target, 1)
		e.put(1, ids(1, 100)...)
		e.pass(10 * time.Millisecond)
		journal := e.loop.Journal()
		operations := journal[len(journal)-1].Operations
		require.Len(e, operations, 5)
		require.Equal(e, inspect.ResultFailed, operations[0].Result)
		require.Equal(e, inspect.ResultDone, operations[1].Result)
		e.pass(time.Hour)
	}, operate("batches"), reconciler.WithJournal(9, 4), reconciler.WithRetry(time.Minute, time.Minute))
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

// The journal keeps failures for longer only up to a number, and up to a total size of their texts.
func TestKeptFailuresAreBounded(t *testing.T) {
	for _, c := range []struct{ text, journal, want int }{
		{100, 1024, 1024}, {4 << 10, 1024, 256}, {reconciler.MaxErrorText, 1024, 64}, {100, 10, 10}, {100, 0, 0},
	} {
		t.Run(fmt.Sprintf("texts of %d bytes, journal of %d", c.text, c.journal), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.deciding(func(o call) error {
					if o.id < 2000 {
						return fmt.Errorf("%0*d", c.text, o.id)
					}
					return nil
				})
				e.put(1, ids(0, 1999)...)
				e.pass(time.Second)
				e.put(1, ids(2000, 3999)...)
				e.pass(time.Second)
				got := failuresOf(e.loop.Events(inspect.EventQuery{}))
				require.Len(e, got, c.want)
				if c.want > 0 {
					require.True(e, strings.HasSuffix(got[c.want-1], "01999"), "the latest failure is kept")
				}
			}, operate("batches"), reconciler.WithJournal(128, c.journal), reconciler.WithRetry(time.Hour, time.Hour))
		})
	}
}
