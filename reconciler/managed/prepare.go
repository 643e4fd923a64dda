// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// checkPause reads the policies. It ends the pass of a paused object, also of its deletion, without any call.
func (p *pass[T]) checkPause() (over bool, err error) {
	p.policy, err = policyOf(p.obj, p.r.opts.policies)
	switch {
	case IsPaused(p.obj):
	case err != nil:
		return true, p.refusePolicy(err)
	case len(p.policy.ManagementPolicies) > 0:
		return false, nil
	}
	p.trail.add("paused")
	if p.forced {
		return true, p.awaitPerson(reasonDeletionRefused, errPausedRemoved)
	}
	paused := condition(TypeSynced, ConditionFalse, reasonReconcilePaused, "")
	if WasDeleted(p.obj) {
		paused = paused.WithMessage(errPausedDelete.Error())
	}
	switch {
	case !p.news(paused):
	case WasDeleted(p.obj):
		p.warn(reasonDeletionRefused, errPausedDelete)
	default:
		p.tell(reasonEventPaused, "nothing is done for the object while it is paused")
	}
	p.mark(paused)
	return true, nil
}

// refusePolicy ends the pass if the policies cannot be read: nothing is allowed until they can.
func (p *pass[T]) refusePolicy(invalid error) error {
	err := p.fail(reasonPolicyInvalid, "policies", invalid)
	if p.forced {
		return err
	}
	return reconciler.TerminalError(err)
}

// recall adds to the object the notes of earlier passes that its row lacks, because they could not be
// written or because the row was replaced.
func (p *pass[T]) recall() (over bool, err error) {
	if p.listed {
		return false, nil
	}
	kept := p.was.record
	p.recalled = true
	if kept == nil {
		return false, nil
	}
	p.unpublished = kept.details
	is, was := GetExternalName(p.obj), kept.annotations[AnnotationExternalName]
	if is != "" && was != "" && is != was {
		p.unpublished = nil // the other resource is not managed any more
		p.warn(reasonExternalNameChanged, fmt.Errorf("the row names %q now: %q, which it named before, is left as it is", is, was))
	} else if is != "" && is != was && !createNoted(p.obj) &&
		IsCreateIncomplete(&object.Meta{Annotations: kept.annotations}) {
		p.warn(reasonCannotTellIfCreated, errCreateUnsure) // its name is not known
	}
	// A row that was made from the one that is remembered lacks only what its writer has removed, but never its name.
	if kept == p.obj.meta().lineage.record && is == was || !kept.addTo(p.obj) {
		return false, nil
	}
	p.trail.add("recalled what was created")
	if p.forced {
		return false, nil
	}
	if err := p.r.finalizer.AddFinalizer(&p.calls, p.obj); err != nil {
		return true, p.fail(reasonCannotFinalize, "add the finalizer", err)
	}
	if err := p.checkpoint(); err != nil {
		return true, p.fail(reasonCannotWriteManaged, "write what was created", err)
	}
	return false, nil
}

// clampTimes sets noted times of creates that lie in the future to now. They occur if the clock was set
// back, or if another process had another clock. Until such a time a missing resource would not be
// believed to be missing. It is called only if the resource was not found; for one that exists the
// times do not matter.
func (p *pass[T]) clampTimes() {
	now, incomplete := time.Now(), IsCreateIncomplete(p.obj)
	for _, key := range createNotes {
		if timeOf(p.obj, key).After(now) {
			setTime(p.obj, key, now)
		}
	}
	if incomplete && !IsCreateIncomplete(p.obj) {
		// The result of an earlier create, also from the future, is not the result of this one.
		setTime(p.obj, annotationCreatePending, now.Add(time.Nanosecond))
	}
}

func (p *pass[T]) initialize() (over bool, err error) {
	for _, i := range p.r.initializers {
		if err := i(&p.calls, p.obj); err != nil {
			return true, p.fail(reasonCannotInitialize, "initialize", err)
		}
	}
	return false, nil
}

// refuseUnsure stops the object if a resource may have been created whose name is not known: creating
// another one might leak the first.
func (p *pass[T]) refuseUnsure() (over bool, err error) {
	if p.r.opts.deterministic || !IsCreateIncomplete(p.obj) {
		return false, nil
	}
	return true, p.stopUnsure(errCreateUnsure)
}

// stopUnsure ends the pass; the object waits for a person.
func (p *pass[T]) stopUnsure(err error) error {
	p.trail.add("create: unknown whether it happened")
	if p.forced {
		return p.awaitPerson(reasonCannotTellIfCreated, err)
	}
	unsure := unsynced(ReasonCreateUnsure, errCreateUnsure)
	if p.news(unsure) {
		p.warn(reasonCannotTellIfCreated, err)
	}
	p.mark(Creating(), unsure)
	return reconciler.TerminalError(err)
}

// awaitPerson ends the deletion of a removed row: it waits until a person puts the row back. This is
// not a failure, since it says nothing about the health of the outside system. It is recorded once.
func (p *pass[T]) awaitPerson(reason event.Reason, err error) error {
	if waiting := unsynced(reasonReconcileWaiting, err); p.news(waiting) {
		p.warn(reason, err)
		p.mark(waiting)
	}
	return reconciler.Blocked(err.Error())
}

// waitForOthers waits until the owners of other finalizers, who may need the resource, have cleaned up.
func (p *pass[T]) waitForOthers() (over bool, err error) {
	if p.forced || !WasDeleted(p.obj) || !p.r.hasOtherFinalizers(p.obj) {
		return false, nil
	}
	return true, p.blockOnRow()
}

// blockOnRow ends a pass until the row is written.
func (p *pass[T]) blockOnRow() error {
	others := errors.New("waits for the other finalizers of the object to be removed")
	p.trail.add(others.Error())
	if p.news(unsynced(reasonReconcileWaiting, others)) {
		p.tell(reasonWaitsForOtherCleanup, others.Error())
	}
	p.mark(Deleting(), unsynced(reasonReconcileWaiting, others))
	_, watch, _ := rowWatch(p.r.table, p.txn, p.obj)
	return reconciler.Blocked(others.Error(), watch)
}

// hasOtherFinalizers reports whether an object has finalizers other than ours.
func (r *Reconciler[T]) hasOtherFinalizers(obj T) bool {
	return slices.ContainsFunc(obj.meta().Finalizers, func(name string) bool { return name != r.finalizerName })
}
