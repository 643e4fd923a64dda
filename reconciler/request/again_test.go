// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/request"
)

// returningInTurn makes Reconcile return one result after the other, and then nothing. A function may fail or take
// time.
func (e *env) returningInTurn(calls ...func() (request.Result, error)) {
	n := 0
	e.doing(func(context.Context, request.Request) (request.Result, error) {
		e.mu.Lock()
		n++
		call := n
		e.mu.Unlock()
		if call > len(calls) {
			return request.Result{}, nil
		}
		return calls[call-1]()
	})
}

func after(d time.Duration) func() (request.Result, error) {
	return func() (request.Result, error) { return request.Result{RequeueAfter: d}, nil }
}

func failing(err error) func() (request.Result, error) {
	return func() (request.Result, error) { return request.Result{}, err }
}

var success = after(0)

// withWorkers runs a test of a controller in line, and with workers. The backoff is 0.1 s, 0.2 s and so on.
func withWorkers(t *testing.T, test func(e *env), change func(e *env, cfg *config)) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d worker(s)", workers), func(t *testing.T) {
			inBubble(t, test, change, reconciler.WithSettings(func(s *reconciler.Settings) {
				s.Concurrency, s.BlockedRecheck = workers, 0
			}))
		})
	}
}

// "RequeueAfter ... tells the Controller to requeue the reconcile key after the Duration", whatever a call in
// between returns.
func TestALaterCallDoesNotCancelARequeueAfter(t *testing.T) {
	busy := errors.New("busy")
	for name, c := range map[string]struct {
		second func() (request.Result, error)
		want   []time.Duration
	}{
		"success":     {success, seconds(0, 5, 10)},
		"same again":  {after(10 * time.Second), seconds(0, 5, 10)},
		"for ever":    {after(math.MaxInt64), seconds(0, 5, 10)},
		"earlier":     {after(2 * time.Second), seconds(0, 5, 7)},
		"requeue":     {func() (request.Result, error) { return request.Result{Requeue: true}, nil }, seconds(0, 5, 5.1, 10)},
		"error":       {failing(busy), seconds(0, 5, 5.1, 10)},
		"panic":       {func() (request.Result, error) { panic("oops") }, seconds(0, 5, 5.1, 10)},
		"retry after": {failing(reconciler.RetryAfter(busy, 2*time.Second)), seconds(0, 5, 7, 10)},
		// These wait for something else.
		"late retry": {failing(reconciler.RetryAfter(busy, 20*time.Second)), seconds(0, 5, 25)},
		"terminal":   {failing(reconciler.TerminalError(busy)), seconds(0, 5)},
		"blocked":    {failing(reconciler.Blocked("quota")), seconds(0, 5)},
	} {
		t.Run(name, func(t *testing.T) {
			withWorkers(t, func(e *env) {
				start := time.Now()
				e.returningInTurn(after(10*time.Second), c.second)
				e.put("web", 1)
				time.Sleep(5 * time.Second)
				e.put("web", 2)
				time.Sleep(time.Hour)
				require.Equal(e, c.want, e.times(start))
			}, nil)
		})
	}
}

// A call that begins before the time and ends after it does not stand for the one that was asked for.
func TestACallThatBeganBeforeTheTimeIsRepeated(t *testing.T) {
	withWorkers(t, func(e *env) {
		start := time.Now()
		e.returningInTurn(after(time.Second), func() (request.Result, error) {
			time.Sleep(2 * time.Second)
			return request.Result{}, nil
		})
		e.put("web", 1)
		time.Sleep(500 * time.Millisecond)
		e.put("web", 2)
		time.Sleep(time.Hour)
		at := e.times(start)
		require.Len(e, at, 3)
		require.Equal(e, 2500*time.Millisecond, at[2].Round(time.Millisecond), "at once")
	}, nil)
}

// A clean-up that asks for nothing is the end of the request, and of its time.
func TestARequeueAfterEndsWithTheCleanUp(t *testing.T) {
	withWorkers(t, func(e *env) {
		start := time.Now()
		e.returningInTurn(after(time.Hour), success, success, after(10*time.Second))
		e.put("web", 1)
		time.Sleep(time.Second)
		e.remove("web")
		require.Empty(e, e.rows())
		e.put("web", 1)
		time.Sleep(2 * time.Hour)
		require.Equal(e, seconds(0, 1, 1), e.times(start))

		start = time.Now()
		e.remove("web")
		time.Sleep(5 * time.Second)
		require.Equal(e, rows{"shop/web": "Blocked: still deleting"}, e.rows())
		e.controller.Add(named("shop", "web"))
		require.Empty(e, e.rows())
		time.Sleep(time.Hour)
		require.Equal(e, seconds(0, 5), e.times(start))
	}, nil)
}

// Without For the row of a request stays until the time, and no longer.
func TestARequeueAfterHoldsWithoutFor(t *testing.T) {
	withWorkers(t, func(e *env) {
		start := time.Now()
		e.returningInTurn(after(10 * time.Second))
		e.controller.Add(named("shop", "web"))
		time.Sleep(5 * time.Second)
		e.controller.Add(named("shop", "web"))
		require.Equal(e, rows{"shop/web": "Done"}, e.rows())
		time.Sleep(5 * time.Second)
		require.Empty(e, e.rows())
		time.Sleep(time.Hour)
		require.Equal(e, seconds(0, 5, 10), e.times(start))
	}, func(_ *env, cfg *config) { cfg.Sources = nil })
}

// Events, refreshes, failures and results come at random. A call begins at the time of each RequeueAfter, unless the
// request is being reconciled or waits for a retry.
func TestEachRequeueAfterIsKeptAmongRandomEvents(t *testing.T) {
	const gather = 5 * time.Millisecond // The loop wakes for times that are as close together at once.
	kept := 0
	for range long.Times(5) {
		seed := rand.Uint64()
		withWorkers(t, func(e *env) {
			var (
				results, events = rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
				due, ended      time.Time
				failed          bool
			)
			e.doing(func(context.Context, request.Request) (res request.Result, err error) {
				if now := time.Now(); !due.IsZero() && !now.Before(due) {
					if !failed && now.Sub(due) > gather && now.Sub(ended) > gather {
						t.Errorf("seed %d: %s late", seed, now.Sub(due))
					}
					due, kept = time.Time{}, kept+1
				}
				if results.IntN(4) == 0 {
					time.Sleep(time.Duration(results.IntN(3000)) * time.Millisecond)
				}
				ended = time.Now()
				if failed = results.IntN(8) == 0; failed {
					return res, errors.New("busy")
				}
				if results.IntN(2) == 0 {
					res.RequeueAfter = time.Duration(1+results.IntN(50)) * 100 * time.Millisecond
					if at := ended.Add(res.RequeueAfter); due.IsZero() || at.Before(due) {
						due = at
					}
				}
				return res, nil
			})
			for i := range 60 {
				switch events.IntN(4) {
				case 0:
					e.put("web", i)
				case 1:
					e.controller.Add(named("shop", "web"))
				case 2:
					_, err := e.controller.Loop().Refresh(e.Context(), "shop/web")
					require.NoError(e, err)
				}
				time.Sleep(time.Duration(events.IntN(2000)) * time.Millisecond)
			}
			e.returning(request.Result{}, nil)
			time.Sleep(time.Hour)
			e.remove("web")
			require.Empty(e, e.rows())
		}, func(e *env, cfg *config) {
			e.put("web", -1)
			cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 1 }))
		})
	}
	require.Greater(t, kept, 20)
}
