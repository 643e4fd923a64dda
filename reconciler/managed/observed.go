// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import "errors"

// WithObserved sets a function that copies observed values into the row. It is for objects whose
// policies lack [ManagementActionLateInitialize], of which otherwise only annotations and conditions
// are written. observed is the object as Observe left it, which the rest of the pass uses. row is a
// clone of the row in the table: copy onto it what should be written, such as fields of a status, and
// return it. The function is called once per pass, with [reconciler.Settings].Concurrency by several
// goroutines, and must not keep or change observed. It is not called for objects with that policy, or
// with only [ManagementActionObserve]: those are written whole. The default, and nil, is no function.
func WithObserved[T Managed](write func(row, observed T) T) ReconcilerOption {
	return set("WithObserved", func(r *Reconciler[T]) { r.observed = write })
}

var errOtherRow = errors.New("the function of WithObserved has to return the row that it was handed")

// view returns the object for the remaining calls of the pass: as it was observed, with the notes made
// since.
func (p *pass[T]) view() T {
	if !p.apart {
		return p.obj
	}
	copyMeta(p.seen, p.obj)
	return p.seen
}

// ask calls the client with that object, and keeps the annotations and conditions that the call sets.
func (p *pass[T]) ask(call func(obj T) error) error {
	view := p.view()
	if p.apart {
		// Deferred, since the client may panic: the object is written even then.
		defer func() { copyMeta(p.obj, view) }()
	}
	return call(view)
}

// copyMeta gives a clone the finalizers, annotations and conditions of another object.
func copyMeta(to, from Resource) {
	to.meta().Finalizers = from.meta().Finalizers
	replaceAnnotations(to, from)
	for _, c := range to.meta().Conditions {
		if conditionOf(from, c.Type).Status == ConditionUnknown {
			to.meta().RemoveCondition(c.Type)
		}
	}
	to.SetConditions(from.meta().Conditions...)
}
