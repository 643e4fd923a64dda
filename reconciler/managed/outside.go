// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"errors"
	"time"

	"github.com/statekeel/statekeel/internal/guard"
	"github.com/statekeel/statekeel/reconciler"
)

// lastTime bounds calls that must be made even if the program stops.
const lastTime = 10 * time.Second

var errNoClient = errors.New("the connecter returned no client")

// connect makes the client for the outside system.
func (p *pass[T]) connect() (over bool, err error) {
	client, err := p.r.connecter.Connect(&p.calls, p.obj)
	if err == nil && client == nil {
		err = errNoClient
	}
	if err != nil {
		return true, p.fail(reasonCannotConnect, "connect", err)
	}
	p.client = client
	return false, nil
}

// disconnect releases what connect has opened.
func (p *pass[T]) disconnect() {
	if p.client == nil {
		return
	}
	own, ok := p.client.(ExternalDisconnecter)
	if !ok && p.r.disconnecter == nil {
		return
	}
	ctx, cancel := p.atAllEvents()
	defer cancel()
	var errs []error
	if ok {
		errs = append(errs, disconnect(ctx, own))
	}
	if p.r.disconnecter != nil {
		errs = append(errs, disconnect(ctx, p.r.disconnecter))
	}
	if err := errors.Join(errs...); err != nil {
		p.trail.add("disconnect: " + err.Error())
		p.warn(reasonCannotDisconnect, err)
	}
}

// disconnect calls Disconnect, and returns a panic as an error: the pass has its outcome already, which may
// be a panic of its own.
func disconnect(ctx context.Context, d ExternalDisconnecter) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("panic in Disconnect: " + guard.Panicked(r, nil, ""))
		}
	}()
	return d.Disconnect(ctx)
}

// atAllEvents returns a context for calls that must be made even if the program stops.
func (p *pass[T]) atAllEvents() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(p.ctx), lastTime)
}

// observe reads the state of the external resource.
func (p *pass[T]) observe() (over bool, err error) {
	p.observation, err = p.look()
	if err != nil {
		return true, p.fail(reasonCannotObserve, "observe", err)
	}
	if token, ok := p.obj.GetAnnotations()[annotationReconcileRequested]; ok {
		p.obj.SetAnnotation(annotationReconcileHandled, token)
	}
	return false, nil
}

// look calls Observe and settles the condition [TypeReady].
func (p *pass[T]) look() (seen ExternalObservation, err error) {
	was := conditionOf(p.obj, TypeReady)
	// If the condition is Available already, it stays in place during the call: a client that sets
	// nothing leaves the same value.
	usual := was.Same(available) && was.ObservedGeneration == p.obj.meta().Generation
	if !usual {
		p.obj.meta().RemoveCondition(TypeReady)
	}
	// Deferred, since the client may panic: the object is written even then.
	defer func() { p.settleReady(was, usual, seen.ResourceExists && err == nil) }()
	if p.policy.allows(ManagementActionLateInitialize) || p.policy.onlyObserve() {
		return p.client.Observe(&p.calls, p.obj)
	}
	p.seen, p.apart = p.r.clone(p.obj), true
	err = p.ask(func(obj T) (err error) {
		seen, err = p.client.Observe(&p.calls, obj)
		return err
	})
	if err == nil && p.r.observed != nil && p.r.observed(p.obj, p.seen) != p.obj {
		err = errOtherRow
	}
	return seen, err
}

// settleReady sets the condition [TypeReady]: to the value that the client has set, else to Available
// if the resource exists, else to its old value. usual: it was Available, and was left in place during
// the call.
func (p *pass[T]) settleReady(was Condition, usual, exists bool) {
	is := conditionOf(p.obj, TypeReady)
	switch {
	case usual && is == was:
		return
	case is != (Condition{Type: TypeReady, Status: ConditionUnknown}):
		p.obj.meta().RemoveCondition(TypeReady)
	case exists && !WasDeleted(p.obj):
		is = Available()
	case was == is:
		return
	default:
		is = was
	}
	// The resource is as the present generation wants it only when the pass has succeeded.
	is.ObservedGeneration = was.ObservedGeneration
	if is.Same(was) {
		is.LastTransitionTime = was.LastTransitionTime
	}
	p.obj.SetConditions(is)
}

