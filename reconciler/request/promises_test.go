// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/request"
)

// Each test in this file checks a sentence, quoted above it, of controller-runtime's pkg/reconcile documentation.

// "The Controller will requeue the Request to be processed again if an error is non-nil".
func TestAnErrorRunsTheRequestAgain(t *testing.T) {
	inBubble(t, func(e *env) {
		e.returning(request.Result{}, errors.New("no quota"))
		start := time.Now()
		e.put("web", 1)
		time.Sleep(time.Second)
		require.Equal(e, seconds(0, 0.1, 0.3, 0.7), e.times(start))
		require.Equal(e, rows{"shop/web": "Error: no quota"}, e.rows())

		e.returning(request.Result{}, nil)
		time.Sleep(time.Second)
		require.Equal(e, seconds(1.5), e.times(start))
		require.Equal(e, rows{"shop/web": "Done"}, e.rows())
	}, nil)
}

// "... or Result.Requeue is true": with backoff, and not as an error.
func TestRequeueRunsTheRequestAgainWithBackoff(t *testing.T) {
	inBubble(t, func(e *env) {
		e.returning(request.Result{Requeue: true}, nil)
		start := time.Now()
		e.put("web", 1)
		time.Sleep(time.Second)
		require.Equal(e, seconds(0, 0.1, 0.3, 0.7), e.times(start))
		require.Equal(e, rows{"shop/web": "Done"}, e.rows())
		require.Zero(e, e.controller.Loop().Figures().Failing)

		e.returning(request.Result{}, nil)
		time.Sleep(time.Hour)
		require.Equal(e, seconds(1.5), e.times(start))
	}, nil)
}

// "RequeueAfter if greater than 0, tells the Controller to requeue the reconcile key after the Duration. Implies
// that Requeue is true". An error takes precedence over both.
func TestResultsSayWhenTheRequestRunsAgain(t *testing.T) {
	busy, backoff := errors.New("no quota"), seconds(0, 0.1, 0.3, 0.7, 1.5)
	for _, c := range []struct {
		res  request.Result
		err  error
		want []time.Duration
	}{
		{request.Result{}, nil, seconds(0)},
		{request.Result{RequeueAfter: -time.Second}, nil, seconds(0)},
		{request.Result{RequeueAfter: time.Second}, nil, seconds(0, 1, 2)},
		{request.Result{RequeueAfter: time.Second, Requeue: true}, nil, seconds(0, 1, 2)},
		{request.Result{RequeueAfter: -1, Requeue: true}, nil, backoff},
		{request.Result{Requeue: true}, busy, backoff},
		{request.Result{RequeueAfter: time.Hour}, busy, backoff},
	} {
		t.Run(fmt.Sprintf("%+v, %v", c.res, c.err), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.returning(c.res, c.err)
				start := time.Now()
				e.put("web", 1)
				time.Sleep(2 * time.Second)
				require.Equal(e, c.want, e.times(start))
			}, nil)
		})
	}
}

// Outcomes of the loop have the same meaning here, whatever the result.
func TestOutcomesOfTheLoopKeepTheirMeaning(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		row   string
		again []time.Duration
	}{
		"terminal":    {reconciler.TerminalError(errors.New("bad spec")), "Error: bad spec", seconds(0)},
		"wrapped":     {fmt.Errorf("app: %w", reconciler.TerminalError(errors.New("bad spec"))), "Error: app: bad spec", seconds(0)},
		"retry after": {reconciler.RetryAfter(errors.New("429"), 4*time.Second), "Error: 429", seconds(0, 4, 8)},
		"blocked":     {reconciler.Blocked("quota"), "Blocked: quota", seconds(0)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.returning(request.Result{Requeue: true}, c.err)
				start := time.Now()
				e.put("web", 1)
				time.Sleep(10 * time.Second)
				require.Equal(e, c.again, e.times(start))
				require.Equal(e, rows{"shop/web": c.row}, e.rows())

				e.returning(request.Result{}, nil)
				e.put("web", 2)
				require.Len(e, e.took(), 1, "a change runs it again")
				require.Equal(e, rows{"shop/web": "Done"}, e.rows())
			}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.BlockedRecheck = 0 }))
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

// "Reconcile is triggered ... in response to cluster Events (e.g. Creating, Updating, Deleting
// Kubernetes objects)": once for each, and only for the object's own request.
func TestCreatingUpdatingAndDeletingRunTheRequest(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("api", 1)
		e.took()
		e.put("web", 1)
		require.Equal(e, []string{"shop/web"}, e.took())
		e.put("web", 2)
		require.Equal(e, []string{"shop/web"}, e.took())
		e.remove("web")
		require.Equal(e, []string{"shop/web"}, e.took())
	}, nil)
}

// "reconcile is triggered ... in response to cluster Events or external Events (GitHub
// Webhooks, polling external sources, etc)".
func TestExternalEventsAreAdded(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		e.took()
		e.controller.Add(named("shop", "web"), named("shop", "gone"), named("shop", "web"))
		require.ElementsMatch(e, []string{"shop/web", "shop/gone"}, e.took())
		require.Equal(e, rows{"shop/web": "Done"}, e.rows(), "only existing objects keep a row")
	}, nil)
}

// "action isn't driven off changes in individual Events": many changes become one request.
func TestManyChangesBecomeOneRequest(t *testing.T) {
	inBubble(t, func(e *env) {
		wtxn := e.db.WriteTxn(e.apps)
		for replicas := range 100 {
			_, _, err := e.apps.Insert(wtxn, &app{Namespace: "shop", Name: "web", Replicas: replicas})
			require.NoError(e, err)
		}
		wtxn.Commit()
		require.Equal(e, []string{"shop/web"}, e.took())
	}, nil)
}

// Changes that arrive while a request is reconciled become one more run afterwards.
func TestARequestIsNotReconciledTwiceAtATime(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(context.Context, request.Request) (request.Result, error) {
			time.Sleep(time.Second)
			return request.Result{}, nil
		})
		start := time.Now()
		e.put("web", 1)
		for replicas := range 9 {
			time.Sleep(100 * time.Millisecond)
			e.put("web", replicas)
			e.controller.Add(named("shop", "web"))
		}
		time.Sleep(time.Hour)
		require.Equal(e, seconds(0, 1), e.times(start))
	}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 8 }))
}

// "NamespacedName is the name and namespace of the object to reconcile", and a request has nothing
// else: "It does NOT contain information about any specific Event or the object contents itself".
// Both are needed "to uniquely identify the object".
func TestARequestIsANameAndANamespace(t *testing.T) {
	req := request.Request(struct{ request.NamespacedName }{named("shop", "web").NamespacedName})
	require.NotEqual(t, named("other", "web"), req)
	require.NotEqual(t, named("shop", "api"), req)
	require.Equal(t, "shop", req.Namespace)
	require.Equal(t, "web", req.Name)
	require.Equal(t, "shop/web", req.String())
	require.Equal(t, "/web", request.NamespacedName{Name: "web"}.String())
}

// "reconcile may be implemented as either a type ... Or as a function".
func TestAFunctionIsAReconciler(t *testing.T) {
	var r request.Reconciler[string] = request.Func[string](func(_ context.Context, req string) (request.Result, error) {
		return request.Result{Requeue: true}, errors.New(req)
	})
	res, err := r.Reconcile(t.Context(), "web")
	require.Equal(t, request.Result{Requeue: true}, res)
	require.EqualError(t, err, "web")
}
