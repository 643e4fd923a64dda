// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"fmt"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// step is one step of a pass. If over is true, or err is not nil, the pass ends with the outcome err.
type step[T Managed] func(p *pass[T]) (over bool, err error)

// stepsOf returns the steps of a pass, in order. A pass for a row that is gone from the table ends with remove
// at the latest, since its object is being deleted.
func stepsOf[T Managed]() []step[T] {
	return []step[T]{
		(*pass[T]).finishRemoved,
		(*pass[T]).recall,
		(*pass[T]).checkPause,
		(*pass[T]).initialize,
		(*pass[T]).finishListed,
		(*pass[T]).takeOver,
		(*pass[T]).leaveOrphan,
		(*pass[T]).refuseUnsure,
		(*pass[T]).waitForOthers,
		(*pass[T]).connect,
		(*pass[T]).observe,
		(*pass[T]).awaitCreated,
		(*pass[T]).remove,
		(*pass[T]).publishObserved,
		(*pass[T]).addFinalizer,
		(*pass[T]).create,
		(*pass[T]).lateInitialize,
		(*pass[T]).update,
	}
}

// pass is one run of the lifecycle for one object.
type pass[T Managed] struct {
	scope
	r *Reconciler[T]
	// ctx is the context of the operation, calls that of the calls of the user's code.
	ctx   context.Context
	calls callContext
	obj   T
	// was is what the process knew of the object then.
	was known[T]
	// seen is the object as it was observed. It differs from obj if apart is true: then only parts of
	// it are written.
	seen  T
	apart bool
	// row is the object as it is in the table, and known reports whether it was found.
	row   T
	known bool
	// written reports whether this pass has written the row. The loop writes its outcome there.
	written bool
	// forced reports whether the row is gone from the table: the program removed it without
	// Writer.Delete.
	forced bool
	// listed reports whether obj comes from a listing, or looks like that: nothing was
	// remembered of it, and it has no notes about a create. Nothing of it is remembered, so that a new
	// row does not take its name.
	listed bool

	policy      policy
	client      ExternalClient[T]
	observation ExternalObservation
	// unpublished are the connection details that are not published yet.
	unpublished ConnectionDetails
	// recalled reports whether recall has added the remembered notes. It is false if listed is true.
	recalled bool
	// gone: the object is gone, and so is its row.
	gone  bool
	trail trail
}

func (r *Reconciler[T]) begin(ctx context.Context, txn statedb.ReadTxn, obj T) *pass[T] {
	p := &pass[T]{r: r, ctx: ctx, obj: obj}
	obj.meta().lineage.begin(obj.GetAnnotations())
	p.txn = txn
	p.calls.begin(ctx, &p.scope, r.opts.timeout)
	return p
}

// run runs the steps until one ends the pass, and then disconnects.
func (p *pass[T]) run() (err error) {
	// Deferred, since a client may panic; the loop turns that into an error.
	defer p.end()
	for _, step := range p.r.steps {
		over, err := step(p)
		if over || err != nil {
			return err
		}
	}
	return nil
}

// end disconnects, ends the context of the calls, and records the steps and the notes.
func (p *pass[T]) end() {
	p.disconnect()
	p.calls.end()
	reconciler.Note(p.ctx, string(p.trail))
	p.remember()
}

// close makes the loop write the object that the pass has changed. By itself the loop writes only pending objects
// and outcomes that changed, and it drops the outcome if a writer has asked for another pass meanwhile.
// Then the notes and conditions are written here: a row that changes faster than a pass runs has no other
// sign of its passes.
func (p *pass[T]) close() {
	asked := p.written || p.known && p.r.getStatus(p.row).IsPendingOrRefreshing()
	if p.gone || !asked && !p.changed() {
		return
	}
	was := p.obj
	if p.known {
		was = p.row
	}
	current, _, found := rowOf(p.r.table, p.r.db.ReadTxn(), p.obj)
	switch {
	case found && p.r.getStatus(current).ID != p.r.getStatus(was).ID:
		if err := p.merge(func(T) bool { return true }); err != nil {
			p.debug("the object has changed, and what the pass set is not written", "error", err)
		}
	case !asked:
		running.Changed(p.ctx)
	}
}

// merge writes what the pass has changed onto the present version of the row, which keeps its status. The
// error is [reconciler.ErrConflict] if there is no row, or not one that may be written.
func (p *pass[T]) merge(may func(current T) bool) error {
	err := rewrite(p.r.db, p.r.table, p.obj, func(current T) (T, error) {
		if !may(current) {
			return current, reconciler.ErrConflict
		}
		return p.r.Merge(p.r.clone(current), p.obj), nil
	})
	if err == ErrRowGone {
		return reconciler.ErrConflict
	}
	return err
}