// awaitCreated handles a resource that was not found: the pass fails if it may not be created, and
// waits if it may still be invisible.
func (p *pass[T]) awaitCreated() (over bool, err error) {
	if p.observation.ResourceExists {
		return false, nil
	}
	p.clampTimes()
	if !WasDeleted(p.obj) && !p.policy.allows(ManagementActionCreate) {
		return true, p.fail(reasonCannotObserve, "observe", errMissing, Unavailable())
	}
	var unseen error
	switch created := timeOf(p.obj, annotationCreateSucceeded); {
	case !created.IsZero() && p.lately(created):
		unseen = errNotSeenYet
	case WasDeleted(p.obj) && p.mayExist():
		// Other objects need not wait: creating a resource that exists under the same name does no harm.
		unseen = errMayAppear
	default:
		return false, nil
	}
	p.trail.add("observe: not seen yet")
	if !WasDeleted(p.obj) {
		if err := p.publish(nil); err != nil {
			return true, err
		}
	}
	p.tell(reasonPendingConfirmation, unseen.Error())
	return true, p.again()
}

// publishObserved publishes the connection details that were observed, and what earlier passes could not
// publish.
func (p *pass[T]) publishObserved() (over bool, err error) {
	return false, p.publish(p.observation.ConnectionDetails)
}

// learn keeps the connection details that a call has noted, until they are published.
func (p *pass[T]) learn() {
	if details := p.takeDetails(); len(p.r.publishers) > 0 {
		p.unpublished = joined(p.unpublished, details)
	}
}

// publish publishes connection details together with those that are kept, if there are any. It keeps what could
// not be published.
func (p *pass[T]) publish(details ConnectionDetails, conditions ...Condition) error {
	if details = joined(p.unpublished, details); details == nil {
		return nil
	}
	done := false
	// Deferred, so that it holds after a panic too.
	defer func() {
		if p.unpublished = nil; !done {
			p.unpublished = detached(details)
		}
	}()
	for _, publisher := range p.r.publishers {
		if err := publisher.PublishConnection(&p.calls, p.view(), details); err != nil {
			return p.fail(reasonCannotPublish, "publish connection details", err, conditions...)
		}
	}
	done = true
	return nil
}

// lateInitialize writes what the client has filled in, before the update.
func (p *pass[T]) lateInitialize() (over bool, err error) {
	if !p.observation.ResourceLateInitialized || !p.policy.allows(ManagementActionLateInitialize) || !p.changed() {
		return false, nil
	}
	p.trail.add("late initialised")
	if err := p.checkpoint(); err != nil {
		return true, p.fail(reasonCannotWriteManaged, "write what was filled in", err)
	}
	return false, nil
}

// update updates a resource that differs, and ends the pass until the next poll.
func (p *pass[T]) update() (over bool, err error) {
	if p.observation.ResourceUpToDate {
		p.trail.add("observe: as wanted")
		p.succeeded()
		return true, p.poll()
	}
	p.trail.add("observe: differs")
	if diff := p.observation.Diff; diff != "" {
		p.trail.add(diff)
		p.debug("the external resource differs", "diff", diff)
	}
	if !p.policy.allows(ManagementActionUpdate) {
		p.trail.add("may not be updated")
		p.succeeded()
		return true, p.poll()
	}
	if err := p.ask(func(obj T) error { return p.client.Update(&p.calls, obj) }); err != nil {
		return true, p.fail(reasonCannotUpdate, "update", err)
	}
	p.learn()
	if err := p.publish(nil); err != nil {
		return true, err
	}
	p.trail.add("updated")
	p.tell(reasonUpdated, "requested the update of the external resource")
	p.succeeded()
	return true, p.poll()
}

// poll ends a pass until the object must be observed again.
func (p *pass[T]) poll() error {
	interval, ok, err := getPollInterval(p.obj)
	if err != nil {
		p.trail.add(err.Error())
		p.warn(reasonPollIntervalInvalid, err)
	}
	if !ok {
		interval = p.r.opts.pollInterval
	}
	if p.r.hook != nil && !p.r.opts.jittered {
		interval = p.r.hook(p.view(), interval)
	} else {
		interval = jittered(interval, p.r.opts.pollJitter)
	}
	if interval <= 0 {
		return nil
	}
	return reconciler.Requeue(interval)
}
