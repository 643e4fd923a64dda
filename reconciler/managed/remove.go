// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import "github.com/statekeel/statekeel/reconciler"

// remove deletes the external resource of an object that is being deleted. It removes the row when the
// resource is gone.
func (p *pass[T]) remove() (over bool, err error) {
	if !WasDeleted(p.obj) {
		return false, nil
	}
	if !p.observation.ResourceExists {
		p.trail.add("observe: gone")
		return true, p.letGo(p.observation.ConnectionDetails)
	}
	if err := p.ask(func(obj T) error { return p.client.Delete(&p.calls, obj) }); err != nil {
		return true, p.fail(reasonCannotDelete, "delete", err, Deleting())
	}
	p.trail.add("observe: still there; asked for its deletion")
	if p.news(Deleting()) || p.news(synced()) {
		p.tell(reasonDeletionRequested, "requested the deletion of the external resource")
	}
	p.mark(Deleting(), synced())
	return true, p.again()
}

// letGo ends an object whose external resource is gone or is left in place: it removes the finalizer
// and the row.
func (p *pass[T]) letGo(details ConnectionDetails) error {
	for _, publisher := range p.r.publishers {
		if err := publisher.UnpublishConnection(&p.calls, p.view(), details); err != nil {
			return p.fail(reasonCannotUnpublish, "unpublish connection details", err, Deleting())
		}
	}
	if err := p.r.finalizer.RemoveFinalizer(&p.calls, p.obj); err != nil {
		return p.fail(reasonCannotFinalize, "remove the finalizer", err, Deleting())
	}
	if !p.forced && len(p.obj.meta().Finalizers) > 0 {
		return p.blockOnRow()
	}
	if !p.forced {
		if err := p.drop(); err != nil {
			return p.fail(reasonCannotFinalize, "remove the row", err, Deleting())
		}
	}
	p.gone = true
	p.trail.add("the object is gone")
	p.r.memory.set(p.key(), func(k *known[T]) { k.record = nil })
	return nil
}

// drop removes the row of an object that has no finalizers of others. The error is
// [reconciler.ErrConflict] if the row does not want that any more, or was removed: then the loop calls
// Delete for it.
func (p *pass[T]) drop() error {
	wtxn := p.r.db.WriteTxn(p.r.table)
	defer wtxn.Abort()
	current, _, found := rowOf(p.r.table, wtxn, p.obj)
	if !found || !p.agrees(current) || p.r.hasOtherFinalizers(current) {
		return reconciler.ErrConflict
	}
	if _, _, err := p.r.table.Delete(wtxn, current); err != nil {
		return err
	}
	p.r.memory.set(p.key(), func(k *known[T]) { k.dropped = current })
	wtxn.Commit()
	return nil
}
