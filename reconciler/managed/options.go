// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/statekeel/statekeel/reconciler/event"
)

// FinalizerName is the finalizer that this package sets on rows.
const FinalizerName = AnnotationPrefix + "managed"

// ControllerName returns the recommended reconciler name for a kind of resources, for
// [reconciler.WithName]: "managed/" and the kind in lower case.
func ControllerName(kind string) string { return "managed/" + strings.ToLower(kind) }

// PollIntervalHook returns the time until an object that is up to date is observed again. pollInterval
// is the object's own interval, or that of [WithPollInterval]. Zero or less means that the object is
// not observed again until it changes. The hook is called once per pass, with
// [reconciler.Settings].Concurrency by several goroutines. It must not change the object.
type PollIntervalHook[T any] func(obj T, pollInterval time.Duration) time.Duration

// ReconcilerOption changes a setting of a managed reconciler.
type ReconcilerOption func(*options)

// options are the settings whose type does not depend on the type of the objects.
type options struct {
	timeout       time.Duration
	creationGrace time.Duration
	pollInterval  time.Duration
	pollJitter    time.Duration
	jittered      bool // the last of the two hooks was that of the jitter
	deterministic bool
	policies      ManagementPolicies
	log           *slog.Logger
	recorder      event.Recorder
	// typed set the others on the Reconciler of the rows' type.
	typed []func(reconciler any) error
}

// set returns an option that changes the Reconciler of rows of type T. For one of other rows it is an error.
func set[T Managed](option string, change func(r *Reconciler[T])) ReconcilerOption {
	return func(o *options) {
		o.typed = append(o.typed, func(reconciler any) error {
			r, ok := reconciler.(*Reconciler[T])
			if !ok {
				return fmt.Errorf("%s: it is for rows of type %s", option, reflect.TypeFor[T]())
			}
			change(r)
			return nil
		})
	}
}

func defaultOptions() options {
	return options{
		// An API call on a bad day can take most of a minute.
		timeout: time.Minute,
		// An API may not show for half a minute what it has created.
		creationGrace: 30 * time.Second,
		// Polling finds drift: the outside system does not report its changes.
		pollInterval: time.Minute,
		policies:     ManagementPolicies{ManagementActionAll},
	}
}

// WithExternalConnecter sets the connecter to the outside system. The default, and nil, is
// [NopConnecter], which connects to nothing.
func WithExternalConnecter[T Managed](c ExternalConnecter[T]) ReconcilerOption {
	return set("WithExternalConnecter", func(r *Reconciler[T]) { r.connecter = c })
}

// WithExternalConnectDisconnecter sets the connecter to the outside system, with a Disconnect that is
// called at the end of each pass. If it is combined with [WithExternalConnecter], the last of the two
// applies.
func WithExternalConnectDisconnecter[T Managed](c ExternalConnectDisconnecter[T]) ReconcilerOption {
	return set("WithExternalConnectDisconnecter", func(r *Reconciler[T]) { r.connecter = c })
}

// WithTimeout bounds all calls of the program's code in one pass together, from the first initializer
// to the last publisher: their context ends then, or when the pass ends. The results of the pass are
// written anyway; [ExternalDisconnecter] and [CriticalAnnotationUpdater] have ten seconds of their own.
// The default is a minute. Zero means no bound; a negative value is an error.
func WithTimeout(timeout time.Duration) ReconcilerOption {
	return func(o *options) { o.timeout = timeout }
}

// WithCreationGracePeriod sets how long a created resource may be invisible in the outside system.
// During this time an object whose resource is not found waits: the resource is neither created again
// nor taken for deleted. An object that is being deleted waits equally long for a resource whose
// creation was not recorded. Such a resource may come from an earlier process, or from a create without
// an answer, which can take effect until its [WithTimeout] has expired. Lists may be as late: see
// [WithLeaveHook]. The default is 30 seconds. Zero means no wait; a negative value is an error.
func WithCreationGracePeriod(grace time.Duration) ReconcilerOption {
	return func(o *options) { o.creationGrace = grace }
}

// WithPollInterval sets the time until an object that is up to date is observed again, unless the
// object has its own interval (see [SetPollInterval]). The default is a minute. Zero means never; a
// negative value is an error.
func WithPollInterval(interval time.Duration) ReconcilerOption {
	return func(o *options) { o.pollInterval = interval }
}

// WithPollIntervalHook sets a hook that computes when an object is observed again. If it is combined
// with [WithPollJitterHook], the last of the two applies. The default, and nil, is no hook.
func WithPollIntervalHook[T Managed](hook PollIntervalHook[T]) ReconcilerOption {
	typed := set("WithPollIntervalHook", func(r *Reconciler[T]) { r.hook = hook })
	return func(o *options) {
		o.pollJitter, o.jittered = 0, false
		typed(o)
	}
}

// WithPollJitterHook varies the poll interval at random by plus or minus jitter, so that resources that
// were created together are not polled together forever. If it is combined with [WithPollIntervalHook],
// the last of the two applies. jitter may be longer than the interval: the next poll comes after at least
// a second, or after the interval if that is less. The default is zero, which means none. A negative
// value is an error.
func WithPollJitterHook(jitter time.Duration) ReconcilerOption {
	return func(o *options) { o.pollJitter, o.jittered = jitter, true }
}

