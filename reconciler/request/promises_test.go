// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
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

var errBadSpec = reconciler.TerminalError(errors.New("bad spec"))

// A terminal error is logged and counted. It does not keep the row of a request without an object.
func TestRowsOfTerminalRequestsAreDeleted(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(strconv.Itoa(workers), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.returning(request.Result{}, errBadSpec)
				for i := range 1000 {
					e.controller.Add(named("shop", strconv.Itoa(i)))
				}
				time.Sleep(time.Second)
				require.Len(e, e.took(), 1000)
				require.Empty(e, e.rows())
				require.Contains(e, e.log.String(), "bad spec")
				require.Equal(e, 1000, failures(e))
				require.Zero(e, e.controller.Loop().Figures().Failing, "nothing is failing")
				time.Sleep(time.Hour)
				require.Empty(e, e.took())

				e.controller.Add(named("shop", "1"))
				require.Equal(e, []string{"shop/1"}, e.took())
			}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.MaxRetries = workers, 3 }))
		})
	}
}

// failures returns how many failed operations the loop has counted.
func failures(e *env) (n int) {
	for _, class := range e.controller.Loop().Snapshot(e.Context()).Errors {
		n += int(class.Count)
	}
	return n
}

// The same holds for a clean-up: with the terminal error the reconciler says that it will never
// succeed.
func TestRowsOfTerminalCleanUpsAreDeleted(t *testing.T) {
	inBubble(t, func(e *env) {
		e.put("web", 1)
		e.took()
		e.returning(request.Result{}, errBadSpec)
		e.remove("web")
		require.Equal(e, []string{"shop/web"}, e.took())
		require.Empty(e, e.rows())
		require.Equal(e, 1, failures(e))
		time.Sleep(time.Hour)
		require.Empty(e, e.took())
	}, nil)
}

// The row of an existing object stays and shows the error.
func TestATerminalRequestOfAnObjectKeepsItsRow(t *testing.T) {
	inBubble(t, func(e *env) {
		e.returning(request.Result{}, errBadSpec)
		e.put("web", 1)
		require.Equal(e, rows{"shop/web": "Error: bad spec"}, e.rows())
		require.Len(e, e.took(), 1)
		time.Sleep(time.Second)
		e.remove("web")
		require.Len(e, e.took(), 1)
		require.Empty(e, e.rows())
	}, nil)
}

// A clean-up that was given up would leave its resources behind forever.
func TestACleanUpIsNeverGivenUp(t *testing.T) {
	for name, err := range map[string]error{"error": errors.New("down"), "panic": nil} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.put("web", 1)
				e.took()
				e.failing(err)
				e.remove("web")
				time.Sleep(time.Hour)
				require.Greater(e, len(e.took()), 50)
				require.NotContains(e, e.rows()["shop/web"], "given up")

				e.doing(nil)
				time.Sleep(time.Minute + time.Second)
				require.Len(e, e.took(), 1)
				require.Empty(e, e.rows())
			}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries = 3 }))
		})
	}
}

// ignoringDeletions replaces the source by one whose predicate rejects deletions.
func ignoringDeletions(e *env, cfg *config) {
	cfg.Sources = from{request.For(e.apps, (*app).request, func(change request.Change[*app]) bool { return !change.Deleted })}
}

// failing makes Reconcile return err, or panic if err is nil.
func (e *env) failing(err error) {
	e.doing(func(context.Context, request.Request) (request.Result, error) {
		if err == nil {
			panic("oops")
		}
		return request.Result{}, err
	})
}

// A predicate may reject the deletion of an object whose request was given up. The request still
// becomes a clean-up, and its row is deleted.
func TestGivenUpRequestsAreCleanedUpAfterRejectedDeletions(t *testing.T) {
	inBubble(t, func(e *env) {
		e.returning(request.Result{}, errors.New("down"))
		e.put("web", 1)
		time.Sleep(time.Hour)
		require.Equal(e, rows{"shop/web": "Error: given up after 3 retries: down"}, e.rows())
		e.remove("web")
		time.Sleep(time.Hour)
		require.Equal(e, rows{"shop/web": "Error: down"}, e.rows(), "a clean-up is not given up")
		e.returning(request.Result{}, nil)
		time.Sleep(time.Hour)
		require.Empty(e, e.rows())
	}, func(e *env, cfg *request.Config[request.Request]) {
		cfg.Sources = []request.Source[request.Request]{request.For(e.apps, (*app).request, notDeleted[*app])}
	}, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries, s.Concurrency = 3, 8 }))
}

// A call that had begun before its object was removed may have read the object. If it fails, the
// request is retried as a clean-up, although a predicate rejects the deletion.
func TestObjectsRemovedDuringACallAreCleanedUp(t *testing.T) {
	inBubble(t, func(e *env) {
		e.doing(func(context.Context, request.Request) (request.Result, error) {
			time.Sleep(time.Second)
			return request.Result{}, errors.New("down")
		})
		e.put("web", 1)
		time.Sleep(500 * time.Millisecond)
		e.remove("web")
		time.Sleep(time.Hour)
		require.Equal(e, rows{"shop/web": "Error: down"}, e.rows(), "a clean-up is not given up")
		e.doing(nil)
		time.Sleep(2 * time.Minute)
		require.Empty(e, e.rows())
	}, ignoringDeletions, reconciler.WithSettings(func(s *reconciler.Settings) { s.MaxRetries, s.Concurrency = 1, 8 }))
}

// The row of the first request is not deleted together with the second request.
func TestRequestsDuringTheLastCallAreReconciled(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(strconv.Itoa(workers), func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.doing(func(context.Context, request.Request) (request.Result, error) {
					time.Sleep(time.Second)
					return request.Result{}, nil
				})
				start := time.Now()
				e.controller.Add(named("shop", "gone"))
				time.Sleep(500 * time.Millisecond)
				e.controller.Add(named("shop", "gone"))
				time.Sleep(time.Hour)
				require.Equal(e, seconds(0, 1), e.times(start))
				require.Empty(e, e.rows())
			}, nil, reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers }))
		})
	}
}
