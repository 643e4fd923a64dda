// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/request"
)

// The quotations in this file are of controller-runtime's pkg/reconcile documentation.

// "The Controller will requeue the Request to be processed again if an error is non-nil or Result.Requeue is true":
// with backoff. "RequeueAfter if greater than 0, tells the Controller to requeue the reconcile key after the
// Duration. Implies that Requeue is true". An error takes precedence over both. Outcomes of the loop keep their
// meaning, whatever the result.
func TestTheResultSaysWhenTheRequestRunsAgain(t *testing.T) {
	busy, terminal := errors.New("no quota"), reconciler.TerminalError(errors.New("bad spec"))
	once, backoff, everySecond := seconds(0), seconds(0, 0.1, 0.3, 0.7, 1.5), seconds(0, 1, 2)
	for _, c := range []struct {
		res  request.Result
		err  error
		want []time.Duration
		row  string
	}{
		{request.Result{}, nil, once, "Done"},
		{request.Result{RequeueAfter: -time.Second}, nil, once, "Done"},
		{request.Result{RequeueAfter: time.Second}, nil, everySecond, "Done"},
		{request.Result{RequeueAfter: time.Second, Requeue: true}, nil, everySecond, "Done"},
		{request.Result{RequeueAfter: -1, Requeue: true}, nil, backoff, "Done"},
		{request.Result{Requeue: true}, nil, backoff, "Done"},
		{request.Result{Requeue: true}, busy, backoff, "Error: no quota"},
		{request.Result{RequeueAfter: time.Hour}, busy, backoff, "Error: no quota"},
		{request.Result{Requeue: true}, terminal, once, "Error: bad spec"},
		{request.Result{Requeue: true}, fmt.Errorf("app: %w", terminal), once, "Error: app: bad spec"},
		{request.Result{Requeue: true}, reconciler.RetryAfter(busy, time.Second), everySecond, "Error: no quota"},
		{request.Result{Requeue: true}, reconciler.Blocked("quota"), once, "Blocked: quota"},
	} {
		t.Run(fmt.Sprintf("%+v, %v", c.res, c.err), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.doing(returning(c.res, c.err))
				start := time.Now()
				e.put("web", 1)
				time.Sleep(2 * time.Second)
				require.Equal(e, c.want, e.times(start))
				require.Equal(e, rows{"shop/web": c.row}, e.rows())
				if c.err == nil {
					require.Zero(e, e.controller.Loop().Figures().Failing)
				}

				e.doing(nil)
				e.put("web", 2)
				time.Sleep(time.Hour)
				require.NotEmpty(e, e.took(), "a change runs it again")
				require.Equal(e, rows{"shop/web": "Done"}, e.rows())
			}, nil, settings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
		})
	}
}

// "If responding to a Pod Delete Event, the Request won't contain that a Pod was deleted, instead
// the reconcile function observes this when reading the cluster state and seeing the Pod as
// missing." The row of the request is deleted after the clean-up has succeeded, not before.
func TestADeletedObjectIsFoundMissing(t *testing.T) {
	inBubble(t, func(e *env) {
		var down, found atomic.Bool
		e.doing(func(_ context.Context, req request.Request) (request.Result, error) {
			if down.Load() {
				return request.Result{}, errors.New("down")
			}
			_, _, exists := e.apps.Get(e.db.ReadTxn(), appIndex.Query(req.String()))
			found.Store(exists)
			return request.Result{}, nil
		})
		e.put("web", 3)
		e.took()
		require.True(e, found.Load())
		down.Store(true)
		e.remove("web")
		require.Equal(e, rows{"shop/web": "Error: down"}, e.rows())
		down.Store(false)
		time.Sleep(time.Second)
		require.Empty(e, e.rows(), "the row is deleted")
		require.False(e, found.Load())
	}, nil)
}

// "Reconcile is triggered ... in response to cluster Events (e.g. Creating, Updating, Deleting Kubernetes objects) or
// external Events (GitHub Webhooks, polling external sources, etc)": once for each, and only for the object's own
// request. "action isn't driven off changes in individual Events": many changes become one request.
func TestEventsRunTheRequest(t *testing.T) {
	inBubble(t, func(e *env) {
		web := []string{"shop/web"}
		e.put("api", 1)
		e.took()
		e.put("web", 1)
		require.Equal(e, web, e.took())
		e.put("web", 2)
		require.Equal(e, web, e.took())
		wtxn := e.db.WriteTxn(e.apps)
		for replicas := range 100 {
			_, _, err := e.apps.Insert(wtxn, &app{Namespace: "shop", Name: "web", Replicas: replicas})
			require.NoError(e, err)
		}
		wtxn.Commit()
		require.Equal(e, web, e.took())
		e.controller.Add(named("shop", "web"), named("shop", "gone"), named("shop", "web"))
		require.ElementsMatch(e, []string{"shop/web", "shop/gone"}, e.took())
		require.Equal(e, rows{"shop/web": "Done", "shop/api": "Done"}, e.rows(), "only existing objects keep a row")
		e.remove("web")
		require.Equal(e, web, e.took())
	}, nil)
}

func after(d time.Duration) reconcile { return returning(request.Result{RequeueAfter: d}, nil) }
func failing(err error) reconcile     { return returning(request.Result{}, err) }
func panicking(context.Context, request.Request) (request.Result, error) {
	panic("oops")
}

var success = after(0)

// withWorkers runs a test of a controller in line, and with workers. The backoff is 0.1 s, 0.2 s and so on.
func withWorkers(t *testing.T, test func(e *env), change func(e *env, cfg *config)) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d worker(s)", workers), func(t *testing.T) {
			inBubble(t, test, change, settings(func(s *reconciler.Settings) {
				s.Concurrency, s.BlockedRecheck = workers, 0
			}))
		})
	}
}

