// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/request"
)

// world is a target with faults. For each app it has the numbers of replicas and pods that it was
// given last.
type world struct {
	*env
	mu     sync.Mutex
	random *rand.Rand
	// faulty: Reconcile fails at random, and so do the functions of the sources.
	faulty  bool
	has     map[request.Request]string
	results map[int]int
}

// wanted returns what the target should have for an app, or "" if the app does not exist.
func (w *world) wanted(txn statedb.ReadTxn, req request.Request) string {
	a, _, found := w.apps.Get(txn, appIndex.Query(req.String()))
	if !found {
		return ""
	}
	pods := 0
	for p := range w.pods.All(txn) {
		if p.Owner == req.Name {
			pods++
		}
	}
	return fmt.Sprintf("%d replicas, %d pods", a.Replicas, pods)
}

// draw returns a random number below n.
func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// mayPanic panics at random. All functions of the sources call it.
func (w *world) mayPanic() {
	w.mu.Lock()
	panics := w.faulty && w.random.IntN(20) == 0
	w.mu.Unlock()
	if panics {
		panic("function")
	}
}

func (w *world) requestOf(a *app) request.Request {
	w.mayPanic()
	return a.request()
}

func (w *world) ownerOf(p *pod) (request.Request, bool) {
	w.mayPanic()
	return p.owner()
}

func (w *world) keyOf(req request.Request) index.Key {
	w.mayPanic()
	return index.String(req.String())
}

func (w *world) reconcile(ctx context.Context, req request.Request) (request.Result, error) {
	wanted := w.wanted(w.db.ReadTxn(), req)
	if w.draw(4) == 0 {
		time.Sleep(time.Duration(w.draw(50)) * time.Millisecond)
	}
	fault := w.draw(12)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.faulty {
		fault = -1
	}
	if fault > 1 || fault < 0 {
		if w.has[req] = wanted; wanted == "" {
			delete(w.has, req)
		}
	}
	w.results[fault]++
	switch fault {
	case 0:
		return request.Result{}, errors.New("fault")
	case 1:
		panic("fault")
	case 2:
		return request.Result{Requeue: true}, nil
	case 3:
		return request.Result{RequeueAfter: 70 * time.Millisecond}, nil
	case 4:
		return request.Result{Requeue: true}, reconciler.RetryAfter(errors.New("too many"), 200*time.Millisecond)
	case 5:
		return request.Result{}, reconciler.Blocked("quota")
	case 6:
		return request.Result{}, reconciler.TerminalError(errors.New("bad spec"))
	}
	return request.Result{}, nil
}

// act makes one random write.
func (w *world) act() {
	name := strconv.Itoa(w.draw(20))
	switch w.draw(7) {
	case 0, 1:
		w.put(name, w.draw(3))
	case 2:
		w.remove(name)
	case 3:
		w.putPod("pod-"+strconv.Itoa(w.draw(30)), name)
	case 4:
		w.removePod("pod-" + strconv.Itoa(w.draw(30)))
	case 5:
		func() {
			// A panic of KeyOf is the caller's.
			defer func() { _ = recover() }()
			w.controller.Add(named("shop", name))
		}()
	case 6:
		w.touch(named("shop", name))
	}
}

// source returns a source of the apps that own pods. When a pod moves, both apps get a request.
func (w *world) source(watches bool) request.Source[request.Request] {
	if !watches {
		// A deletion reaches the owner although the predicate rejects it.
		return request.Owns(w.pods, w.ownerOf, notDeleted[*pod])
	}
	return request.Watches(w.pods, func(p *pod) []request.Request { w.mayPanic(); return []request.Request{named("shop", p.Owner)} },
		request.ChangesOf(func(p *pod) string { w.mayPanic(); return p.Owner }))
}

// When the writes and the faults stop, the target matches the tables, every app has a row that is
// Done, and there are no other rows. No request is reconciled before the tables are initialised.
func TestRequestsConvergeUnderFaults(t *testing.T) {
	for _, workers := range []int{1, 8} {
		for _, watches := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d workers, watches %t", workers, watches), func(t *testing.T) {
				walk(t, workers, watches)
			})
		}
	}
}

func walk(t *testing.T, workers int, watches bool) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{
		random: rand.New(rand.NewPCG(seed, 0)), faulty: true,
		has: map[request.Request]string{}, results: map[int]int{},
	}
	var loaded func()
	inBubble(t, func(e *env) {
		for i := range long.Times(400) {
			if i == 50 {
				require.Empty(e, e.took())
				loaded()
			}
			w.act()
			if w.draw(3) == 0 {
				time.Sleep(time.Duration(w.draw(40)) * time.Millisecond)
			}
		}
		w.mu.Lock()
		w.faulty = false
		w.mu.Unlock()
		time.Sleep(time.Minute)
		// Requests that were given up or are terminal wait for a change.
		for a := range e.apps.All(e.db.ReadTxn()) {
			w.put(a.Name, a.Replicas+3)
		}
		time.Sleep(time.Hour)
		synctest.Wait()

		txn := e.db.ReadTxn()
		has, done := map[request.Request]string{}, rows{}
		for a := range e.apps.All(txn) {
			has[a.request()] = w.wanted(txn, a.request())
			done[a.key()] = "Done"
		}
		require.Equal(w, done, w.rows())
		require.Equal(w, has, w.has)
		require.Len(e, w.results, 13, "some fault was never drawn: %v", w.results)
	}, func(e *env, cfg *config) {
		w.env = e
		loaded = e.loading("loader")
		e.doing(w.reconcile)
		cfg.KeyOf = w.keyOf
		cfg.Sources = from{request.For(e.apps, w.requestOf, onReplicas), w.source(watches)}
	}, settings(func(s *reconciler.Settings) { s.Concurrency, s.MaxRetries = workers, 1 }),
		reconciler.WithRefreshing(time.Minute, nil), reconciler.WithRetry(50*time.Millisecond, time.Second),
		reconciler.WithSettings(func(s *reconciler.Settings) { s.BreakerFailures = 5 }))
}
