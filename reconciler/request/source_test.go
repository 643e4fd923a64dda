// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/request"
)

// Without a primary table the row of a request is deleted when it is reconciled, as from a queue. A request that comes
// meanwhile is reconciled.
func TestNoRequestIsLostOrStaysUnderConcurrentAdds(t *testing.T) {
	var wanted, seen [3]atomic.Int32
	inBubble(t, func(e *env) {
		e.doing(func(_ context.Context, req request.Request) (request.Result, error) {
			i, _ := strconv.Atoi(req.Name)
			seen[i].Store(wanted[i].Load())
			return request.Result{}, nil
		})
		for round := range long.Times(200) {
			for i := range wanted {
				go func() {
					for range 50 {
						wanted[i].Add(1)
						e.controller.Add(named("shop", strconv.Itoa(i)))
						runtime.Gosched()
					}
				}()
			}
			require.Empty(e, e.rows(), "after round %d", round)
			for i := range wanted {
				require.EqualValues(e, 50*(round+1), seen[i].Load(), "a request was lost")
			}
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
		require.Equal(e, []string{"shop/web"}, e.took(), "a deletion is a request anyway")
		require.Equal(e, rows{"shop/none": "Done", "other/web": "Done"}, e.rows())
		_, err := e.controller.Loop().Refresh(e.Context(), "shop/none")
		require.NoError(e, err)
		require.Empty(e, e.took(), "nothing has asked")
	}, func(e *env, cfg *config) {
		cfg.Sources = from{request.For(e.apps, (*app).request,
			func(change request.Change[*app]) bool { return change.Object.Replicas > 0 && !change.Deleted },
			func(change request.Change[*app]) bool { return change.Object.Namespace == "shop" },
		)}
	})
}

// A reconciler that writes a status into its object does not trigger itself.
func TestChangesOfIgnoresOtherParts(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(_ context.Context, req request.Request) (request.Result, error) {
			e.touch(req)
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
		cfg.Sources = from{request.For(e.apps, (*app).request, onReplicas)}
	})
}

func TestAControllerEndsWithAnErrorWhenAFunctionEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &env{T: t, db: reconcilertest.NewDB(t)}
		e.tables()
		controller, err := request.New(config{DB: e.db, Reconciler: e, Sources: from{
			request.For(e.apps, (*app).request),
			request.Owns(e.pods, func(*pod) (request.Request, bool) { runtime.Goexit(); return request.Request{}, false }),
		}})
		require.NoError(t, err)
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { ended <- controller.Run(ctx) }()
		e.putPod("p", "web")
		select {
		case err = <-ended:
		case <-time.After(time.Minute):
		}
		require.ErrorContains(t, err, `following table "pods": a function of the program called runtime.Goexit`)
	})
}

// Requests of existing objects are reconciled once an interval, even if nothing changes.
func TestRequestsAreRefreshed(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		e.controller.Add(named("shop", "gone"))
		require.Len(e, e.took(), 2)
		for range 2 {
			time.Sleep(time.Hour + time.Minute)
			require.Equal(e, []string{"shop/web"}, e.took())
		}
	}, nil, reconciler.WithRefreshing(time.Hour, nil))
}

// Requests are explained, paused and awaited by their key, as the objects of any loop.
func TestTheLoopOfAControllerTakesTextsOfRequests(t *testing.T) {
	inBubble(t, func(e *env) {
		loop := e.controller.Loop()
		e.doing(returning(request.Result{RequeueAfter: time.Minute}, nil))
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

		for pause := range 2 {
			if pause == 0 {
				require.NoError(e, loop.PauseOnly("shop/web"))
			} else {
				loop.PauseObjects(func(row *request.Row[request.Request]) bool { return row.Request.Namespace == "shop" })
			}
			e.put("web", 2)
			e.insert(&app{Namespace: "other", Name: "web"})
			require.Equal(e, []string{"other/web"}, e.took())
			loop.Resume()
			require.Equal(e, []string{"shop/web"}, e.took())
		}
	}, nil)
}

func TestRequestsOfAGroupAreReconciledOneAtATime(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(taking(time.Second, nil))
		start := time.Now()
		e.put("web", 1)
		e.put("api", 1)
		e.insert(&app{Namespace: "other", Name: "web"})
		time.Sleep(time.Minute)
		require.ElementsMatch(e, seconds(0, 0, 1), e.times(start))
	}, func(_ *env, cfg *config) {
		cfg.SerialBy = func(req request.Request) string { return req.Namespace }
	}, settings(func(s *reconciler.Settings) { s.Concurrency = 8 }))
}

// A predicate sees every change, also one that another predicate rejects, whatever their order.
func TestChangesOfAcceptsARowInsertedAgain(t *testing.T) {
	for name, predicates := range map[string][]request.Predicate[*app]{
		"rejected first": {notDeleted[*app], onReplicas}, "rejected last": {onReplicas, notDeleted[*app]},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.put("web", 1)
				require.Len(e, e.took(), 1)
				e.remove("web")
				require.Len(e, e.took(), 1, "a deletion is a request anyway")
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
		cfg.Sources = from{request.For(e.apps, (*app).request,
			called("rejects", false), called("panics", true), called("holds", true))}
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
		e.doing(returning(request.Result{Requeue: true}, nil))
		e.put("web", 0)
		require.Empty(e, e.took())
		e.controller.Add(named("shop", "web"))
		require.Equal(e, rows{"shop/web": "Done"}, e.rows())
		require.NotEmpty(e, e.took())
		e.remove("web")
		time.Sleep(time.Second)
		require.Equal(e, rows{"shop/web": "Blocked: still deleting"}, e.rows())
	}, func(e *env, cfg *config) {
		cfg.Sources = from{request.For(e.apps, (*app).request,
			func(change request.Change[*app]) bool { return change.Object.Replicas > 0 })}
	})
}

