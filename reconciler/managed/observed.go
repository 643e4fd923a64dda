// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import "errors"

// WithObserved sets what is written of what Observe sets on an object whose policies lack
// [ManagementActionLateInitialize]. observed is the object as Observe left it, which the rest of the
// pass sees. row is a clone of the row in the table: copy onto it what shall be written, as fields of
// a status, and return it. nil, the default, writes nothing but annotations and conditions. It is
// not called for objects with that policy, or with [ManagementActionObserve] alone, which are
// written whole. It is called once a pass, from several goroutines with
// [reconciler.Settings].Concurrency, and must not keep or change observed.
func WithObserved[T any](write func(row, observed T) T) Option {
	return func(o *options) {
		o.observed = nil
		if write != nil {
			o.observed = write
		}
	}
}

var errOtherRow = errors.New("the function of WithObserved has to return the row that it was handed")

// keepObserved copies onto the object what WithObserved writes of what was observed.
func (p *pass[T]) keepObserved() error {
	if p.r.observed != nil && p.r.observed(p.obj, p.seen) != p.obj {
		return errOtherRow
	}
	return nil
}

// view returns the object as the rest of the pass sees it: as it was observed, with what was noted
// since.
func (p *pass[T]) view() T {
	if !p.apart {
		return p.obj
	}
	copyMeta(p.seen, p.obj)
	return p.seen
}

// ask calls the client with the object as it was observed, and keeps the annotations and conditions
// that the call sets.
func (p *pass[T]) ask(call func(obj T) error) error {
	view := p.view()
	if p.apart {
		// Also when the client panics: the object is written all the same.
		defer func() { copyMeta(p.obj, view) }()
	}
	return call(view)
}

// copyMeta makes the finalizers, annotations and conditions of a clone those of another.
func copyMeta(to, from Resource) {
	to.SetFinalizers(from.GetFinalizers())
	replaceAnnotations(to, from)
	for _, c := range to.GetConditions() {
		if ConditionOf(from, c.Type).Status == ConditionUnknown {
			to.RemoveCondition(c.Type)
		}
	}
	to.SetConditions(from.GetConditions()...)
}
