// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
)

// leaveOrphan removes the row of an object whose external resource must stay.
func (p *pass[T]) leaveOrphan() (over bool, err error) {
	if !WasDeleted(p.obj) || p.policy.deletes {
		return false, nil
	}
	p.trail.add("the external resource stays")
	if p.r.leaveHook != nil && p.policy.changes() {
		if err := p.r.leaveHook(&p.calls, p.obj); err != nil {
			return true, p.fail(reasonCannotLeave, "leave", err, Deleting())
		}
		if wait := p.unlisted(); wait > 0 {
			p.trail.add("lists may not show its mark yet")
			p.mark(Deleting(), synced())
			return true, reconciler.Requeue(wait)
		}
	}
	// Record it before the row is gone, since a resync may follow at once.
	p.r.memory.set(p.key(), func(k *known[T]) {
		if name := GetExternalName(p.obj); !slices.Contains(k.left, name) {
			k.left = append(slices.Clone(k.left), name)
		}
	})
	return true, p.letGo(nil)
}

// unlisted returns how long lists may not show the mark of a resource that stays. Until then its row stays, too: the first
// resync of the next process would delete what a late list shows without a mark.
func (p *pass[T]) unlisted() (wait time.Duration) {
	if !p.r.lists || p.forced {
		return 0
	}
	p.r.memory.set(p.key(), func(k *known[T]) {
		if k.marked.IsZero() {
			k.marked = time.Now()
		}
		wait = p.r.opts.creationGrace - time.Since(k.marked)
	})
	return wait
}

// leavesNamed reports whether an object names a resource that must stay.
func (p *pass[T]) leavesNamed() bool {
	policy, err := policyOf(p.obj, p.r.opts.policies)
	return GetExternalName(p.obj) != "" && err == nil && !policy.deletes
}

// takeOver makes an object responsible for a resource that an earlier row left in place.
func (p *pass[T]) takeOver() (over bool, err error) {
	if !WasDeleted(p.obj) && len(p.was.left) > 0 {
		is := func(name string) bool { return name == GetExternalName(p.obj) }
		p.r.memory.set(p.key(), func(k *known[T]) { k.left = slices.DeleteFunc(slices.Clone(k.left), is) })
	}
	return false, nil
}

// finishRemoved continues the deletion of the resource of a removed row. It runs before the pass of a new
// row with the same key that names another resource, and before that row's own deletion.
func (p *pass[T]) finishRemoved() (over bool, err error) {
	var none T
	before := &p.was
	switch {
	case before.removed == none && before.dropped == none:
	case before.removed != none && namesAnother(p.obj, before.removed):
		return true, p.finishBefore(before.removed, before.listed)
	case !p.forced && (!before.listed || GetExternalName(p.obj) != ""):
		// The removed row was put back.
		p.r.memory.set(p.key(), func(k *known[T]) { k.dropped, k.removed, k.listed = none, none, false })
	}
	return false, nil
}

// finishListed does the same if the new row has no name, even after the initializers, and a resync has
// listed the resource. The row does not take its name from the listing: that may be late, and lacks what
// the create noted.
func (p *pass[T]) finishListed() (over bool, err error) {
	before := &p.was
	if !before.listed || GetExternalName(before.removed) == "" || GetExternalName(p.obj) == GetExternalName(before.removed) {
		return false, nil
	}
	return true, p.finishBefore(before.removed, true)
}

// finishBefore continues the deletion of the resource of a removed row. The pass ends with its outcome.
func (p *pass[T]) finishBefore(row T, listed bool) error {
	running.Deletion(p.ctx)
	old := p.r.begin(p.ctx, p.txn, p.r.clone(row))
	old.was, old.forced, old.listed = p.r.memory.get(p.key()), true, listed
	err := old.run()
	p.trail.add("the row before: " + string(old.trail))
	if err != nil {
		p.mark(unsynced(reasonReconcileWaiting, errRowBefore))
		return err
	}
	p.r.memory.forget(p.key())
	// What was remembered of the new row was forgotten with the old one: end remembers it again.
	p.was = known[T]{}
	return reconciler.Requeue(0)
}

// namesAnother reports whether two objects name different resources.
func namesAnother(a, b object.Object) bool {
	is, was := GetExternalName(a), GetExternalName(b)
	return is != "" && was != "" && is != was
}

// lister wraps a Lister so that it leaves out resources that were left in place.
type lister[T Managed] struct {
	reconciler.Lister[T]
	memory *memory[T]
}

// List implements [reconciler.Lister].
func (l *lister[T]) List(ctx context.Context, txn statedb.ReadTxn, yield func(T) bool) error {
	return l.Lister.List(ctx, txn, func(obj T) bool {
		k := l.memory.get(object.KeyOf(obj))
		return k.hasLeft(obj) || yield(obj)
	})
}
