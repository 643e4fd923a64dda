// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// addFinalizer notes that the object has an external resource.
func (p *pass[T]) addFinalizer() (over bool, err error) {
	before := p.obj.GetFinalizers()
	if err := p.r.finalizer.AddFinalizer(p.ctx, p.obj); err != nil {
		return true, p.fail(ReasonCannotFinalize, "add the finalizer", err)
	}
	// If something is created next, that writes the row first.
	if slices.Equal(before, p.obj.GetFinalizers()) || !p.observation.ResourceExists {
		return false, nil
	}
	if err := p.checkpoint(); err != nil {
		return true, p.fail(ReasonCannotFinalize, "write the finalizer", err)
	}
	return false, nil
}

// create creates what is missing, in a way that cannot be forgotten.
func (p *pass[T]) create() (over bool, err error) {
	if p.observation.ResourceExists {
		return false, nil
	}
	p.trail.add("observe: missing")
	before := p.r.clone(p.obj)
	SetCreatePending(p.obj, p.createTime())
	if err := p.checkpoint(); err != nil {
		// Nothing is created: nobody must take it for unsure.
		replaceAnnotations(p.obj, before)
		return true, p.fail(ReasonCannotWriteManaged, "note that a resource is about to be created", err, Creating())
	}
	asked := p.r.clone(p.obj)
	err = p.client.Create(&p.calls, asked)
	replaceAnnotations(p.obj, asked)
	if err != nil {
		return true, p.notCreated(err)
	}
	SetCreateSucceeded(p.obj, p.createTime())
	if err := p.writeCritical(); err != nil {
		return true, p.fail(ReasonCannotWriteManaged, "write the annotations after the create", err, Creating())
	}
	p.trail.add("created")
	if err := p.publish(p.takeDetails(), Creating()); err != nil {
		return true, err
	}
	p.tell(ReasonCreated, "requested the creation of the external resource")
	p.mark(Creating(), ReconcileSuccess())
	return true, p.again(errNotSeenYet)
}

// createTime returns a time that is after every earlier create, whatever the clock says.
func (p *pass[T]) createTime() time.Time {
	at := p.now()
	for _, noted := range []time.Time{GetCreateFailed(p.obj), GetCreateSucceeded(p.obj), GetCreatePending(p.obj)} {
		if !at.After(noted) {
			at = noted.Add(time.Nanosecond)
		}
	}
	return at
}

// notCreated notes what is known of a create that returned an error.
func (p *pass[T]) notCreated(err error) error {
	unsure := p.unsure(err)
	if !unsure {
		SetCreateFailed(p.obj, p.createTime())
	}
	if critical := p.writeCritical(); critical != nil {
		p.warn(ReasonCannotWriteManaged, critical)
	}
	if unsure {
		if !errors.Is(err, ErrCreateUnsure) {
			err = fmt.Errorf("%w: %w", ErrCreateUnsure, err)
		}
		return p.stopUnsure(fmt.Errorf("create: %w: %s", err, decideCreate))
	}
	return p.fail(ReasonCannotCreate, "create", err, Creating())
}

// unsure reports whether a failed create may have happened, and observing will not tell.
func (p *pass[T]) unsure(err error) bool {
	if p.r.opts.deterministic {
		return false
	}
	return errors.Is(err, ErrCreateUnsure) || p.calls.Err() != nil
}

// writeCritical writes the annotations, and remembers them if that fails or the row is not the
// one that the create was for.
func (p *pass[T]) writeCritical() error {
	err := p.r.critical.UpdateCriticalAnnotations(p.ctx, p.obj)
	current, _, found := p.r.table.Get(p.r.db.ReadTxn(), p.r.query(p.obj))
	if err != nil || !found || !sameNotes(current, p.obj) {
		p.unwritten = true
		p.r.memory.keep(p.obj, true)
	}
	return err
}
