// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// withWorkers runs a test with each kind of operations and each number of workers.
func withWorkers(t *testing.T, workers []int, test func(e *env, n int), options ...reconciler.Option) {
	withWorkersAnd(t, workers, nil, test, options...)
}

// withWorkersAnd is withWorkers with a change of the configuration; nil changes nothing.
func withWorkersAnd(t *testing.T, workers []int, change configure, test func(e *env, n int), options ...reconciler.Option) {
	for _, kind := range operationKinds {
		for _, n := range workers {
			t.Run(fmt.Sprintf("%s, workers %d", kind.name, n), func(t *testing.T) {
				inBubble(t, func(e *env) { test(e, n) }, both(kind.change, change),
					append([]reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = n })}, options...)...)
			})
		}
	}
}

// operationKinds are the kinds of operations that a target can have.
var operationKinds = []struct {
	name   string
	change func(*env, *reconciler.Config[*object])
}{
	{"single", nil},
	{"batches", func(e *env, cfg *reconciler.Config[*object]) { cfg.BatchOperations = batchTarget{e.target} }},
	{"rounds", func(e *env, cfg *reconciler.Config[*object]) { cfg.RoundOperations = roundTarget{e.target} }},
}

// taking makes every call for an object take the time that f returns; prunes take no time.
func (x *target) taking(f func(c call) time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.before = func(_ context.Context, c call) {
		if c.op != "prune" {
			time.Sleep(f(c))
		}
	}
}

// takes makes every call for an object take the time d.
func (x *target) takes(d time.Duration) { x.taking(func(call) time.Duration { return d }) }

func TestConcurrencyIsReachedAndNotExceeded(t *testing.T) {
	withWorkers(t, []int{1, 2, 8}, func(e *env, n int) {
		e.target.takes(10 * time.Millisecond)
		e.put(1, ids(1, 400)...)
		e.pass(4 * time.Second / time.Duration(n))
		e.remove(ids(1, 10)...)
		e.pass(time.Second)
		e.eachDone()
		require.Equal(e, n, e.target.most, "operations at a time")
		require.Len(e, e.target.take(), 410, "each once")
	}, reconciler.WithRoundLimits(10, nil))
}

// The time between two operations is negligible: n workers need an nth of the time.
func TestWorkersAreKeptBusy(t *testing.T) {
	withWorkers(t, []int{1, 2, 8}, func(e *env, n int) {
		e.target.takes(10 * time.Millisecond)
		e.put(1, ids(1, 800)...)
		e.pass(8*time.Second/time.Duration(n) + 30*time.Millisecond)
		e.eachDone()
	}, reconciler.WithRoundLimits(10, nil))
}

// Versions that an object had while its operation ran are skipped, except the last one.
func TestNewestRevisionWinsWhenAnObjectChangesInFlight(t *testing.T) {
	changes := map[string]struct {
		change func(e *env)
		then   []string
		value  int
	}{
		"changed": {func(e *env) { e.put(2, 1); e.put(3, 1) }, []string{"update(1)"}, 3},
		"deleted": {func(e *env) { e.put(2, 1); e.remove(1) }, []string{"delete(1)"}, 0},
		"deleted and inserted again": {
			func(e *env) { e.remove(1); synctest.Wait(); e.put(3, 1) }, []string{"update(1)"}, 3,
		},
		"changed, deleted, inserted and deleted": {
			func(e *env) { e.put(2, 1); e.remove(1); synctest.Wait(); e.put(3, 1); e.remove(1) },
			[]string{"delete(1)"}, 0,
		},
	}
	for name, c := range changes {
		for _, outcome := range []error{nil, errors.New("no")} {
			t.Run(fmt.Sprintf("%s, outcome %v", name, outcome), func(t *testing.T) {
				withWorkers(t, []int{1, 2, 8}, func(e *env, _ int) {
					e.target.takes(time.Second)
					e.target.deciding(func(c call) error {
						if c.op == "update" && c.value == 1 {
							return outcome
						}
						return nil
					})
					e.put(1, 1)
					e.pass(300 * time.Millisecond)
					c.change(e)
					e.pass(600 * time.Millisecond)
					require.Empty(e, e.target.take(), "the first still runs")
					e.pass(150 * time.Millisecond)
					require.Len(e, e.target.take(), 1)
					e.pass(time.Minute)
					calls := e.target.take()
					require.Equal(e, c.then, shorts(calls))
					if c.value > 0 {
						require.Equal(e, c.value, calls[0].value)
					}
					e.eachDone()
				})
			})
		}
	}
}

func shorts(calls []call) (out []string) {
	for _, c := range calls {
		out = append(out, c.String())
	}
	return out
}

// An operation gets a recent version of its object, and never an older version than the operation
// before.
func TestOperationsOfAnObjectAreInOrder(t *testing.T) {
	withWorkers(t, []int{1, 2, 8}, func(e *env, n int) {
		var mu sync.Mutex
		newest := map[uint64]statedb.Revision{}
		e.target.mu.Lock()
		e.target.before = func(_ context.Context, c call) {
			mu.Lock()
			if c.revision < newest[c.id] {
				e.Errorf("%s at revision %d after %d", c, c.revision, newest[c.id])
			}
			newest[c.id] = c.revision
			mu.Unlock()
			time.Sleep(time.Duration(c.id) * time.Millisecond)
		}
		e.target.mu.Unlock()
		for value := range 300 {
			id := uint64(1 + value%7)
			if value%11 == 0 {
				e.remove(id)
			} else {
				e.put(value, id)
			}
			time.Sleep(time.Millisecond)
		}
		e.pass(10 * time.Second)
		e.eachDone()
		require.LessOrEqual(e, e.target.most, n)
	}, reconciler.WithRoundLimits(3, nil))
}

