// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// goingOn are the outcomes with which a deletion goes on: its operation is called again. The field
// again has the times of the calls within ten seconds.
var goingOn = map[string]struct {
	err   error
	again []time.Duration
}{
	"requeue": {reconciler.Requeue(4 * time.Second), seconds(0, 4, 8)},
	"backoff": {reconciler.RequeueBackoff(), backoff},
}

// marking marks updates with the value 0 as deletions, like an adapter whose rows stay until their
// resource is gone.
func marking(e *env) {
	e.target.mu.Lock()
	defer e.target.mu.Unlock()
	e.target.before = func(ctx context.Context, c call) {
		if c.op == "update" && c.value == 0 {
			running.Deletion(ctx)
		}
	}
}

// A wait for a deletion lasts until the deletion is done, even if its operation returns Requeue.
func TestWaitLastsWhileADeletionGoesOn(t *testing.T) {
	for name, c := range goingOn {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(e *env) {
				e.put(1, 1)
				e.pass(time.Second)
				e.target.take()
				e.target.deciding(func(call) error { return c.err })
				start := time.Now()
				over := e.wait(e.remove(1), reconciler.Applied)
				e.pass(10 * time.Second)
				require.Equal(e, c.again, since(start, e.target.take()))
				e.goesOn(over)
				level, _, _ := e.health.Now()
				require.Equal(e, cell.StatusOK, level)
				x := e.loop.Explain(e.Context(), "1")
				require.Equal(e, inspect.StateBlocked, x.State)
				require.Equal(e, "still deleting", x.BlockedOn)

				e.target.failing("")
				e.pass(10 * time.Second)
				select {
				case w := <-over:
					e.nothingUnapplied(w)
				default:
					e.Fatal("the wait has not ended")
				}
			})
		})
	}
}

// A wait also lasts while an update that is marked as a deletion goes on. Its row is Blocked with the
// reason "still deleting", and is written once.
func TestWaitLastsWhileAnUpdateThatDeletesGoesOn(t *testing.T) {
	for name, c := range goingOn {
		t.Run(name, func(t *testing.T) {
			singly(t, func(e *env) {
				marking(e)
				e.put(1, 1)
				e.pass(time.Second)
				e.target.take()
				e.target.deciding(func(call) error { return c.err })
				start := time.Now()
				over := e.wait(e.put(0, 1), reconciler.Applied)
				e.pass(time.Second / 20)
				e.status(1, reconciler.StatusKindBlocked, "still deleting")
				_, written, _ := e.table.Get(e.db.ReadTxn(), idIndex.Query(1))
				e.pass(10*time.Second - time.Second/20)
				require.Equal(e, c.again, since(start, e.target.take()))
				e.goesOn(over)
				e.status(1, reconciler.StatusKindBlocked, "still deleting")
				_, revision, _ := e.table.Get(e.db.ReadTxn(), idIndex.Query(1))
				require.Equal(e, written, revision, "the row is written once")
				level, _, _ := e.health.Now()
				require.Equal(e, cell.StatusOK, level)

				e.target.failing("")
				e.pass(10 * time.Second)
				e.eachDone()
				select {
				case w := <-over:
					e.nothingUnapplied(w)
				default:
					e.Fatal("the wait has not ended")
				}
			})
		})
	}
}

// A deletion is never given up, whether its operation is a Delete or an Update.
func TestDeletionIsNeverGivenUp(t *testing.T) {
	for name, err := range map[string]error{
		"plain":    errPlain,
		"terminal": reconciler.TerminalError(errInner),
		"wrapped":  errors.Join(errPlain, reconciler.TerminalError(errInner)),
	} {
		t.Run(name, func(t *testing.T) {
			singly(t, func(e *env) {
				marking(e)
				e.put(1, 1, 2)
				e.pass(time.Second)
				e.target.take()
				e.target.deciding(func(call) error { return err })
				start := time.Now()
				e.remove(1)
				e.put(0, 2)
				e.pass(10 * time.Second)
				at := map[uint64][]call{}
				for _, c := range e.target.take() {
					at[c.id] = append(at[c.id], c)
				}
				require.Equal(e, backoff, since(start, at[1]))
				require.Equal(e, backoff, since(start, at[2]))
				e.status(2, reconciler.StatusKindError, err.Error())

				e.target.failing("")
				e.pass(time.Minute)
				e.eachDone()
				require.NotContains(e, e.target.holds(), uint64(1))
			}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 2 }))
		})
	}
}

// Deletions that go on neither open nor close a breaker: they do not show whether the target is up.
func TestDeletionsThatGoOnDoNotMatterToABreaker(t *testing.T) {
	singly(t, func(e *env) {
		e.put(1, ids(1, 20)...)
		e.pass(time.Second)
		e.target.take()
		e.target.deciding(func(c call) error {
			if c.op == "delete" {
				return reconciler.Requeue(time.Second)
			}
			return errors.New("down")
		})
		e.remove(ids(1, 12)...)
		e.pass(10 * time.Second)
		require.Empty(e, e.loop.Snapshot(e.Context()).Breaker)
		e.put(2, ids(13, 20)...)
		e.pass(10 * time.Second)
		require.NotEmpty(e, e.loop.Snapshot(e.Context()).Breaker)
		e.target.failing("")
		e.pass(time.Hour)
		e.eachDone()
		require.Len(e, e.target.holds(), 8)
	}, reconciler.WithBreaker(reconciler.Breaker{Failures: 5}))
}

// If an adapter calls running.Changed, its changes of the object are written even if the outcome is not
// news.
func TestChangeOfAnAdapterIsWrittenWithTheOutcome(t *testing.T) {
	for name, err := range map[string]error{"requeue": reconciler.Requeue(time.Second), "failure": errPlain} {
		t.Run(name, func(t *testing.T) {
			for _, tell := range []bool{false, true} {
				singly(t, func(e *env) {
					calls := 0
					e.target.mu.Lock()
					e.target.before = func(ctx context.Context, c call) {
						if calls++; calls == 3 && tell {
							running.Changed(ctx)
						}
					}
					e.target.mutate = func(o *object) { o.Note = "changed" }
					e.target.mu.Unlock()
					e.target.deciding(func(call) error { return err })
					e.put(1, 1)
					e.pass(time.Second / 20)
					_, first, _ := e.table.Get(e.db.ReadTxn(), idIndex.Query(1))
					e.pass(5 * time.Second)
					require.GreaterOrEqual(e, calls, 4)
					_, revision, _ := e.table.Get(e.db.ReadTxn(), idIndex.Query(1))
					if tell {
						require.Equal(e, first+1, revision, "written once more")
						require.Equal(e, "changed", e.get(1).Note)
					} else {
						require.Equal(e, first, revision, "clones are not compared")
					}
				}, reconciler.WithRetry(time.Second, time.Second))
			}
		})
	}
}