// agrees reports whether a later version of the row still wants what this pass does. It may have other
// fields: the next pass updates the resource.
func (p *pass[T]) agrees(current T) bool {
	policy, err := policyOf(current, p.r.opts.policies)
	name := GetExternalName(current)
	return err == nil && WasDeleted(current) == WasDeleted(p.obj) && !IsPaused(current) &&
		policy.deletes == p.policy.deletes && slices.Equal(policy.ManagementPolicies, p.policy.ManagementPolicies) &&
		(name == "" || name == GetExternalName(p.obj) || name == p.obj.meta().lineage.before[AnnotationExternalName])
}

// changed reports whether the pass has set something on the object.
func (p *pass[T]) changed() bool {
	if !p.known {
		return true
	}
	// The loop passes a clone with the status that asked for the pass, and expects it back. Another
	// clone would cost more than the comparison.
	as, lineage := p.obj, p.obj.meta().lineage
	said, asked := p.r.getStatus(p.row), p.r.getStatus(as)
	if said != asked {
		as = p.r.setStatus(as, said)
		defer p.r.setStatus(p.obj, asked)
	}
	if lineage.record != p.row.meta().lineage.record {
		return true
	}
	as.meta().lineage = p.row.meta().lineage
	defer func() { p.obj.meta().lineage = lineage }()
	return !same(as, p.row)
}

// remember keeps the notes and details of an object that is not gone, unless those of earlier passes are not added yet.
func (p *pass[T]) remember() {
	if p.recalled && !p.gone && !p.was.record.is(p.obj, p.unpublished) {
		p.r.memory.set(p.key(), func(k *known[T]) { k.keep(p.obj, p.unpublished) })
	}
}

// checkpoint writes the object into the table. If a writer has changed the row meanwhile, it writes what
// this pass has changed, so that writers who are faster than a pass do not stop it. The error is
// [reconciler.ErrConflict] if the row does not want any more what the pass does.
func (p *pass[T]) checkpoint() error {
	p.remember()
	err := reconciler.Checkpoint(p.ctx, p.obj)
	if outcome.Wraps(err, reconciler.ErrConflict) {
		err = p.merge(p.agrees)
	}
	if err == nil {
		p.written = true
		p.obj.meta().lineage.begin(p.obj.GetAnnotations())
	}
	return err
}

// fail ends a pass with an error, as a condition, an event and the outcome. Waiting for something else
// is not a failure, and is recorded once.
func (p *pass[T]) fail(reason event.Reason, what string, err error, conditions ...Condition) error {
	if outcome.Wraps(err, reconciler.ErrConflict) {
		// The new version has a pass of its own.
		p.trail.add(what + ": the object has changed")
		return err
	}
	err = fmt.Errorf("%s: %w", what, err)
	p.trail.add(err.Error())
	failed := unsynced(reasonReconcileError, err)
	waits := reconciler.IsBlocked(err)
	if waits {
		failed = unsynced(reasonReconcileWaiting, err)
	}
	if !waits || p.news(failed) {
		p.warn(reason, err)
	}
	p.mark(append(conditions, failed)...)
	return err
}

// again ends a pass that must wait for the outside system, which is not a failure.
func (p *pass[T]) again() error {
	p.trail.add("again soon")
	return reconciler.RequeueBackoff()
}

// mark sets conditions with the generation of this pass; Ready with that of the last pass that succeeded.
func (p *pass[T]) mark(conditions ...Condition) {
	for i := range conditions {
		conditions[i].ObservedGeneration = p.obj.meta().Generation
		if conditions[i].Type == TypeReady {
			conditions[i].ObservedGeneration = conditionOf(p.obj, TypeReady).ObservedGeneration
		}
	}
	p.obj.SetConditions(conditions...)
}

// succeeded sets the condition of a pass that succeeded, and the generation of Ready. They are mostly set already.
func (p *pass[T]) succeeded() {
	was := conditionOf(p.obj, TypeSynced)
	if !was.Same(success) || was.ObservedGeneration != p.obj.meta().Generation {
		p.mark(synced())
	}
	if ready := conditionOf(p.obj, TypeReady); ready.Status != ConditionUnknown && ready.ObservedGeneration != p.obj.meta().Generation {
		ready.ObservedGeneration = p.obj.meta().Generation
		p.obj.SetConditions(ready)
	}
}

// news reports whether a condition differs from the one that the object has.
func (p *pass[T]) news(c Condition) bool { return !conditionOf(p.obj, c.Type).Same(c) }

func (p *pass[T]) key() object.Key { return object.KeyOf(p.obj) }
