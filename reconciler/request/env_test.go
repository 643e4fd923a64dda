// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
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
func (a *app) TableRow() []string    { return []string{a.key()} }
func (a *app) key() string           { return a.Namespace + "/" + a.Name }

func (a *app) request() request.Request { return named(a.Namespace, a.Name) }

func named(namespace, name string) request.Request {
	return request.Request{NamespacedName: request.NamespacedName{Namespace: namespace, Name: name}}
}

var appIndex = statedb.Index[*app, string]{
	Name:       "app",
	FromObject: func(a *app) index.KeySet { return index.NewKeySet(index.String(a.key())) },
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

type (
	config = request.Config[request.Request]
	from   = []request.Source[request.Request]
	rows   = map[string]string
	// reconcile is what Reconcile does.
	reconcile = func(ctx context.Context, req request.Request) (request.Result, error)
)

// env is a controller of apps in a bubble of virtual time.
type env struct {
	*testing.T
	db         *statedb.DB
	apps       statedb.RWTable[*app]
	pods       statedb.RWTable[*pod]
	controller *request.Controller[request.Request]
	log        *testlog.Buffer

	mu sync.Mutex
	// does is called by Reconcile. nil does nothing.
	does reconcile
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
func inBubble(t *testing.T, test func(e *env), change func(e *env, cfg *config), opts ...reconciler.Option) {
	synctest.Test(t, func(t *testing.T) {
		e := &env{T: t, db: reconcilertest.NewDB(t), log: &testlog.Buffer{}}
		e.tables()
		cfg := config{
			DB: e.db, Reconciler: e, Log: slog.New(slog.NewTextHandler(e.log, nil)),
			Sources: from{request.For(e.apps, (*app).request)},
			Options: append([]reconciler.Option{
				settings(func(s *reconciler.Settings) { s.Jitter = 0 }), reconciler.WithRefreshing(0, nil),
			}, opts...),
		}
		if change != nil {
			change(e, &cfg)
		}
		var err error
		e.controller, err = request.New(cfg)
		require.NoError(e, err)
		reconcilertest.Go(e, e.controller.Run)
		synctest.Wait()
		test(e)
		require.False(t, e.busy.Violated(), "a request was reconciled twice at a time")
	})
}

var settings = reconciler.WithSettings

// tables makes the tables of the objects.
func (e *env) tables() {
	e.apps = statedb.MustNewTable(e.db, "apps", appIndex)
	e.pods = statedb.MustNewTable(e.db, "pods", podIndex)
}

var _ request.Reconciler[request.Request] = (*env)(nil)

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
func (e *env) doing(f reconcile) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.does = f
}

// returning returns what Reconcile does to return the same result for every request.
func returning(res request.Result, err error) reconcile {
	return func(context.Context, request.Request) (request.Result, error) { return res, err }
}

// taking returns what Reconcile does to take a time for every request.
func taking(d time.Duration, err error) reconcile {
	return func(context.Context, request.Request) (request.Result, error) {
		time.Sleep(d)
		return request.Result{}, err
	}
}

// inTurn makes Reconcile do one thing after the other, and then nothing.
func (e *env) inTurn(calls ...reconcile) {
	var n atomic.Int32
	e.doing(func(ctx context.Context, req request.Request) (request.Result, error) {
		if call := int(n.Add(1)); call <= len(calls) {
			return calls[call-1](ctx, req)
		}
		return request.Result{}, nil
	})
}

// take returns the calls of Reconcile since the last call.
func (e *env) take() []run {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	runs := e.runs
	e.runs = nil
	return runs
}

// took returns the requests that were reconciled since the last call, in order.
func (e *env) took() (names []string) {
	for _, r := range e.take() {
		names = append(names, r.name)
	}
	return names
}

// times returns when requests were reconciled since the last call, relative to start.
func (e *env) times(start time.Time) (at []time.Duration) {
	for _, r := range e.take() {
		at = append(at, r.at.Sub(start))
	}
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

// touch writes an app again, if it exists, without a change that matters.
func (e *env) touch(req request.Request) {
	wtxn := e.db.WriteTxn(e.apps)
	defer wtxn.Commit()
	if a, _, found := e.apps.Get(wtxn, appIndex.Query(req.String())); found {
		touched := *a
		touched.Seen++
		_, _, err := e.apps.Insert(wtxn, &touched)
		require.NoError(e, err)
	}
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

// notDeleted is a predicate that rejects deletions.
func notDeleted[Obj any](change request.Change[Obj]) bool { return !change.Deleted }

// onReplicas is a predicate that ignores other changes of an app.
var onReplicas = request.ChangesOf(func(a *app) int { return a.Replicas })

// loading registers an initializer of the table of pods, and returns the function that completes
// it.
func (e *env) loading(name string) (loaded func()) {
	wtxn := e.db.WriteTxn(e.pods)
	done := e.pods.RegisterInitializer(wtxn, name)
	wtxn.Commit()
	return func() {
		wtxn := e.db.WriteTxn(e.pods)
		done(wtxn)
		wtxn.Commit()
	}
}