// A reconciler that creates what is missing would create everything again at every start if it were
// called before the tables of all sources are complete.
func TestRequestsWaitUntilAllSourceTablesAreInitialized(t *testing.T) {
	var first, second func()
	inBubble(t, func(e *env) {
		e.put("api", 1)
		e.controller.Add(named("shop", "added"))
		require.Empty(e, e.took())
		held := `Blocked: waiting until table "pods" is initialised by: a, b`
		require.Equal(e, rows{"shop/web": held, "shop/api": held, "shop/added": held}, e.rows())

		first()
		require.Empty(e, e.took())
		second()
		require.ElementsMatch(e, []string{"shop/web", "shop/api", "shop/added"}, e.took())
		require.Equal(e, rows{"shop/web": "Done", "shop/api": "Done"}, e.rows())
		e.loading("late")
		e.put("web", 2)
		require.Equal(e, []string{"shop/web"}, e.took(), "a later initializer does not block requests again")
	}, func(e *env, cfg *config) {
		e.put("web", 1)
		first, second = e.loading("a"), e.loading("b")
		watch := func(*pod) []request.Request { return nil }
		cfg.Sources = append(cfg.Sources, request.Watches(e.pods, watch), request.Owns(e.pods, (*pod).owner))
	})
}

func TestBeforeInitializedDoesNotWaitForTables(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		require.Equal(e, []string{"shop/web"}, e.took())
		require.Equal(e, rows{"shop/web": "Done"}, e.rows())
	}, func(e *env, cfg *config) {
		e.loading("never")
		cfg.BeforeInitialized = true
		cfg.Sources = append(cfg.Sources, request.Owns(e.pods, (*pod).owner))
	})
}

// A change is not lost if a function panics, not even if a later change of the row does not matter, since that sets
// it back. Other rows are not held up.
func TestAPanicOfASourceIsRetried(t *testing.T) {
	for _, c := range []struct {
		where string
		back  bool
	}{{"function", false}, {"function", true}, {"predicate", false}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			var broken atomic.Bool
			panicking := func(in string, a *app) {
				if in == c.where && broken.Load() && a.Name == "web" {
					panic("oops")
				}
			}
			inBubble(t, func(e *env) {
				e.put("web", 1)
				require.Equal(e, []string{"shop/web"}, e.took())
				broken.Store(true)
				e.put("web", 2)
				e.put("api", 1)
				require.Equal(e, []string{"shop/api"}, e.took())
				require.Contains(e, e.log.String(), "function of a source panicked")
				require.Contains(e, e.log.String(), "key=shop/web")
				time.Sleep(250 * time.Millisecond) // the function has panicked twice
				broken.Store(false)
				if c.back {
					e.put("web", 1)
				}
				time.Sleep(time.Second)
				require.Equal(e, []string{"shop/web"}, e.took())
				time.Sleep(time.Hour)
				require.Empty(e, e.took())
			}, func(e *env, cfg *config) {
				requestOf := func(a *app) request.Request { panicking("function", a); return a.request() }
				all := func(change request.Change[*app]) bool { panicking("predicate", change.Object); return true }
				cfg.Sources = from{request.For(e.apps, requestOf, onReplicas, all)}
			})
		})
	}
}

// KeyOf is called by all sources. A request may come from several rows, and from Add.
func TestARequestIsNotLostWhenKeyOfPanicsOnce(t *testing.T) {
	for name, source := range map[string]func(e *env) request.Source[request.Request]{
		"owns": func(e *env) request.Source[request.Request] { return request.Owns(e.pods, (*pod).owner) },
		"watches": func(e *env) request.Source[request.Request] {
			return request.Watches(e.pods, func(p *pod) []request.Request { return []request.Request{named("shop", p.Owner)} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var panics atomic.Int32
			inBubble(t, func(e *env) {
				panics.Store(1)
				e.putPod("p", "web")
				time.Sleep(time.Minute)
				require.Equal(e, []string{"shop/web"}, e.took())
				panics.Store(2)
				e.putPod("p", "api")
				e.putPod("q", "api")
				time.Sleep(time.Minute)
				require.Subset(e, e.took(), []string{"shop/web", "shop/api"})
				panics.Store(1)
				require.Panics(e, func() { e.controller.Add(named("shop", "db")) })
				e.controller.Add(named("shop", "db"))
				require.Equal(e, []string{"shop/db"}, e.took())
			}, func(e *env, cfg *config) {
				cfg.Sources = append(cfg.Sources, source(e))
				cfg.KeyOf = func(req request.Request) index.Key {
					if panics.Add(-1) >= 0 {
						panic("once")
					}
					return index.String(req.String())
				}
			})
		})
	}
}
