// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"fmt"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/outcome"
)

// addFinalizer records on the object that it has an external resource.
func (p *pass[T]) addFinalizer() (over bool, err error) {
	before := p.obj.meta().Finalizers
	if err := p.r.finalizer.AddFinalizer(&p.calls, p.obj); err != nil {
		return true, p.fail(reasonCannotFinalize, "add the finalizer", err)
	}
	// If the resource is missing, create writes the row before it calls the client.
	if slices.Equal(before, p.obj.meta().Finalizers) || !p.observation.ResourceExists {
		return false, nil
	}
	if err := p.checkpoint(); err != nil {
		return true, p.fail(reasonCannotFinalize, "write the finalizer", err)
	}
	return false, nil
}

// create creates a missing resource. It writes the note "create pending" before the call, and the
// result after it.
func (p *pass[T]) create() (over bool, err error) {
	if p.observation.ResourceExists {
		return false, nil
	}
	p.trail.add("observe: missing")
	// After a note "create pending" without a result the object would wait for a person.
	if err := p.calls.Err(); err != nil {
		return true, p.fail(reasonCannotCreate, "create", err, Creating())
	}
	before, open := p.r.clone(p.obj), p.mayExist()
	setTime(p.obj, annotationCreatePending, p.createTime())
	if err := p.checkpoint(); err != nil {
		// Nothing was created: remove the note, so that the create does not count as unsure.
		replaceAnnotations(p.obj, before)
		return true, p.fail(reasonCannotWriteManaged, "note that a resource is about to be created", err, Creating())
	}
	if err := p.calls.Err(); err != nil {
		return true, p.notCreated(err, false, open)
	}
	asked := p.r.clone(p.view())
	err = p.client.Create(&p.calls, asked)
	noteCreated(p.obj, asked)
	if err != nil {
		return true, p.notCreated(err, outcome.Wraps(err, ErrCreateUnsure) || p.calls.Err() != nil, open)
	}
	p.learn()
	setTime(p.obj, annotationCreateSucceeded, p.createTime())
	if err := p.writeCritical(); err != nil {
		return true, p.fail(reasonCannotWriteManaged, "write the annotations after the create", err, Creating())
	}
	p.trail.add("created")
	if err := p.publish(nil, Creating()); err != nil {
		return true, err
	}
	p.tell(reasonCreated, "requested the creation of the external resource")
	p.mark(Creating())
	p.succeeded()
	return true, p.again()
}

// createTime returns a time that is after every recorded create, even if the clock was set back.
func (p *pass[T]) createTime() time.Time {
	at := time.Now()
	for _, noted := range []time.Time{timeOf(p.obj, annotationCreateFailed), timeOf(p.obj, annotationCreateSucceeded), timeOf(p.obj, annotationCreatePending)} {
		if !at.After(noted) {
			at = noted.Add(time.Nanosecond)
		}
	}
	return at
}

// notCreated records the result of a create that returned an error. unsure: this create may have
// happened. open: an earlier one may have.
func (p *pass[T]) notCreated(err error, unsure, open bool) error {
	switch {
	case unsure && p.r.opts.timeout == 0:
		// It may have happened at any time until now, so the grace period starts now.
		setTime(p.obj, annotationCreatePending, p.createTime())
	case !unsure && !(open && p.r.opts.deterministic):
		setTime(p.obj, annotationCreateFailed, p.createTime())
	}
	if critical := p.writeCritical(); critical != nil {
		p.warn(reasonCannotWriteManaged, critical)
	}
	if unsure && !p.r.opts.deterministic {
		if !outcome.Wraps(err, ErrCreateUnsure) {
			err = fmt.Errorf("%w: %w", ErrCreateUnsure, err)
		}
		return p.stopUnsure(fmt.Errorf("create: %w: %s", err, decideCreate))
	}
	return p.fail(reasonCannotCreate, "create", err, Creating())
}

// mayExist reports whether a resource may exist that is not visible yet and whose creation was not
// recorded: by a create without an answer, or by an earlier process whose notes are lost. It is false
// for a removed row without notes: such a row got its finalizer when its resource existed, so there is
// nothing to wait for.
func (p *pass[T]) mayExist() bool {
	if IsCreateIncomplete(p.obj) {
		over := timeOf(p.obj, annotationCreatePending).Add(p.r.opts.timeout)
		if p.r.opts.timeout == 0 && over.Before(p.r.began) {
			// A create of an earlier process ended with that process.
			over = p.r.began
		}
		return p.lately(over)
	}
	named := p.r.opts.deterministic || GetExternalName(p.obj) != ""
	return named && !p.forced && !createNoted(p.obj) && p.lately(p.r.began)
}

// lately reports whether a resource created at that time may still be invisible.
func (p *pass[T]) lately(created time.Time) bool {
	return time.Since(created) < p.r.opts.creationGrace
}

// writeCritical writes the annotations. The process remembers them first, in case that fails or another
// writer replaces the row.
func (p *pass[T]) writeCritical() error {
	p.remember()
	ctx, cancel := p.atAllEvents()
	defer cancel()
	return p.r.critical.UpdateCriticalAnnotations(ctx, p.obj)
}
