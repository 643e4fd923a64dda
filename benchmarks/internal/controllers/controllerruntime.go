// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package controllers

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

type (
	kubeRequest = reconcile.Request
	kubeQueue   = workqueue.TypedRateLimitingInterface[kubeRequest]
)

// kubeController is the Controller of controller-runtime, without a manager and an API server. Its only
// source is a function that stores the queue, to which Prepare adds.
type kubeController struct {
	target  *subject.Target
	workers int
	queue   kubeQueue
	cancel  context.CancelFunc
	ended   chan error
}

// ControllerRuntime starts a controller with its default queue and options, except for the number of workers and
// the name: controller-runtime allows each name once in a process.
func ControllerRuntime(workers int) (Controller, error) {
	k := &kubeController{target: &subject.Target{}, workers: workers}
	return k, k.start(reconcile.Func(k.reconcile))
}

func (k *kubeController) reconcile(_ context.Context, req kubeRequest) (reconcile.Result, error) {
	return reconcile.Result{}, reconcileNamed(k.target, req.Name)
}

func (k *kubeController) start(r reconcile.Reconciler) error {
	anyName := true
	c, err := controller.NewUnmanaged("bench", controller.Options{
		Reconciler: r, MaxConcurrentReconciles: k.workers, SkipNameValidation: &anyName, Logger: logr.Discard(),
	})
	if err != nil {
		return err
	}
	started := make(chan kubeQueue, 1)
	if err := c.Watch(source.Func(func(_ context.Context, queue kubeQueue) error {
		started <- queue
		return nil
	})); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel, k.ended = cancel, make(chan error, 1)
	go func() { k.ended <- c.Start(ctx) }()
	select {
	case k.queue = <-started:
		return nil
	case err := <-k.ended:
		cancel()
		return errors.Join(errors.New("the controller did not start"), err)
	}
}

// Prepare makes requests for the call that handlers use. The call takes any number at once, which is as fast
// as one call for each.
func (k *kubeController) Prepare(first, n uint64) (func() error, error) {
	queue, ok := k.queue.(priorityqueue.PriorityQueue[kubeRequest])
	if !ok {
		return nil, fmt.Errorf("the default queue is a %T, and no priority queue", k.queue)
	}
	reqs := make([]kubeRequest, 0, n)
	for id := first; id < first+n; id++ {
		reqs = append(reqs, kubeRequest{NamespacedName: types.NamespacedName{Namespace: namespace, Name: nameOf(id)}})
	}
	return func() error {
		queue.AddWithOpts(priorityqueue.AddOpts{}, reqs...)
		return nil
	}, nil
}

// Await returns at once: a reconciled request leaves nothing to wait for.
func (k *kubeController) Await(context.Context) error { return nil }

func (k *kubeController) Left() uint64 { return uint64(k.queue.Len()) }

func (k *kubeController) Target() *subject.Target { return k.target }

func (k *kubeController) Stop(ctx context.Context) error {
	k.cancel()
	select {
	case err := <-k.ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the controller did not stop: %w", context.Cause(ctx))
	}
}
