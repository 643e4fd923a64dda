// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
)

// leaveOrphan lets an object go whose external resource is to stay.
func (p *pass[T]) leaveOrphan() (over bool, err error) {
	if !WasDeleted(p.obj) || p.policy.deletes {
		return false, nil
	}
	p.trail.add("the external resource stays")
	if p.r.leaveHook != nil {
		if err := p.r.leaveHook(&p.calls, p.obj); err != nil {
			return true, p.fail(ReasonCannotLeave, "leave", err, Deleting())
		}
	}
	// Before the row is gone, since a sweep may come right after.
	p.r.departed.leave(p.obj)
	return true, p.letGo(nil)
}

// leavesNamed reports whether an object names a resource that is to stay.
func (p *pass[T]) leavesNamed() bool {
	policy, err := policyOf(p.obj, p.r.opts.policies)
	return GetExternalName(p.obj) != "" && err == nil && !policy.deletes
}

// takeOver makes an object answer for a resource that an earlier row has left.
func (p *pass[T]) takeOver() (over bool, err error) {
	if !WasDeleted(p.obj) {
		p.r.departed.takeOver(p.obj)
	}
	return false, nil
}

// finishTorn goes on with the deletion of a resource whose row was taken out by force, before a row
// that names another one is seen to.
func (p *pass[T]) finishTorn() (over bool, err error) {
	row, another := p.r.departed.comeBack(p.obj)
	if !another {
		return false, nil
	}
	running.Deletion(p.ctx)
	old := p.r.begin(p.ctx, p.txn, p.r.clone(row))
	old.forced = true
	err = old.run(p.r.remove)
	p.trail.add("the row before: " + old.trail.String())
	if err != nil {
		p.mark(ReconcileWaiting(errRowBefore))
		return true, err
	}
	_ = p.r.finish(p.key())
	return true, reconciler.Requeue(0)
}

// namesAnother reports whether two objects name different resources.
func namesAnother(a, b object.Object) bool {
	is, was := GetExternalName(a), GetExternalName(b)
	return is != "" && was != "" && is != was
}

// sweeper lists what another one lists, but what was left on purpose.
type sweeper[T Managed] struct {
	reconciler.Sweeper[T]
	departed *departed[T]
}

// List implements [reconciler.Sweeper].
func (s *sweeper[T]) List(ctx context.Context, txn statedb.ReadTxn, yield func(T) bool) error {
	return s.Sweeper.List(ctx, txn, func(obj T) bool { return s.departed.wasLeft(obj) || yield(obj) })
}
