// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package controllers

import (
	"context"
	"fmt"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/request"
)

// requests is the Controller of Statekeel. Its requests come from the objects of a table.
type requests struct {
	*subject.Host
	controller *request.Controller[request.Request]
	objects    statedb.RWTable[*named]
	target     *subject.Target
	workers    int
}

// named is the object that a request names.
type named struct{ name string }

func (o *named) request() request.Request {
	return request.Request{NamespacedName: request.NamespacedName{Namespace: namespace, Name: o.name}}
}

func (*named) TableHeader() []string { return []string{"name"} }

func (o *named) TableRow() []string { return []string{o.name} }

var byName = statedb.Index[*named, string]{
	Name:       "name",
	FromObject: func(o *named) index.KeySet { return index.NewKeySet(index.String(o.name)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

// Requests starts a controller of Statekeel in a hive, with its default options except for the number of
// workers.
func Requests(workers int) (Controller, error) {
	r := &requests{target: &subject.Target{}, workers: workers}
	var err error
	if r.Host, err = subject.StartHost(r.register); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *requests) register(rt subject.Runtime) (err error) {
	if r.objects, err = statedb.NewTable(rt.DB, "objects", byName); err != nil {
		return err
	}
	cfg := request.Config[request.Request]{
		Reconciler: request.Func[request.Request](r.reconcile),
		Options:    []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = r.workers })},
		Sources:    []request.Source[request.Request]{request.For(r.objects, (*named).request)},
	}
	r.controller, err = request.Register(rt.Params(), cfg)
	return err
}

func (r *requests) reconcile(_ context.Context, req request.Request) (request.Result, error) {
	return request.Result{}, reconcileNamed(r.target, req.Name)
}

// Prepare writes the objects of the table; the function that it returns commits them.
func (r *requests) Prepare(first, n uint64) (func() error, error) {
	wtxn := r.DB.WriteTxn(r.objects)
	for id := first; id < first+n; id++ {
		if _, _, err := r.objects.Insert(wtxn, &named{nameOf(id)}); err != nil {
			wtxn.Abort()
			return nil, fmt.Errorf("insert object %d: %w", id, err)
		}
	}
	return func() error {
		wtxn.Commit()
		return nil
	}, nil
}

// Await waits until every request has its outcome.
func (r *requests) Await(ctx context.Context) error {
	for {
		left, changed := r.left()
		if left == 0 {
			return nil
		}
		if _, err := changed.Wait(ctx, 0); err != nil {
			return fmt.Errorf("%d requests are left: %w", left, context.Cause(ctx))
		}
	}
}

func (r *requests) Left() uint64 {
	left, _ := r.left()
	return left
}

// left returns the number of requests that are left, and the channels of which one closes when it may be
// lower.
func (r *requests) left() (left uint64, changed *statedb.WatchSet) {
	txn := r.DB.ReadTxn()
	all, rows := r.controller.Table().AllWatch(txn)
	changed = statedb.NewWatchSet()
	changed.Add(rows)
	for row := range all {
		s, _, watch := r.controller.Loop().StatusWatch(txn, row)
		if s.Kind != reconciler.StatusKindDone {
			left++
			changed.Add(watch...)
		}
	}
	return left, changed
}

func (r *requests) Target() *subject.Target { return r.target }
