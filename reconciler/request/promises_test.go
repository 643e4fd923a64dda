// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
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

// "Otherwise upon completion it will remove the work from the queue."
func TestACompletedRequestIsNotRunAgain(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		require.Equal(e, []string{"shop/web"}, e.took())
		time.Sleep(24 * time.Hour)
		require.Empty(e, e.took())
	}, nil)
}

// "RequeueAfter if greater than 0, tells the Controller to requeue the reconcile key after
// the Duration."
func TestRequeueAfterRunsTheRequestAgainAfterTheTime(t *testing.T) {
	for after, again := range map[time.Duration][]time.Duration{
		7 * time.Second: seconds(0, 7, 14),
		0:               seconds(0),
		-time.Second:    seconds(0),
	} {
		t.Run(after.String(), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.returning(request.Result{RequeueAfter: after}, nil)
				start := time.Now()
				e.put("web", 1)
				time.Sleep(20 * time.Second)
				require.Equal(e, again, e.times(start))
				require.Equal(e, rows{"shop/web": "Done"}, e.rows())
			}, nil)
		})
	}
}

// "Implies that Requeue is true, there is no need to set Requeue to true at the same time": if both
// are set, RequeueAfter takes precedence.
func TestRequeueAfterTakesPrecedenceOverRequeue(t *testing.T) {
	inBubble(t, func(e *env) {
		e.returning(request.Result{Requeue: true, RequeueAfter: 7 * time.Second}, nil)
		start := time.Now()
		e.put("web", 1)
		time.Sleep(20 * time.Second)
		require.Equal(e, seconds(0, 7, 14), e.times(start))
	}, nil)
}

// "Requeue ... Defaults to false": a negative RequeueAfter is ignored, and Requeue is used.
func TestANegativeRequeueAfterIsIgnored(t *testing.T) {
	inBubble(t, func(e *env) {
		e.returning(request.Result{Requeue: true, RequeueAfter: -1}, nil)
		start := time.Now()
		e.put("web", 1)
		time.Sleep(500 * time.Millisecond)
		require.Equal(e, seconds(0, 0.1, 0.3), e.times(start))
	}, nil)
}

func TestAnErrorTakesPrecedenceOverAResult(t *testing.T) {
	for name, res := range map[string]request.Result{
		"requeue": {Requeue: true}, "requeue after": {RequeueAfter: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.returning(res, errors.New("no quota"))
				start := time.Now()
				e.put("web", 1)
				time.Sleep(500 * time.Millisecond)
				require.Equal(e, seconds(0, 0.1, 0.3), e.times(start))
				require.Equal(e, rows{"shop/web": "Error: no quota"}, e.rows())
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

func TestAPanicIsAnError(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(context.Context, request.Request) (request.Result, error) { panic("oops") })
		e.put("web", 1)
		require.Equal(e, rows{"shop/web": "Error: panic in update: oops"}, e.rows())
	}, nil)
}

// "If responding to a Pod Delete Event, the Request won't contain that a Pod was deleted, instead
// the reconcile function observes this when reading the cluster state and seeing the Pod as
// missing." The row of the request is deleted after the clean-up has succeeded, not before.
func TestADeletedObjectIsFoundMissing(t *testing.T) {
	inBubble(t, func(e *env) {
		var (
			mu    sync.Mutex
			found = map[string]int{}
			down  atomic.Bool
		)
		has := func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(found)
		}
		e.doing(func(_ context.Context, req request.Request) (request.Result, error) {
			a, _, ok := e.apps.Get(e.db.ReadTxn(), appIndex.Query(req.String()))
			if down.Load() {
				return request.Result{}, errors.New("down")
			}
			mu.Lock()
			defer mu.Unlock()
			delete(found, req.Name)
			if ok {
				found[req.Name] = a.Replicas
			}
			return request.Result{}, nil
		})
		e.put("web", 3)
		e.took()
		require.Equal(e, map[string]int{"web": 3}, has())

		down.Store(true)
		e.remove("web")
		require.Equal(e, rows{"shop/web": "Error: down"}, e.rows())
		require.Equal(e, map[string]int{"web": 3}, has())

		down.Store(false)
		time.Sleep(time.Second)
		require.Empty(e, e.rows(), "the row is deleted")
		require.Empty(e, has())

		e.put("web", 4)
		require.Equal(e, rows{"shop/web": "Done"}, e.rows())
		require.Equal(e, map[string]int{"web": 4}, has())
	}, nil)
}

// The request of a deleted object stays while work is left.
func TestARequestOfADeletedObjectIsRequeued(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		e.took()
		e.returning(request.Result{RequeueAfter: time.Minute}, nil)
		e.remove("web")
		time.Sleep(150 * time.Second)
		require.Len(e, e.took(), 3)
		require.Equal(e, rows{"shop/web": "Blocked: still deleting"}, e.rows())
		e.returning(request.Result{}, nil)
		time.Sleep(time.Minute)
		require.Len(e, e.took(), 1)
		require.Empty(e, e.rows())
		time.Sleep(time.Hour)
		require.Empty(e, e.took())
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

// "Read an object and all the Pods it owns. Observe that the object spec specifies 5 replicas
// but actual cluster contains only 1 Pod replica. Create 4 Pods and set their OwnerReferences
// to the object."
func TestReconcileCreatesWhatIsMissing(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(_ context.Context, req request.Request) (request.Result, error) {
			wtxn := e.db.WriteTxn(e.pods)
			defer wtxn.Commit()
			a, _, _ := e.apps.Get(wtxn, appIndex.Query(req.String()))
			owned := 0
			for p := range e.pods.All(wtxn) {
				if owner, ok := p.owner(); ok && owner == req {
					owned++
				}
			}
			for ; owned < a.Replicas; owned++ {
				if _, _, err := e.pods.Insert(wtxn, &pod{Name: fmt.Sprint("new-", owned), Owner: req.Name}); err != nil {
					return request.Result{}, err
				}
			}
			return request.Result{}, nil
		})
		e.putPod("old", "web")
		e.putPod("stray", "api")
		e.put("web", 5)
		require.Equal(e, []string{"shop/web", "shop/web"}, e.took(), "the new pods are changes of rows that it owns")
		names := []string{}
		for p := range e.pods.All(e.db.ReadTxn()) {
			if p.Owner == "web" {
				names = append(names, p.Name)
			}
		}
		require.Equal(e, []string{"new-1", "new-2", "new-3", "new-4", "old"}, names)
	}, func(e *env, cfg *config) {
		onlyOfWeb := func(change request.Change[*pod]) bool {
			return change.Object.Owner == "web" && change.Object.Name != "old"
		}
		cfg.Sources = append(cfg.Sources, request.Owns(e.pods, (*pod).owner, onlyOfWeb))
	})
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
