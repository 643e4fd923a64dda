// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	xpresource "github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource/fake"
	kubert "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// managedKind is a type of managed resources of crossplane-runtime.
type managedKind struct {
	object xpresource.Managed
	// modern returns the fields of a resource; false if it is not of this type.
	modern func(client.Object) (*fake.ModernManaged, bool)
}

// fakeKind are the resources of the fake package, which copies them by way of JSON.
func fakeKind() managedKind {
	return managedKind{&fake.ModernManaged{}, func(obj client.Object) (*fake.ModernManaged, bool) {
		m, ok := obj.(*fake.ModernManaged)
		return m, ok
	}}
}

// copiedKind are resources that are copied as generated code does it.
func copiedKind() managedKind {
	return managedKind{&copiedManaged{}, func(obj client.Object) (*fake.ModernManaged, bool) {
		m, ok := obj.(*copiedManaged)
		if !ok {
			return nil, false
		}
		return &m.ModernManaged, true
	}}
}

// copiedManaged is a resource of the fake package with another DeepCopyObject.
type copiedManaged struct{ fake.ModernManaged }

// DeepCopyObject implements [kubert.Object].
func (m *copiedManaged) DeepCopyObject() kubert.Object {
	out := &copiedManaged{}
	copyManaged(&m.ModernManaged, &out.ModernManaged)
	return out
}

// copyManaged copies the fields that these resources have.
func copyManaged(from, to *fake.ModernManaged) {
	from.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	from.ConditionedStatus.DeepCopyInto(&to.ConditionedStatus)
	to.Manageable = from.Manageable
}
