// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler/request"
)

// notDeleted is a predicate that rejects deletions.
func notDeleted[Obj any](change request.Change[Obj]) bool { return !change.Deleted }

// A predicate sees every change, also one that another predicate rejects, whatever their order.
func TestChangesOfAcceptsARowInsertedAgain(t *testing.T) {
	changes := request.ChangesOf(func(a *app) int { return a.Replicas })
	for name, predicates := range map[string][]request.Predicate[*app]{
		"rejected first": {notDeleted[*app], changes}, "rejected last": {changes, notDeleted[*app]},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.put("web", 1)
				require.Len(e, e.took(), 1)
				e.remove("web")
				require.Empty(e, e.took())
				e.put("web", 1)
				require.Equal(e, []string{"shop/web"}, e.took())
			}, func(e *env, cfg *config) {
				cfg.Sources = from{request.For(e.apps, (*app).request, predicates...)}
			})
		})
	}
}

func TestAllPredicatesAreCalledForEveryChange(t *testing.T) {
	var calls []string
	called := func(name string, holds bool) request.Predicate[*app] {
		return func(request.Change[*app]) bool {
			if calls = append(calls, name); name == "panics" {
				panic("oops")
			}
			return holds
		}
	}
	inBubble(t, func(e *env) {
		e.put("web", 1)
		synctest.Wait()
		require.Equal(e, []string{"rejects", "panics", "holds"}, calls)
	}, func(e *env, cfg *config) {
		cfg.Sources = from{request.For(e.apps, (*app).request, called("rejects", false), called("panics", true), called("holds", true))}
	})
}

// The owner always gets a request for a deletion. A new row with the same key is not compared with
// the deleted one.
func TestOwnersAreReconciledForRejectedDeletions(t *testing.T) {
	inBubble(t, func(e *env) {
		e.putPod("web-1", "web")
		require.Equal(e, []string{"shop/web"}, e.took())
		e.removePod("web-1")
		require.Equal(e, []string{"shop/web"}, e.took())
		e.putPod("web-1", "")
		require.Empty(e, e.took(), "the pod has no owner")
		e.putPod("web-1", "api")
		require.Equal(e, []string{"shop/api"}, e.took())
	}, func(e *env, cfg *config) {
		cfg.Sources = from{request.Owns(e.pods, (*pod).owner, notDeleted[*pod])}
	})
}

// EnqueueRequestsFromMapFunc maps the old version and the new one.
func TestWatchesRequestsForOldAndNewVersion(t *testing.T) {
	inBubble(t, func(e *env) {
		e.putPod("shared", "web")
		require.Equal(e, []string{"shop/web"}, e.took())
		e.putPod("shared", "api")
		require.ElementsMatch(e, []string{"shop/web", "shop/api"}, e.took())
		e.putPod("shared", "api")
		require.Equal(e, []string{"shop/api"}, e.took(), "each once")

		// Two changes are merged. The owner between them may have seen the row.
		wtxn := e.db.WriteTxn(e.pods)
		_, _, _ = e.pods.Insert(wtxn, &pod{Name: "shared", Owner: "db"})
		_, _, _ = e.pods.Delete(wtxn, &pod{Name: "shared"})
		wtxn.Commit()
		require.ElementsMatch(e, []string{"shop/api", "shop/db"}, e.took())
		e.putPod("shared", "web")
		require.Equal(e, []string{"shop/web"}, e.took(), "the version before the deletion is forgotten")
	}, func(e *env, cfg *config) {
		cfg.Sources = from{request.Watches(e.pods, func(p *pod) (reqs []request.Request) {
			if owner, owned := p.owner(); owned {
				reqs = append(reqs, owner)
			}
			return reqs
		})}
	})
}

func TestPredicatesGetTheOldRowAndTheNew(t *testing.T) {
	var told []request.Change[*app]
	inBubble(t, func(e *env) {
		one := &app{Namespace: "shop", Name: "web", Replicas: 1}
		two, three := *one, *one
		two.Replicas, three.Replicas = 2, 3
		e.insert(one)
		synctest.Wait()
		e.insert(&two)
		synctest.Wait()
		wtxn := e.db.WriteTxn(e.apps)
		_, _, _ = e.apps.Insert(wtxn, &three)
		_, _, _ = e.apps.Delete(wtxn, one)
		wtxn.Commit()
		synctest.Wait()
		e.insert(one)
		synctest.Wait()
		require.Equal(e, []request.Change[*app]{
			{Object: one, Created: true}, {Object: &two, Old: one},
			{Object: &three, Old: &two, Deleted: true}, {Object: one, Created: true},
		}, told)
	}, func(e *env, cfg *config) {
		cfg.Sources = from{request.For(e.apps, (*app).request, func(change request.Change[*app]) bool {
			told = append(told, change)
			return false
		})}
	})
}

func TestChangesOfFuncComparesByFunction(t *testing.T) {
	words := request.ChangesOfFunc(func(p *pod) []string { return strings.Fields(p.Owner) }, slices.Equal[[]string])
	inBubble(t, func(e *env) {
		e.putPod("all", "web api")
		require.Len(e, e.took(), 1)
		e.putPod("all", " web  api ")
		require.Empty(e, e.took())
		e.putPod("all", "web db")
		require.Len(e, e.took(), 1)
		e.removePod("all")
		require.Len(e, e.took(), 1)
	}, func(e *env, cfg *config) {
		watch := func(*pod) []request.Request { return []request.Request{named("shop", "web")} }
		cfg.Sources = from{request.Watches(e.pods, watch, words)}
	})
}

// An object that predicates rejected when it was new still exists. So a requeue of its request is
// no deletion, and its row stays.
func TestAnObjectRejectedByPredicatesExists(t *testing.T) {
	inBubble(t, func(e *env) {
		e.returning(request.Result{Requeue: true}, nil)
		e.put("web", 0)
		require.Empty(e, e.took())
		require.Empty(e, e.rows())
		e.controller.Add(named("shop", "web"))
		require.Equal(e, rows{"shop/web": "Done"}, e.rows())
		e.remove("web")
		time.Sleep(time.Second)
		require.Equal(e, rows{"shop/web": "Blocked: still deleting"}, e.rows())
	}, func(e *env, cfg *config) {
		cfg.Sources = from{request.For(e.apps, (*app).request, func(change request.Change[*app]) bool { return change.Object.Replicas > 0 })}
	})
}
