// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"fmt"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/object"
)

// step is one step of a pass. over ends the pass with the outcome err; an error ends it, too.
type step[T Managed] func(p *pass[T]) (over bool, err error)

// updateSteps are the steps of a pass, in order.
func updateSteps[T Managed]() []step[T] {
	return []step[T]{
		(*pass[T]).finishTorn,
		(*pass[T]).recall,
		(*pass[T]).heedPause,
		(*pass[T]).readPolicy,
		(*pass[T]).heedClock,
		(*pass[T]).initialize,
		(*pass[T]).takeOver,
		(*pass[T]).leaveOrphan,
		(*pass[T]).refuseUnsure,
		(*pass[T]).waitForOthers,
		(*pass[T]).resolve,
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

// removeSteps are those of a row that is gone already.
func removeSteps[T Managed]() []step[T] {
	return []step[T]{
		(*pass[T]).recall,
		(*pass[T]).heedPause,
		(*pass[T]).readPolicy,
		(*pass[T]).heedClock,
		(*pass[T]).initialize,
		(*pass[T]).leaveOrphan,
		(*pass[T]).refuseUnsure,
		(*pass[T]).connect,
		(*pass[T]).observe,
		(*pass[T]).awaitCreated,
		(*pass[T]).remove,
	}
}

// pass is one walk through the lifecycle of one object.
type pass[T Managed] struct {
	scope
	r *Reconciler[T]
	// ctx is that of the operation, calls that of the calls of a user's code.
	ctx   context.Context
	calls callContext
	obj   T
	// seen is the object as it was observed, and apart that it is another than obj, of which
	// everything is written.
	seen  T
	apart bool
	// row is the object as it stands in the table, if known.
	row   T
	known bool
	// written: the row has been written in this pass, and waits for its outcome there.
	written bool
	// unwritten: the table does not say what was created.
	unwritten bool
	// forced: the row is gone from the table.
	forced bool

	policy      policy
	client      ExternalClient[T]
	observation ExternalObservation
	// recalled: the object says all that is known, and kept is what was known before.
	recalled bool
	kept     remembered
	// observed: the observation has been made.
	observed bool
	// invalid is what is wrong with the policies.
	invalid error
	// paused: nothing was looked at. gone: the object is no more.
	paused, gone bool
	trail        trail
}

func (r *Reconciler[T]) begin(ctx context.Context, txn statedb.ReadTxn, obj T) *pass[T] {
	p := &pass[T]{r: r, ctx: ctx, obj: obj}
	p.txn = txn
	p.calls.begin(ctx, &p.scope, r.opts.timeout)
	return p
}

// wantedAt returns when the status of an object was set.
func (r *Reconciler[T]) wantedAt(obj T) time.Time {
	if at := r.getStatus(obj).UpdatedAt; !at.IsZero() {
		return at
	}
	return time.Now()
}

// run takes the steps until one ends the pass, and then disconnects.
func (p *pass[T]) run(steps []step[T]) (err error) {
	// Also when a client panics, of which the loop makes an error.
	defer p.end()
	for _, step := range steps {
		over, err := step(p)
		if over || err != nil {
			return err
		}
	}
	return nil
}

// end ends what the pass began outside, and says which steps it took.
func (p *pass[T]) end() {
	p.disconnect()
	p.calls.end()
	reconciler.Note(p.ctx, p.trail.String())
	if p.recalled && !p.gone && !p.unwritten && !p.kept.is(p.obj) && (hasNotes(p.obj) || hasPolicies(p.obj)) {
		p.r.memory.keep(p.obj, false)
	}
	if p.r.figures != nil && !p.forced && !p.gone {
		p.r.figures.ended(p.key(), p.state(), !p.paused, p.now())
	}
}

// close tells the loop to write an object that the pass has changed: by itself it writes only
// what is pending, and an outcome that is news.
func (p *pass[T]) close() {
	if p.gone || p.written || p.known && p.r.getStatus(p.row).IsPendingOrRefreshing() || !p.changed() {
		return
	}
	running.Changed(p.ctx)
}

// changed reports whether the pass has set something on the object.
func (p *pass[T]) changed() bool {
	if !p.known {
		return true
	}
	// The loop hands over a clone with the status that asked for the pass, which it gets back:
	// another clone would cost more than the comparison.
	as := p.obj
	said, asked := p.r.getStatus(p.row), p.r.getStatus(as)
	if said != asked {
		as = p.r.setStatus(as, said)
		defer p.r.setStatus(p.obj, asked)
	}
	return !p.r.untouched(as, p.row) && (!sameMeta(as, p.row) || !p.r.equal(as, p.row))
}

// checkpoint writes the object into the table. The error is [reconciler.ErrConflict] if it was
// changed meanwhile.
func (p *pass[T]) checkpoint() error {
	if err := reconciler.Checkpoint(p.ctx, p.obj); err != nil {
		return err
	}
	p.written = true
	return nil
}

// fail ends a pass with an error: as a condition, an event and the outcome. What waits for
// something else is no error, and told once.
func (p *pass[T]) fail(reason eventReason, what string, err error, conditions ...Condition) error {
	if wraps(err, reconciler.ErrConflict) {
		// The new version is on its way, with a pass of its own.
		p.trail.add(what + ": the object has changed")
		return err
	}
	err = fmt.Errorf("%s: %w", what, err)
	p.trail.add(err.Error())
	synced := ReconcileError(err)
	waits := reconciler.IsBlocked(err)
	if waits {
		synced = ReconcileWaiting(err)
	}
	if !waits || p.news(synced) {
		p.warn(reason, err)
	}
	p.mark(append(conditions, synced)...)
	return err
}

// again ends a pass that has to wait for the outside system, which is no failure.
func (p *pass[T]) again() error {
	p.trail.add("again soon")
	return reconciler.RequeueBackoff()
}

// mark sets conditions, of the generation that the pass is about.
func (p *pass[T]) mark(conditions ...Condition) {
	for i := range conditions {
		conditions[i].ObservedGeneration = p.obj.GetGeneration()
	}
	p.obj.SetConditions(conditions...)
}

// succeeded sets the condition that all is well; mostly it was before.
func (p *pass[T]) succeeded() {
	was := ConditionOf(p.obj, TypeSynced)
	if !was.Same(success) || was.ObservedGeneration != p.obj.GetGeneration() {
		p.mark(ReconcileSuccess())
	}
}

// news reports whether a condition says something that the object's does not say yet.
func (p *pass[T]) news(c Condition) bool { return !ConditionOf(p.obj, c.Type).Same(c) }

// state returns how the object is to be counted.
func (p *pass[T]) state() State {
	exists := p.observation.ResourceExists
	if !p.observed {
		exists = p.r.figures.exists(p.key())
	}
	return State{Known: true, Exists: exists, Ready: IsReady(p.obj), Synced: IsSynced(p.obj)}
}

func (p *pass[T]) key() object.Key { return object.KeyOf(p.obj) }

func (p *pass[T]) now() time.Time { return time.Now() }
