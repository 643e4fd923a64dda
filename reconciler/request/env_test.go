// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/internal/tests/harness"
	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
	"github.com/statekeel/statekeel/reconciler/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// app is a row of the primary table.
type app struct {
	Namespace, Name string
	Replicas        int
	// Seen is written by reconcilers, like a status.
	Seen int
}

func (a *app) TableHeader() []string { return []string{"App"} }
func (a *app) TableRow() []string    { return []string{a.Namespace + "/" + a.Name} }

func (a *app) request() request.Request { return named(a.Namespace, a.Name) }

func named(namespace, name string) request.Request {
	return request.Request{NamespacedName: request.NamespacedName{Namespace: namespace, Name: name}}
}

var appIndex = statedb.Index[*app, string]{
	Name:       "app",
	FromObject: func(a *app) index.KeySet { return index.NewKeySet(index.String(a.Namespace + "/" + a.Name)) },
	FromKey:    index.String,
	Unique:     true,
}

// pod is a row of a table that apps own.
type pod struct {
	Name string
	// Owner is the name of an app in namespace "shop", or empty.
	Owner string
}

func (p *pod) TableHeader() []string { return []string{"Pod"} }
func (p *pod) TableRow() []string    { return []string{p.Name} }

func (p *pod) owner() (request.Request, bool) { return named("shop", p.Owner), p.Owner != "" }

var podIndex = statedb.Index[*pod, string]{
	Name:       "pod",
	FromObject: func(p *pod) index.KeySet { return index.NewKeySet(index.String(p.Name)) },
	FromKey:    index.String,
	Unique:     true,
}

// env is a controller of apps in a bubble of virtual time.
type env struct {
	*testing.T
	db         *statedb.DB
	apps       statedb.RWTable[*app]
	pods       statedb.RWTable[*pod]
	controller *request.Controller[request.Request]
	log        *testlog.Buffer
	stop       func()

	mu sync.Mutex
	// does is called by Reconcile. nil does nothing.
	does func(ctx context.Context, req request.Request) (request.Result, error)
	runs []run
	// busy has the requests that are being reconciled.
	busy harness.Exclusive[request.Request]
}

// run is one call of Reconcile.
type run struct {
	name string
	at   time.Time
}

// inBubble runs a test against a controller with the table of apps as its primary table. change,
// which may be nil, can replace the configuration.
func inBubble(t *testing.T, test func(e *env), change func(e *env, cfg *request.Config[request.Request]), opts ...reconciler.Option) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		cfg := e.config(opts...)
		if change != nil {
			change(e, &cfg)
		}
		e.start(cfg)
		synctest.Wait()
		test(e)
		e.stop()
		require.False(t, e.busy.Violated(), "a request was reconciled twice at a time")
	})
}

func newEnv(t *testing.T) *env {
	e := &env{T: t, db: reconcilertest.NewDB(t), log: &testlog.Buffer{}}
	e.apps = statedb.MustNewTable(e.db, "apps", appIndex)
	e.pods = statedb.MustNewTable(e.db, "pods", podIndex)
	return e
}

func (e *env) config(opts ...reconciler.Option) request.Config[request.Request] {
	return request.Config[request.Request]{
		DB: e.db, Reconciler: e, Log: slog.New(slog.NewTextHandler(e.log, nil)),
		Sources: []request.Source[request.Request]{request.For(e.apps, (*app).request)},
		Options: append([]reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Jitter = 0 }), reconciler.WithRefreshing(0, nil)}, opts...),
	}
}

func (e *env) start(cfg request.Config[request.Request]) {
	c, err := request.New(cfg)
	require.NoError(e, err)
	e.controller = c
	e.stop = reconcilertest.Go(e, c.Run)
}

// Reconcile implements request.Reconciler.
func (e *env) Reconcile(ctx context.Context, req request.Request) (request.Result, error) {
	defer e.busy.Enter(req)()
	e.mu.Lock()
	e.runs = append(e.runs, run{req.String(), time.Now()})
	does := e.does
	e.mu.Unlock()
	if does == nil {
		return request.Result{}, nil
	}
	return does(ctx, req)
}

// doing sets the function that Reconcile calls from now on.
func (e *env) doing(f func(ctx context.Context, req request.Request) (request.Result, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.does = f
}

// returning makes Reconcile return the same result for every request.
func (e *env) returning(res request.Result, err error) {
	e.doing(func(context.Context, request.Request) (request.Result, error) { return res, err })
}

// took returns the requests that were reconciled since the last call, in order.
func (e *env) took() []string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	names := []string{}
	for _, r := range e.runs {
		names = append(names, r.name)
	}
	e.runs = nil
	return names
}

// times returns when requests were reconciled since the last call, relative to start.
func (e *env) times(start time.Time) []time.Duration {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	var at []time.Duration
	for _, r := range e.runs {
		at = append(at, r.at.Sub(start))
	}
	e.runs = nil
	return at
}

func seconds(at ...float64) []time.Duration {
	var out []time.Duration
	for _, s := range at {
		out = append(out, time.Duration(s*float64(time.Second)))
	}
	return out
}

// put writes an app in namespace "shop".
func (e *env) put(name string, replicas int) {
	e.insert(&app{Namespace: "shop", Name: name, Replicas: replicas})
}

func (e *env) insert(a *app) { harness.Insert(e, e.db, e.apps, a) }

func (e *env) remove(name string) {
	harness.Delete(e, e.db, e.apps, &app{Namespace: "shop", Name: name})
}

func (e *env) putPod(name, owner string) {
	harness.Insert(e, e.db, e.pods, &pod{Name: name, Owner: owner})
}

func (e *env) removePod(name string) { harness.Delete(e, e.db, e.pods, &pod{Name: name}) }

// rows returns the status texts of the requests that have a row, by key.
func (e *env) rows() map[string]string {
	synctest.Wait()
	rows, txn := map[string]string{}, e.db.ReadTxn()
	for row := range e.controller.Table().All(txn) {
		s, found := e.controller.Loop().Status(txn, row)
		require.True(e, found)
		name := row.TableRow()[0]
		rows[name] = s.Kind.String()
		if s.GetError() != "" {
			rows[name] += ": " + s.GetError()
		}
	}
	return rows
}

type rows = map[string]string
