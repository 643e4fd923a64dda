// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"errors"
	"time"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/status"
)

// lastTime is how long what has to be done at all events may take, also when the program stops.
const lastTime = 10 * time.Second

var errNoClient = errors.New("the connecter returned no client")

// connect begins to talk to the outside system.
func (p *pass[T]) connect() (over bool, err error) {
	client, err := p.r.connecter.Connect(&p.calls, p.obj)
	if err == nil && client == nil {
		err = errNoClient
	}
	if err != nil {
		return true, p.fail(ReasonCannotConnect, "connect", err)
	}
	p.client = client
	return false, nil
}

// disconnect ends what connect began.
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
		errs = append(errs, own.Disconnect(ctx))
	}
	if p.r.disconnecter != nil {
		errs = append(errs, p.r.disconnecter.Disconnect(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		p.trail.add("disconnect: " + err.Error())
		p.warn(ReasonCannotDisconnect, err)
	}
}

// atAllEvents returns a context for what has to be done also when the program stops.
func (p *pass[T]) atAllEvents() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(p.ctx), lastTime)
}

// observe looks at the external resource.
func (p *pass[T]) observe() (over bool, err error) {
	p.observation, err = p.look()
	if err != nil {
		return true, p.fail(ReasonCannotObserve, "observe", err)
	}
	p.observed = true
	if token, ok := p.obj.GetAnnotations()[AnnotationReconcileRequested]; ok {
		p.obj.SetAnnotation(AnnotationReconcileHandled, token)
	}
	return false, nil
}

// look lets the client observe, and then sees to what it says of being ready.
func (p *pass[T]) look() (seen ExternalObservation, err error) {
	was := ConditionOf(p.obj, TypeReady)
	// What will be said if the client says nothing need not be taken away to see whether it
	// says something.
	usual := was.Same(available) && was.ObservedGeneration == p.obj.GetGeneration()
	if !usual {
		p.obj.RemoveCondition(TypeReady)
	}
	// Also when the client panics: the object is written all the same.
	defer func() { p.settleReady(was, usual, seen.ResourceExists && err == nil) }()
	if p.policy.ShouldLateInitialize() || p.policy.ShouldOnlyObserve() {
		return p.client.Observe(&p.calls, p.obj)
	}
	p.seen, p.apart = p.r.clone(p.obj), true
	err = p.ask(func(obj T) (err error) {
		seen, err = p.client.Observe(&p.calls, obj)
		return err
	})
	if err == nil {
		err = p.keepObserved()
	}
	return seen, err
}

// settleReady sets the condition of being ready to what the client has said; else to Available
// if the resource exists, or what it was. usual: it was Available, and has been left there.
func (p *pass[T]) settleReady(was Condition, usual, exists bool) {
	is := ConditionOf(p.obj, TypeReady)
	switch {
	case usual && is == was:
		return
	case is != (Condition{Type: TypeReady, Status: ConditionUnknown}):
		p.obj.RemoveCondition(TypeReady)
		is.ObservedGeneration = p.obj.GetGeneration()
	case exists && !WasDeleted(p.obj):
		is = Available()
		is.ObservedGeneration = p.obj.GetGeneration()
	case was == is:
		return
	default:
		is = was
	}
	if is.Same(was) {
		is.LastTransitionTime = was.LastTransitionTime
	}
	p.obj.SetConditions(is)
}

// awaitCreated sees to a resource that is not there though it should be.
func (p *pass[T]) awaitCreated() (over bool, err error) {
	if p.observation.ResourceExists {
		return false, nil
	}
	if !WasDeleted(p.obj) && !p.policy.ShouldCreate() {
		return true, p.fail(ReasonCannotObserve, "observe", errMissing, Unavailable())
	}
	var unseen error
	switch created := GetCreateSucceeded(p.obj); {
	case !created.IsZero() && p.lately(created):
		unseen = errNotSeenYet
	case p.mayAppear():
		unseen = errMayAppear
	default:
		return false, nil
	}
	p.trail.add("observe: not seen yet")
	p.tell(ReasonPendingConfirmation, unseen.Error())
	return true, p.again()
}

// mayAppear reports whether an object that is to go must wait for what nobody knows to have been
// created. One that is to stay need not: to create what has the same name is no harm.
func (p *pass[T]) mayAppear() bool {
	return WasDeleted(p.obj) && p.mayExist()
}

// publishObserved hands on the connection details that were observed.
func (p *pass[T]) publishObserved() (over bool, err error) {
	if err := p.publish(p.observation.ConnectionDetails); err != nil {
		return true, err
	}
	return false, nil
}

// publish hands on connection details, if there are any.
func (p *pass[T]) publish(details ConnectionDetails, conditions ...Condition) error {
	if details == nil {
		return nil
	}
	for _, publisher := range p.r.publishers {
		if err := publisher.PublishConnection(&p.calls, p.view(), details); err != nil {
			return p.fail(ReasonCannotPublish, "publish connection details", err, conditions...)
		}
	}
	return nil
}

// lateInitialize writes what the client has filled in, before anything is done about it.
func (p *pass[T]) lateInitialize() (over bool, err error) {
	if !p.observation.ResourceLateInitialized || !p.policy.ShouldLateInitialize() || !p.changed() {
		return false, nil
	}
	p.trail.add("late initialised")
	if err := p.checkpoint(); err != nil {
		return true, p.fail(ReasonCannotWriteManaged, "write what was filled in", err)
	}
	return false, nil
}

// update makes what exists as it is wanted, and ends the pass until the next poll.
func (p *pass[T]) update() (over bool, err error) {
	if p.observation.ResourceUpToDate {
		p.trail.add("observe: as wanted")
		p.succeeded()
		p.r.figures.asWanted(p.key(), p.now())
		return true, p.poll()
	}
	p.trail.add("observe: differs")
	if diff := p.observation.Diff; diff != "" {
		p.trail.add(diff)
		p.debug("the external resource differs", "diff", diff)
	}
	if !p.policy.ShouldUpdate() {
		p.trail.add("may not be updated")
		p.succeeded()
		return true, p.poll()
	}
	if err := p.ask(func(obj T) error { return p.client.Update(&p.calls, obj) }); err != nil {
		return true, p.fail(ReasonCannotUpdate, "update", err)
	}
	if p.drifted() {
		p.r.figures.repaired(p.key(), p.now())
	}
	if err := p.publish(p.takeDetails()); err != nil {
		return true, err
	}
	p.trail.add("updated")
	p.tell(ReasonUpdated, "requested the update of the external resource")
	p.succeeded()
	return true, p.poll()
}

// drifted reports whether nobody asked for the pass: then what differs has changed by itself.
func (p *pass[T]) drifted() bool {
	if !p.known {
		return false
	}
	kind := p.r.getStatus(p.row).Kind
	return kind == status.KindDone || kind == status.KindRefreshing
}

// poll ends a pass until the object is to be observed again.
func (p *pass[T]) poll() error {
	interval, ok, err := GetPollInterval(p.obj)
	if err != nil {
		p.trail.add(err.Error())
		p.warn(ReasonPollIntervalInvalid, err)
	}
	if !ok {
		interval = p.r.opts.pollInterval
	}
	if p.r.hook != nil {
		interval = p.r.hook(p.view(), interval)
	} else {
		interval = jittered(interval, p.r.opts.pollJitter)
	}
	if interval <= 0 {
		return nil
	}
	return reconciler.Requeue(interval)
}
