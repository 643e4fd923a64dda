// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"fmt"
	"slices"
	"time"
)

// addFinalizer notes that the object has an external resource.
func (p *pass[T]) addFinalizer() (over bool, err error) {
	before := p.obj.GetFinalizers()
	if err := p.r.finalizer.AddFinalizer(&p.calls, p.obj); err != nil {
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
	// A note that a create is pending would ask a person what came of it.
	if err := p.calls.Err(); err != nil {
		return true, p.fail(ReasonCannotCreate, "create", err, Creating())
	}
	before, open := p.r.clone(p.obj), p.mayExist()
	SetCreatePending(p.obj, p.createTime())
	if err := p.checkpoint(); err != nil {
		// Nothing is created: nobody must take it for unsure.
		replaceAnnotations(p.obj, before)
		return true, p.fail(ReasonCannotWriteManaged, "note that a resource is about to be created", err, Creating())
	}
	if err := p.calls.Err(); err != nil {
		return true, p.notCreated(err, false, open)
	}
	asked := p.r.clone(p.view())
	err = p.client.Create(&p.calls, asked)
	noteCreated(p.obj, asked, p.createTime())
	if err != nil {
		return true, p.notCreated(err, wraps(err, ErrCreateUnsure) || p.calls.Err() != nil, open)
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
	return true, p.again()
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

// notCreated notes what is known of a create that returned an error. unsure: it may have happened.
// open: an earlier one may have.
func (p *pass[T]) notCreated(err error, unsure, open bool) error {
	switch {
	case unsure && p.r.opts.timeout == 0:
		// It may have happened at any time until now: that is what a grace is counted from.
		SetCreatePending(p.obj, p.createTime())
	case !unsure && !(open && p.r.opts.deterministic):
		SetCreateFailed(p.obj, p.createTime())
	}
	if critical := p.writeCritical(); critical != nil {
		p.warn(ReasonCannotWriteManaged, critical)
	}
	if unsure && !p.r.opts.deterministic {
		if !wraps(err, ErrCreateUnsure) {
			err = fmt.Errorf("%w: %w", ErrCreateUnsure, err)
		}
		return p.stopUnsure(fmt.Errorf("create: %w: %s", err, decideCreate))
	}
	return p.fail(ReasonCannotCreate, "create", err, Creating())
}

// mayExist reports whether there may be a resource that is not seen, of which nobody noted that it
// was created: by a create without an answer, or by an earlier process, whose notes are lost. A row
// that is gone has its finalizer from when there was a resource: there is none without notes to wait
// for.
func (p *pass[T]) mayExist() bool {
	if IsCreateIncomplete(p.obj) {
		over := GetCreatePending(p.obj).Add(p.r.opts.timeout)
		if p.r.opts.timeout == 0 && over.Before(p.r.began) {
			// That of an earlier process was over when that ended.
			over = p.r.began
		}
		return p.lately(over)
	}
	named := p.r.opts.deterministic || GetExternalName(p.obj) != ""
	return named && !p.forced && !createNoted(p.obj) && p.lately(p.r.began)
}

// lately reports whether what was created at that time need not be seen yet.
func (p *pass[T]) lately(created time.Time) bool {
	return p.now().Sub(created) < p.r.opts.creationGrace
}

// writeCritical writes the annotations, and remembers them if that fails or the row is not the
// one that the create was for.
func (p *pass[T]) writeCritical() error {
	ctx, cancel := p.atAllEvents()
	defer cancel()
	err := p.r.critical.UpdateCriticalAnnotations(ctx, p.obj)
	current, _, found := p.r.table.Get(p.r.db.ReadTxn(), p.r.query(p.obj))
	if err != nil || !found || !sameNotes(current, p.obj) {
		p.unwritten = true
		p.r.memory.keep(p.obj, true)
	}
	return err
}