func TestSlowObjectHoldsUpOnlyItself(t *testing.T) {
	for _, kind := range operationKinds {
		t.Run(kind.name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.taking(func(c call) time.Duration {
					if c.id == 1 {
						return 2 * time.Second
					}
					return time.Millisecond
				})
				e.put(1, 1)
				e.pass(time.Millisecond)
				e.put(1, ids(2, 1000)...)
				for value := range 10 {
					e.pass(110 * time.Millisecond)
					e.put(value, 1)
				}
				synctest.Wait()
				require.Equal(e, reconciler.StatusKindPending, e.kind(1))
				for id := uint64(2); id <= 1000; id++ {
					require.Equal(e, reconciler.StatusKindDone, e.kind(id), "object %d", id)
				}
				e.pass(3 * time.Second)
				e.eachDone()
				require.Len(e, e.target.take(), 1001, "the slow object runs once more")
			}, kind.change, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 2 }), reconciler.WithRoundLimits(10, nil))
		})
	}
}

// Objects in the queues of the workers do not wait for slow objects, as long as one worker is free.
func TestSlowObjectsHoldUpOnlyTheirWorkers(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.taking(func(c call) time.Duration {
			if c.id%100 == 0 {
				return time.Second
			}
			return 10 * time.Microsecond
		})
		e.put(1, ids(1, 400)...)
		e.pass(50 * time.Millisecond)
		for id := uint64(1); id <= 400; id++ {
			if id%100 != 0 {
				require.Equal(e, reconciler.StatusKindDone, e.kind(id), "object %d", id)
			}
		}
		e.pass(time.Minute)
		e.eachDone()
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 5 }))
}

// Outcomes of operations that end at the same time are written in one transaction.
func TestOutcomesAreCommittedInGroups(t *testing.T) {
	inBubble(t, func(e *env) {
		e.target.takes(time.Millisecond)
		e.put(1, ids(1, 6400)...)
		e.pass(200 * time.Millisecond)
		e.eachDone()
		written, transactions := 0, 0
		for _, r := range e.loop.Journal() {
			if r.Written > 0 {
				written += r.Written
				transactions++
			}
			require.LessOrEqual(e, r.Written, 1000, "no more than a round")
		}
		require.Equal(e, 6400, written)
		require.LessOrEqual(e, transactions, 400, "transactions for 100 times 64 operations")
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 64 }), reconciler.WithJournal(10_000, 10_000))
}

// A change that is written while an outcome is being committed is not lost.
func TestOutcomeOfAChangedObjectIsNotCommitted(t *testing.T) {
	withWorkers(t, []int{1, 2, 8}, func(e *env, _ int) {
		e.target.taking(func(c call) time.Duration { return time.Duration(c.value) * time.Millisecond })
		for value := range 100 {
			e.put(10+value%3, ids(1, 20)...)
			time.Sleep(time.Duration(5+value%10) * time.Millisecond)
		}
		e.pass(10 * time.Second)
		e.eachDone()
	}, reconciler.WithRoundLimits(5, nil))
}

func TestFailuresOnWorkersAreRetried(t *testing.T) {
	withWorkers(t, []int{2, 8}, func(e *env, n int) {
		var mu sync.Mutex
		attempts := map[uint64]int{}
		e.target.takes(time.Millisecond)
		e.target.deciding(func(c call) error {
			mu.Lock()
			defer mu.Unlock()
			if attempts[c.id]++; c.op == "update" && attempts[c.id] <= 3 {
				return errors.New("not yet")
			}
			return nil
		})
		e.put(1, ids(1, 100)...)
		e.pass(50 * time.Millisecond)
		_, message, err := e.health.Now()
		require.Equal(e, "100 error(s)", message)
		require.ErrorContains(e, err, "not yet")
		e.pass(900 * time.Millisecond)
		e.eachDone()
		require.Len(e, e.target.take(), 400)
		_, message, _ = e.health.Now()
		require.Equal(e, "OK, 100 object(s)", message)
	}, reconciler.WithRoundLimits(10, nil))
}

// 10: a stop commits what has finished and cancels the context of what runs. Queued operations
// never start.
func TestStopCommitsWhatWorkersFinished(t *testing.T) {
	for _, n := range []int{1, 2, 8} {
		t.Run(fmt.Sprintf("workers %d", n), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.mu.Lock()
				e.target.before = func(ctx context.Context, c call) { <-ctx.Done(); time.Sleep(10 * time.Millisecond) }
				e.target.mu.Unlock()
				e.target.deciding(func(c call) error {
					if c.id%2 == 0 {
						return context.Canceled
					}
					return nil
				})
				e.put(1, ids(1, 20)...)
				e.pass(time.Second)
				e.stop()
				calls := e.target.take()
				require.Len(e, calls, n, "operations that ran")
				ran := map[uint64]bool{}
				for _, c := range calls {
					ran[c.id] = true
				}
				for id := uint64(1); id <= 20; id++ {
					want := reconciler.StatusKindPending
					if ran[id] && id%2 != 0 {
						want = reconciler.StatusKindDone
					}
					require.Equal(e, want, e.kind(id), "object %d", id)
				}
				journal := e.loop.Journal()
				require.Equal(e, (n+1)/2, journal[len(journal)-1].Written, "in one transaction")
				e.pass(time.Minute)
				require.Empty(e, e.target.take(), "nothing starts after the stop")
			}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = n }))
		})
	}
}
