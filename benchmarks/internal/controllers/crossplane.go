// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	xpmeta "github.com/crossplane/crossplane-runtime/v2/pkg/meta"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	xpresource "github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource/fake"
	xptest "github.com/crossplane/crossplane-runtime/v2/pkg/test"
	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubert "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// crossplane is the Poller of crossplane-runtime: its managed reconciler behind a controller of
// controller-runtime, with its fake client instead of an API server. All resources exist, ready and synced,
// as the previous poll left them.
type crossplane struct {
	kubeController
	after pollAfter
	asked uint64
	// written counts the statuses that were written. A poll ends with such a write.
	written subject.Counter
	// over counts the resources whose last poll has ended.
	over subject.Counter
}

// Crossplane starts a controller with the default options of both packages, except for the number of workers, the
// poll interval and the external system.
func Crossplane(workers int) (Poller, error) {
	c := &crossplane{kubeController: kubeController{target: &subject.Target{}, workers: workers}}
	scheme := fake.SchemeWith(&copiedManaged{})
	manager := &fake.Manager{Client: c.client(scheme), Scheme: scheme}
	reconciler := managed.NewReconciler(manager, xpresource.ManagedKind(fake.GVK(&copiedManaged{})),
		managed.WithExternalConnector(managed.ExternalConnectorFn(c.connect)),
		managed.WithPollIntervalHook(func(m xpresource.Managed, _ time.Duration) time.Duration {
			return c.after.named(m.GetName())
		}))
	return c, c.start(reconcile.Func(func(ctx context.Context, req kubeRequest) (reconcile.Result, error) {
		result, err := reconciler.Reconcile(ctx, req)
		if err == nil && result.RequeueAfter == 0 {
			c.over.Add()
		}
		return result, err
	}))
}

// copiedManaged is a resource of the fake package that is copied as generated code copies it. The fake package
// copies by way of JSON, which takes longer.
type copiedManaged struct{ fake.ModernManaged }

// DeepCopyObject implements [kubert.Object].
func (m *copiedManaged) DeepCopyObject() kubert.Object {
	out := &copiedManaged{}
	m.copyInto(out)
	return out
}

// copyInto copies the fields that these resources have.
func (m *copiedManaged) copyInto(to *copiedManaged) {
	m.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	m.ConditionedStatus.DeepCopyInto(&to.ConditionedStatus)
	to.Manageable = m.Manageable
}

func (c *crossplane) PollAfter(after func(id uint64) time.Duration) { c.after = after }

// client returns a client that has a resource of every name and stores nothing. It accepts only the status
// of a resource that is ready and synced.
func (c *crossplane) client(scheme *kubert.Scheme) client.Client {
	kept := &copiedManaged{fake.ModernManaged{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Finalizers: []string{managed.FinalizerName},
			Annotations: map[string]string{xpmeta.AnnotationKeyExternalName: "any"},
		},
		Manageable:        fake.Manageable{Policy: xpv2.ManagementPolicies{xpv2.ManagementActionAll}},
		ConditionedStatus: *xpv2.NewConditionedStatus(xpv2.Available(), xpv2.ReconcileSuccess()),
	}}
	mock := xptest.NewMockClient()
	mock.MockScheme = xptest.NewMockSchemeFn(scheme)
	mock.MockGet = func(_ context.Context, key client.ObjectKey, obj client.Object) error {
		m, ok := obj.(*copiedManaged)
		if !ok {
			return fmt.Errorf("get %q: %T is not a managed resource", key.Name, obj)
		}
		kept.copyInto(m)
		m.Name = key.Name
		return nil
	}
	mock.MockStatusUpdate = func(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
		if m, ok := obj.(*copiedManaged); !ok || !isTrue(m, xpv2.TypeReady) || !isTrue(m, xpv2.TypeSynced) {
			return fmt.Errorf("status of %q: it is not ready and synced", obj.GetName())
		}
		c.written.Add()
		return nil
	}
	unexpected := func(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
		return fmt.Errorf("update of %q: there is nothing to write but its status", obj.GetName())
	}
	mock.MockUpdate = unexpected
	return mock
}

func isTrue(m *copiedManaged, c xpv2.ConditionType) bool {
	return m.GetCondition(c).Status == corev1.ConditionTrue
}

func (c *crossplane) connect(context.Context, xpresource.Managed) (managed.ExternalClient, error) {
	return managed.ExternalClientFns{ObserveFn: c.observe, DisconnectFn: func(context.Context) error { return nil }}, nil
}

func (c *crossplane) observe(_ context.Context, m xpresource.Managed) (managed.ExternalObservation, error) {
	return managed.ExternalObservation{ResourceExists: true, ResourceUpToDate: true}, reconcileNamed(c.target, m.GetName())
}

func (c *crossplane) Prepare(first, n uint64) (func() error, error) {
	c.asked += n
	return c.kubeController.Prepare(first, n)
}

// Await waits until the last status of each is written.
func (c *crossplane) Await(ctx context.Context) error {
	select {
	case <-c.over.Reached(c.asked):
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%d requests are left", c.Left()), context.Cause(ctx))
	}
}

func (c *crossplane) Left() uint64 { return c.asked - c.over.Load() }

// Well counts the resources whose last status was accepted: the client rejects all others.
func (c *crossplane) Well() uint64 { return c.over.Load() }

func (c *crossplane) Written() uint64 { return c.written.Load() }

// Writes is one write for each poll, whether or not the status changed.
func (c *crossplane) Writes(resources, polls uint64) uint64 { return resources * polls }