// WithFinalizer sets the [Finalizer] of the objects. The default, and nil, keeps [FinalizerName] among
// the finalizers of the object. If a row is removed without [Writer.Delete], the resource is deleted if
// the row has the finalizer (see [Reconciler.Delete]).
func WithFinalizer[T Managed](f Finalizer[T]) ReconcilerOption {
	return set("WithFinalizer", func(r *Reconciler[T]) { r.finalizer = f })
}

// WithLeaveHook sets a hook that marks a resource in the outside system as left in place. It is called
// before the reconciler removes a row whose resource must stay because of [DeletionOrphan] or of
// management policies without [ManagementActionDelete]. It is not called if the policies allow none of
// [ManagementActionCreate], [ManagementActionUpdate] and ManagementActionDelete: then nothing may be
// changed in the outside system. A [reconciler.Lister] must list neither marked resources nor those that
// are only observed. The process remembers the names of resources that it left in place, until a row takes
// them over. But without the hook the first resync of the next process deletes them. With a Lister the
// row stays for [WithCreationGracePeriod] after the first mark, since a late list may show the resource
// without it, unless it was removed without [Writer.Delete]. Observe should
// report a marked resource as not up to date, and Update remove the mark for a row again. Until it has,
// remove that row with [Writer.Delete] only: if it is removed without and the process ends, no resync
// finds the resource.
//
// The context is that of the calls of the pass, and ends with [WithTimeout]. The hook may be called
// several times for one row, and for a resource that does not exist; neither is an error. If the hook
// fails, the row stays, and its error is the outcome of the pass. The default, and nil, is no hook.
func WithLeaveHook[T Managed](hook func(ctx context.Context, obj T) error) ReconcilerOption {
	return set("WithLeaveHook", func(r *Reconciler[T]) { r.leaveHook = hook })
}

// WithCriticalAnnotationUpdater sets the updater of the annotations that must not be lost after a
// create. The default, and nil, is a [RetryingCriticalAnnotationUpdater] for the table.
func WithCriticalAnnotationUpdater[T Managed](u CriticalAnnotationUpdater[T]) ReconcilerOption {
	return set("WithCriticalAnnotationUpdater", func(r *Reconciler[T]) { r.critical = u })
}

// WithDeterministicExternalName states that the name of an external resource is known before it is
// created. Observe can then tell whether a create happened, and no object ever stops to wait for a
// person.
func WithDeterministicExternalName() ReconcilerOption {
	return func(o *options) { o.deterministic = true }
}

// WithManagementPolicies sets the management policies of objects that have none of their own (see
// [SetManagementPolicies]). The default is [ManagementActionAll]. With no action every object is
// paused. Policies that [ManagementPolicies.Validate] rejects are an error.
func WithManagementPolicies(actions ...ManagementAction) ReconcilerOption {
	return func(o *options) { o.policies = actions }
}

// WithInitializers adds initializers. They are called in the order given. None may be nil.
func WithInitializers[T Managed](initializers ...Initializer[T]) ReconcilerOption {
	return set("WithInitializers", func(r *Reconciler[T]) { r.initializers = append(r.initializers, initializers...) })
}

// WithConnectionPublishers adds publishers of connection details. They are called in the order given,
// until one fails; a later pass then calls all of them again. None may be nil.
func WithConnectionPublishers[T Managed](publishers ...ConnectionPublisher[T]) ReconcilerOption {
	return set("WithConnectionPublishers", func(r *Reconciler[T]) { r.publishers = append(r.publishers, publishers...) })
}

// WithRecorder sets the recorder of the events of the objects. The default, and nil, records nothing.
func WithRecorder(recorder event.Recorder) ReconcilerOption {
	return func(o *options) { o.recorder = recorder }
}

// WithLogger sets where the steps of the passes are logged, at level Debug. The default, and nil, is
// Log of the configuration given to [Configure]; without that nothing is logged.
func WithLogger(log *slog.Logger) ReconcilerOption {
	return func(o *options) { o.log = log }
}

// validate returns the errors of all settings whose type does not depend on the type of the objects.
func (o *options) validate() error {
	var errs []error
	notNegative := func(option string, d time.Duration) {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s: %s must not be negative", option, d))
		}
	}
	notNegative("WithTimeout", o.timeout)
	notNegative("WithCreationGracePeriod", o.creationGrace)
	notNegative("WithPollInterval", o.pollInterval)
	notNegative("WithPollJitterHook", o.pollJitter)
	if err := o.policies.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("WithManagementPolicies: %w", err))
	}
	return errors.Join(errs...)
}

// shortestPoll is the shortest interval that jitter may produce. longestPoll, half a century, bounds what
// is added, so that the sum does not overflow.
const (
	shortestPoll = time.Second
	longestPoll  = 50 * 365 * 24 * time.Hour
)

// jittered returns an interval plus or minus jitter.
func jittered(interval, jitter time.Duration) time.Duration {
	if interval <= 0 || jitter <= 0 {
		return interval
	}
	interval, jitter = min(interval, longestPoll), min(jitter, longestPoll)
	spread := interval - jitter + rand.N(2*jitter+1)
	return max(spread, min(interval, shortestPoll))
}