// "RequeueAfter ... tells the Controller to requeue the reconcile key after the Duration", whatever a call in
// between returns, whether an event or a refresh led to it.
func TestALaterCallDoesNotCancelARequeueAfter(t *testing.T) {
	busy := errors.New("busy")
	for name, c := range map[string]struct {
		second reconcile
		want   []time.Duration
	}{
		"success":     {success, seconds(0, 5, 10)},
		"same again":  {after(10 * time.Second), seconds(0, 5, 10)},
		"for ever":    {after(math.MaxInt64), seconds(0, 5, 10)},
		"earlier":     {after(2 * time.Second), seconds(0, 5, 7)},
		"requeue":     {returning(request.Result{Requeue: true}, nil), seconds(0, 5, 5.1, 10)},
		"error":       {failing(busy), seconds(0, 5, 5.1, 10)},
		"panic":       {panicking, seconds(0, 5, 5.1, 10)},
		"retry after": {failing(reconciler.RetryAfter(busy, 2*time.Second)), seconds(0, 5, 7, 10)},
		// These wait for something else.
		"late retry": {failing(reconciler.RetryAfter(busy, 20*time.Second)), seconds(0, 5, 25)},
		"terminal":   {failing(reconciler.TerminalError(busy)), seconds(0, 5)},
		"blocked":    {failing(reconciler.Blocked("quota")), seconds(0, 5)},
	} {
		t.Run(name, func(t *testing.T) {
			refresh := false
			withWorkers(t, func(e *env) {
				start := time.Now()
				e.inTurn(after(10*time.Second), c.second)
				e.put("web", 1)
				time.Sleep(5 * time.Second)
				if refresh {
					_, err := e.controller.Loop().Refresh(e.Context(), "shop/web")
					require.NoError(e, err)
				} else {
					e.put("web", 2)
				}
				time.Sleep(time.Hour)
				require.Equal(e, c.want, e.times(start))
				refresh = true
			}, nil)
		})
	}
}

// A call that begins before the time and ends after it does not stand for the one that was asked for.
func TestACallThatBeganBeforeTheTimeIsRepeated(t *testing.T) {
	withWorkers(t, func(e *env) {
		start := time.Now()
		e.inTurn(after(time.Second), taking(2*time.Second, nil))
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
		e.inTurn(after(time.Hour), success, success, after(10*time.Second))
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
		e.inTurn(after(10 * time.Second))
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

// A terminal error is logged and counted. It keeps the row of an existing object, which shows it, but not that of a
// request without an object: with the error the reconciler says that the clean-up will never succeed.
func TestRowsOfTerminalRequestsAreDeleted(t *testing.T) {
	withWorkers(t, func(e *env) {
		e.doing(failing(reconciler.TerminalError(errors.New("bad spec"))))
		e.put("web", 1)
		e.controller.Add(named("shop", "gone"))
		require.Len(e, e.took(), 2)
		require.Equal(e, rows{"shop/web": "Error: bad spec"}, e.rows())
		require.Contains(e, e.log.String(), "bad spec")
		require.Equal(e, 2, failures(e))
		require.Equal(e, 1, e.controller.Loop().Figures().Failing)
		time.Sleep(time.Hour)
		require.Empty(e, e.took())

		e.controller.Add(named("shop", "gone"))
		e.remove("web")
		require.ElementsMatch(e, []string{"shop/gone", "shop/web"}, e.took())
		require.Empty(e, e.rows())
		require.Equal(e, 4, failures(e))
		time.Sleep(time.Hour)
		require.Empty(e, e.took())
	}, nil)
}

// failures returns how many failed operations the loop has counted.
func failures(e *env) (n int) {
	for _, class := range e.controller.Loop().Snapshot(e.Context()).Errors {
		n += int(class.Count)
	}
	return n
}

// A clean-up that was given up would leave its resources behind forever.
func TestACleanUpIsNeverGivenUp(t *testing.T) {
	for name, fails := range map[string]reconcile{"error": failing(errors.New("down")), "panic": panicking} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.put("web", 1)
				e.took()
				e.doing(fails)
				e.remove("web")
				time.Sleep(time.Hour)
				require.Greater(e, len(e.took()), 50)
				require.NotContains(e, e.rows()["shop/web"], "given up")

				e.doing(nil)
				time.Sleep(time.Minute + time.Second)
				require.Len(e, e.took(), 1)
				require.Empty(e, e.rows())
			}, nil, settings(func(s *reconciler.Settings) { s.MaxRetries = 3 }))
		})
	}
}

// A predicate may reject the deletion of an object whose request was given up, or is failing: a call that had begun
// before may have read the object. The request still becomes a clean-up, and its row is deleted.
func TestFailedRequestsAreCleanedUpAfterRejectedDeletions(t *testing.T) {
	for was, takes := range map[string]time.Duration{
		"Error: given up after 1 retries: down": 0, "Pending": 2 * time.Hour,
	} {
		t.Run(was, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.doing(taking(takes, errors.New("down")))
				e.put("web", 1)
				time.Sleep(time.Hour)
				require.Equal(e, was, e.rows()["shop/web"])
				e.remove("web")
				time.Sleep(24 * time.Hour)
				require.Equal(e, rows{"shop/web": "Error: down"}, e.rows(), "a clean-up is not given up")
				e.doing(nil)
				time.Sleep(24 * time.Hour)
				require.Empty(e, e.rows())
			}, func(e *env, cfg *config) {
				cfg.Sources = from{request.For(e.apps, (*app).request, notDeleted[*app])}
			}, settings(func(s *reconciler.Settings) { s.MaxRetries, s.Concurrency = 1, 8 }))
		})
	}
}
