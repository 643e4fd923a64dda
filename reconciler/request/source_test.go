// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/request"
)

type (
	config = request.Config[request.Request]
	from   = []request.Source[request.Request]
)

// "Create 4 Pods and set their OwnerReferences to the object": a change of an owned row is a
// request of its owner.
func TestOwnersAreReconciledWhenOwnedRowsChange(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		e.put("api", 1)
		e.took()

		e.putPod("web-1", "web")
		require.Equal(e, []string{"shop/web"}, e.took())
		e.putPod("stray", "")
		require.Empty(e, e.took(), "the pod has no owner")
		e.putPod("web-1", "api")
		require.ElementsMatch(e, []string{"shop/web", "shop/api"}, e.took(), "the old owner is reconciled as well")
		e.putPod("web-1", "")
		require.Equal(e, []string{"shop/api"}, e.took())
		e.putPod("stray", "web")
		e.took()
		e.removePod("stray")
		require.Equal(e, []string{"shop/web"}, e.took())
		e.putPod("stray", "")
		e.removePod("stray")
		require.Empty(e, e.took(), "the owner before the deletion is forgotten")
	}, func(e *env, cfg *config) {
		cfg.Sources = append(cfg.Sources, request.Owns(e.pods, (*pod).owner))
	})
}

// Everything that exists at the start is reconciled.
func TestExistingRowsAreRequestsAtTheStart(t *testing.T) {
	inBubble(t, func(e *env) {
		require.ElementsMatch(e, []string{"shop/web", "shop/api"}, e.took())
		require.Equal(e, rows{"shop/web": "Done"}, e.rows())
	}, func(e *env, cfg *config) {
		e.put("web", 1)
		e.putPod("api-1", "api")
		cfg.Sources = append(cfg.Sources, request.Owns(e.pods, (*pod).owner))
	})
}

// Without a primary table the row of a request is deleted when it is reconciled, as from a queue.
func TestWithoutAPrimaryTableNoRequestStays(t *testing.T) {
	inBubble(t, func(e *env) {
		e.putPod("web-1", "web")
		e.controller.Add(named("shop", "api"))
		require.ElementsMatch(e, []string{"shop/web", "shop/api"}, e.took())
		require.Empty(e, e.rows())
	}, func(e *env, cfg *config) {
		cfg.Sources = from{request.Owns(e.pods, (*pod).owner)}
	})
}

// ofShop is a predicate that accepts the apps of namespace "shop".
var ofShop request.Predicate[*app] = func(change request.Change[*app]) bool { return change.Object.Namespace == "shop" }

// The deletion of some rows does not make others stay.
func TestNoRequestStaysUnderConcurrentAdds(t *testing.T) {
	inBubble(t, func(e *env) {
		for round := range long.Times(200) {
			for i := range 3 {
				go e.controller.Add(named("shop", strconv.Itoa(i)))
			}
			require.NotEmpty(e, e.took())
			require.Empty(e, e.rows(), "after round %d", round)
		}
	}, func(_ *env, cfg *config) { cfg.Sources = nil })
}

func TestARejectedChangeIsNoRequest(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		e.put("none", 0)
		require.Equal(e, []string{"shop/web"}, e.took())
		e.insert(&app{Namespace: "other", Name: "web", Replicas: 1})
		require.Empty(e, e.took(), "all predicates must return true")
		e.remove("web")
		require.Empty(e, e.took())
		require.Empty(e, e.rows(), "the row of a deleted object is deleted anyway")
	}, func(e *env, cfg *config) {
		cfg.Sources = from{request.For(e.apps, (*app).request,
			func(change request.Change[*app]) bool { return change.Object.Replicas > 0 && !change.Deleted },
			ofShop,
		)}
	})
}

// A reconciler that writes a status into its object does not trigger itself.
func TestChangesOfIgnoresOtherParts(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(_ context.Context, req request.Request) (request.Result, error) {
			wtxn := e.db.WriteTxn(e.apps)
			defer wtxn.Commit()
			if a, _, found := e.apps.Get(wtxn, appIndex.Query(req.String())); found {
				seen := *a
				seen.Seen++
				_, _, err := e.apps.Insert(wtxn, &seen)
				return request.Result{}, err
			}
			return request.Result{}, nil
		})
		e.put("web", 1)
		require.Equal(e, []string{"shop/web"}, e.took())
		e.put("web", 2)
		require.Equal(e, []string{"shop/web"}, e.took())
		e.remove("web")
		require.Equal(e, []string{"shop/web"}, e.took())
		e.put("web", 2)
		require.Equal(e, []string{"shop/web"}, e.took(), "it is new")
	}, func(e *env, cfg *config) {
		cfg.Sources = from{request.For(e.apps, (*app).request, request.ChangesOf(func(a *app) int { return a.Replicas }))}
	})
}

