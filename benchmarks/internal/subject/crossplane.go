// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"errors"
	"fmt"

	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	xpmeta "github.com/crossplane/crossplane-runtime/v2/pkg/meta"
	"github.com/crossplane/crossplane-runtime/v2/pkg/reconciler/managed"
	xpresource "github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource/fake"
	xptest "github.com/crossplane/crossplane-runtime/v2/pkg/test"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubert "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// crossplaneVersion is what go.mod asks for.
const crossplaneVersion = "v2.2.0"

// crossplane is the Controller of crossplane-runtime: its managed reconciler behind a
// controller of controller-runtime, with its fake client in place of an API server. All
// resources are there, ready and synced, as the pass before has left them.
type crossplane struct {
	kubeController
	asked uint64
	// written counts the statuses that were written, with which a reconciliation ends.
	written Counter
}

// kubeManaged is a managed resource. Those of the fake package are copied by way of JSON;
// this one is copied as generated code does it.
type kubeManaged struct{ fake.ModernManaged }

func (m *kubeManaged) DeepCopyObject() kubert.Object {
	out := &kubeManaged{}
	m.copyInto(out)
	return out
}

// copyInto copies what these resources have.
func (m *kubeManaged) copyInto(out *kubeManaged) {
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	m.ConditionedStatus.DeepCopyInto(&out.ConditionedStatus)
	out.Manageable = m.Manageable
}

// startCrossplane starts a controller with the default options of both, but for the number
// of workers and the external system.
func startCrossplane(workers int) func() (Controller, error) {
	return func() (Controller, error) {
		c := &crossplane{kubeController: kubeController{target: &Target{}, workers: workers}}
		scheme := fake.SchemeWith(&kubeManaged{})
		manager := &fake.Manager{Client: c.client(scheme), Scheme: scheme}
		reconciler := managed.NewReconciler(manager, xpresource.ManagedKind(fake.GVK(&kubeManaged{})),
			managed.WithExternalConnector(managed.ExternalConnectorFn(c.connect)))
		return c, c.start(reconciler)
	}
}

// client returns a client that has a resource of every name, and keeps nothing.
func (c *crossplane) client(scheme *kubert.Scheme) client.Client {
	kept := &kubeManaged{fake.ModernManaged{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Finalizers: []string{managed.FinalizerName},
			Annotations: map[string]string{xpmeta.AnnotationKeyExternalName: "any"},
		},
		Manageable:        fake.Manageable{Policy: xpv1.ManagementPolicies{xpv1.ManagementActionAll}},
		ConditionedStatus: *xpv1.NewConditionedStatus(xpv1.Available(), xpv1.ReconcileSuccess()),
	}}
	mock := xptest.NewMockClient()
	mock.MockScheme = xptest.NewMockSchemeFn(scheme)
	mock.MockGet = func(_ context.Context, key client.ObjectKey, obj client.Object) error {
		m, ok := obj.(*kubeManaged)
		if !ok {
			return fmt.Errorf("get %q: %T is not a managed resource", key.Name, obj)
		}
		kept.copyInto(m)
		m.Name = key.Name
		return nil
	}
	mock.MockStatusUpdate = func(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
		c.written.Add()
		return nil
	}
	unexpected := func(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
		return fmt.Errorf("update of %q: there is nothing to write but its status", obj.GetName())
	}
	mock.MockUpdate = unexpected
	return mock
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

// Await waits until the last status is written.
func (c *crossplane) Await(ctx context.Context) error {
	select {
	case <-c.written.Reached(c.asked):
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%d requests are left", c.Left()), context.Cause(ctx))
	}
}

func (c *crossplane) Left() uint64 { return c.asked - c.written.Load() }
