// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
)

// Getter is a [Lister] that also gets single objects. It is optional: the reconciler calls it if [Config].Lister has the
// method with this signature, which needs [Config].Equal, and is not called with OrphansOnly. A program lets the compiler
// check the signature:
//
//	var _ reconciler.Getter[*Rule] = (*Firewall)(nil)
//
// Then
//
//   - [Loop.Verify] compares single objects;
//   - a retry after a failure begins with it: if the target has what the row wants, no operation is called. That is not so
//     for a refresh, a trigger or [Loop.Reapply] that failed or came since, or for an update that had asked for another run
//     ([Requeue]);
//   - a repair begins and ends with it.
type Getter[Obj any] interface {
	// Get returns what the target has for the key of wanted, as List would list it: with the values that [Config].Equal
	// compares. ok is false if the target has nothing, or nothing that List would list. wanted is a row, or what a Delete would
	// get; it must not be changed, and found must not be changed afterwards. Get must not return what the target had before the
	// call: no cache.
	//
	// Get is called by the goroutine that runs the operations of the object, before them or after them, and never at the
	// same time; with workers for several objects at once. txn is a snapshot, to look up other objects. [Settings].Timeout
	// bounds a call, and ctx ends at it. Of a batch, Get is called for one object after the other, before the call and after
	// it, until one takes as long as Timeout.
	//
	// An error means that it is not known what the target has. A retry, or a repair of a resync, then calls the operation.
	// After Verify the object fails with the error, and is retried. If the Get after an operation fails, that changes nothing.
	Get(ctx context.Context, txn statedb.ReadTxn, wanted Obj) (found Obj, ok bool, err error)
}

// Verify asks whether the target is as the rows of these objects want it: an event has said that something has changed
// there, and somebody else may have done it. What is equal costs one [Getter].Get and no operation, even if the event is of
// an own write. What is missing or different is applied again, with the cause "verify". A row that fails, even for good, or
// is blocked becomes Done if the target is as it wants, and waits on otherwise. It waits on, too, if it is blocked since a
// refresh, a trigger or Reapply. Only the primary keys of objs matter. Left alone are objects without a row, which a resync
// finds, rows whose change is about to be applied, and contended ones, whose retries look. If an operation on an object is
// running, Get is called when that has ended. However many calls name an object that waits for its Get, it is called once.
// It takes a permit of [Settings].OperationLimiter.
//
// Without a Getter, Verify asks for a resync as soon as possible, as [Loop.Resync] does. Without [Config].Lister, or with
// OrphansOnly, it returns an error that says so.
//
// Verify blocks until the loop has taken the objects, as [Loop.Reapply] does and with the same errors, but not for their
// looks and operations. No wait covers these. Safe from any goroutine.
func (l *Loop[Obj]) Verify(ctx context.Context, objs ...Obj) error {
	switch {
	case l.setup.cfg.Lister == nil:
		return fmt.Errorf("reconciler %q: nothing is verified without a list of the target: set Config.Lister", called(l.setup.id))
	case l.setup.cfg.OrphansOnly:
		return fmt.Errorf("reconciler %q: nothing is verified, since Config.OrphansOnly is set", called(l.setup.id))
	}
	keyed, err := l.mayHand(ctx, objs, "verify")
	if l.execution.config.Look == nil && len(keyed) > 0 {
		l.Resync()
		return err
	}
	for some := range slices.Chunk(keyed, atOnce) {
		if _, failed := ask(ctx, l.view, func(b *answers[Obj]) int { return b.r.hand(some, core.CauseVerify) }); failed != nil {
			return errors.Join(err, fmt.Errorf("reconciler %q: %w", l.ID(), failed))
		}
	}
	return err
}

// newLook returns the function with which operations look at the target; nil if there is no [Getter].
func (l *Loop[Obj]) newLook() func(ctx context.Context, txn statedb.ReadTxn, row Obj, deleted bool) (core.Sight, error) {
	cfg := &l.setup.cfg
	getter, ok := cfg.Lister.(Getter[Obj])
	if !ok || cfg.Equal == nil {
		// That the target has the key says nothing of a row that is not applied.
		return nil
	}
	return func(ctx context.Context, txn statedb.ReadTxn, row Obj, deleted bool) (s core.Sight, err error) {
		found, has, err := getter.Get(ctx, txn, row)
		switch {
		case err != nil:
		case deleted && has:
			s.Diff = "the object, which no row wants"
		case deleted:
			s.Right = true
		case !has:
			s.Diff = "no such object"
		case cfg.Equal(row, found):
			s.Right = true
		default:
			s.Diff = cmp.Or(l.runner.resync.Diff(row, found), "a different object")
		}
		return s, err
	}
}

// looks decides whether an operation looks at the target before it is called. It returns false if it must not run: it only
// looks, and nothing can.
func (r *runner[Obj]) looks(op *core.Operation[Obj]) bool {
	switch {
	case r.shared.execution.config.Look != nil:
		op.Turn.Looks = op.Turn.Looks || op.Turn.Cause == core.CauseRequeue && r.fights.Doubts(op.Row)
	case op.Turn.Cause == core.CauseVerify && r.resync.Right(op.Row):
		op.Run.Look = &core.Look{Before: core.Sight{Seen: true, Right: true}}
		op.Turn.Looks = false
	default:
		op.Turn.Looks = false
		return op.Turn.Cause != core.CauseVerify
	}
	return true
}

// settleLook settles an operation that was not called, if that changes nothing about its object, and reports whether it
// did. If it changes something, since the object was not applied, the object is adopted. One that polls is called again.
func (r *runner[Obj]) settleLook(op *core.Operation[Obj]) bool {
	switch {
	case op.Run.Look == nil || op.Run.Err != nil:
		return false
	case op.FoundRight() && op.Since() > 0 && !op.WaitsToBeCalled():
		if op.Turn.Cause = core.CauseAdopted; op.Polls() {
			op.Run.Err = outcome.RequeueBackoff()
		}
		return false
	case !op.FoundRight() && !op.OnlyLooks():
		return false
	}
	if op.FoundRight() {
		r.resync.NoteRight(op.Row)
	}
	r.shared.needs.NoteLook(op.Row, op.FoundRight() && op.Since() == 0)
	r.leave(op)
	return true
}