// A change is not lost if a function panics, not even if later changes of the row do not matter.
// Other rows are not held up.
func TestAPanicOfASourceIsRetried(t *testing.T) {
	for _, where := range []string{"function", "predicate"} {
		t.Run(where, func(t *testing.T) {
			var broken atomic.Bool
			broken.Store(true)
			panicking := func(in string, a *app) {
				if in == where && broken.Load() && a.Name == "web" {
					panic("oops")
				}
			}
			inBubble(t, func(e *env) {
				e.put("web", 1)
				e.put("api", 1)
				require.Equal(e, []string{"shop/api"}, e.took())
				require.Contains(e, e.log.String(), "function of a source panicked")
				require.Contains(e, e.log.String(), "key=shop/web")
				time.Sleep(250 * time.Millisecond) // it has panicked twice
				broken.Store(false)
				e.insert(&app{Namespace: "shop", Name: "web", Replicas: 1, Seen: 1})
				time.Sleep(time.Second)
				require.Equal(e, []string{"shop/web"}, e.took())
				time.Sleep(time.Hour)
				require.Empty(e, e.took())
			}, func(e *env, cfg *config) {
				requestOf := func(a *app) request.Request { panicking("function", a); return a.request() }
				all := func(change request.Change[*app]) bool { panicking("predicate", change.Object); return true }
				changes := request.ChangesOf(func(a *app) int { return a.Replicas })
				cfg.Sources = from{request.For(e.apps, requestOf, changes, all)}
			})
		})
	}
}

// Requests of existing objects are reconciled periodically, even if nothing changes. A new one is in
// the lap after the one that it was made in.
func TestRequestsAreRefreshed(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		e.controller.Add(named("shop", "gone"))
		require.Len(e, e.took(), 2)
		time.Sleep(2*time.Hour + time.Minute)
		require.Equal(e, []string{"shop/web"}, e.took())
		time.Sleep(2 * time.Hour)
		require.Equal(e, []string{"shop/web", "shop/web"}, e.took())
	}, nil, reconciler.WithRefreshing(time.Hour, nil))
}

// Requests are explained, paused and awaited by their key, as the objects of any loop.
func TestTheLoopOfAControllerTakesTextsOfRequests(t *testing.T) {
	inBubble(t, func(e *env) {
		loop := e.controller.Loop()
		e.returning(request.Result{RequeueAfter: time.Minute}, nil)
		e.put("web", 1)
		e.took()
		x := loop.Explain(e.Context(), "shop/web")
		for row := range e.controller.Table().All(e.db.ReadTxn()) {
			require.Equal(e, named("shop", "web"), row.Request)
			s, _ := loop.Status(e.db.ReadTxn(), row)
			require.Equal(e, reconciler.StatusKindDone, s.Kind)
		}
		require.Equal(e, inspect.StateRequeue, x.State, x.Why)
		require.Equal(e, "shop/web", x.Key)

		require.NoError(e, loop.PauseOnly("shop/web"))
		e.put("web", 2)
		require.Empty(e, e.took())
		loop.Resume()
		require.Equal(e, []string{"shop/web"}, e.took())

		var registry inspect.Registry
		registry.Add(loop)
		found, err := registry.Find("requests")
		require.NoError(e, err)
		require.Equal(e, "requests", found.ID().Table)
	}, nil)
}

func TestRequestsOfAGroupAreReconciledOneAtATime(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(context.Context, request.Request) (request.Result, error) {
			time.Sleep(time.Second)
			return request.Result{}, nil
		})
		start := time.Now()
		e.put("web", 1)
		e.put("api", 1)
		e.insert(&app{Namespace: "other", Name: "web"})
		time.Sleep(time.Minute)
		require.ElementsMatch(e, seconds(0, 0, 1), e.times(start))
	}, func(_ *env, cfg *config) {
		cfg.SerialBy = func(req request.Request) string { return req.Namespace }
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = 8 }))
}
