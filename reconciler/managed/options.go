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

// FinalizerName is the finalizer of this package.
const FinalizerName = AnnotationPrefix + "managed"

// ControllerName returns the recommended name of a reconciler of a kind of resources, for
// [reconciler.WithName]: "managed/" and the kind in lower case.
func ControllerName(kind string) string { return "managed/" + strings.ToLower(kind) }

// PollIntervalHook returns after how long an object that is as wanted is observed again.
// pollInterval is that of the object, or of [WithPollInterval]. Zero or below means never: until
// the object changes. It is called once a pass, from several goroutines with
// [reconciler.Settings].Concurrency, and must not change the object.
type PollIntervalHook[T any] func(obj T, pollInterval time.Duration) time.Duration

// Option changes a setting of a managed reconciler from its default.
type Option func(*options)

// options are the settings; those whose type depends on that of the objects are kept as they
// came, and checked by resolve.
type options struct {
	timeout       time.Duration
	creationGrace time.Duration
	pollInterval  time.Duration
	pollJitter    time.Duration
	deterministic bool
	policies      ManagementPolicies
	kind          string
	log           *slog.Logger
	recorder      event.Recorder
	metrics       Metrics

	connecter, critical, finalizer, leaveHook, hook, resolver, equal, observed any

	initializers, publishers []any
}

func defaultOptions() options {
	return options{
		// A minute for all calls of a pass, as long as an API may take on a bad day.
		timeout: time.Minute,
		// Half a minute in which an API may not know yet what it has created.
		creationGrace: 30 * time.Second,
		// Once a minute against drift: nobody tells when the outside changes.
		pollInterval: time.Minute,
		policies:     ManagementPolicies{ManagementActionAll},
	}
}

// WithExternalConnecter says how to connect to the outside system. nil is the default:
// [NopConnecter], which connects to nothing.
func WithExternalConnecter[T any](c ExternalConnecter[T]) Option {
	return func(o *options) { o.connecter = c }
}

// WithExternalConnectDisconnecter says how to connect to the outside system, and how to end that
// at the end of each pass. Of it and [WithExternalConnecter] the last counts.
func WithExternalConnectDisconnecter[T any](c ExternalConnectDisconnecter[T]) Option {
	return func(o *options) { o.connecter = ExternalConnecter[T](c) }
}

// WithTimeout bounds all calls of a program's code in one pass together, from the first initializer
// to the last publisher: their context ends then, or when the pass does. What came of the pass is
// written all the same, and [ExternalDisconnecter] and [CriticalAnnotationUpdater] have ten seconds
// of their own. The default is a minute; zero means no bound, and a negative one is an error.
func WithTimeout(timeout time.Duration) Option {
	return func(o *options) { o.timeout = timeout }
}

// WithCreationGracePeriod sets for how long after a create the outside system may say that the
// resource does not exist without being believed: the object waits, and is neither created
// again nor taken for deleted. An object that is to be deleted waits as long for what may have been
// created without anybody noting it: by an earlier process, or by a create that had no answer, which
// may happen until the time of [WithTimeout] is up. The default is 30 seconds; zero believes it at
// once, and a negative one is an error.
func WithCreationGracePeriod(grace time.Duration) Option {
	return func(o *options) { o.creationGrace = grace }
}

// WithPollInterval sets after how long an object that is as wanted is observed again, unless
// [SetPollInterval] says otherwise for the object. The default is a minute; zero means never,
// and a negative one is an error.
func WithPollInterval(interval time.Duration) Option {
	return func(o *options) { o.pollInterval = interval }
}

// WithPollIntervalHook sets a hook that says when an object is observed again. Of it and
// [WithPollJitterHook] the last counts. The default is none; nil takes back an earlier one.
func WithPollIntervalHook[T any](hook PollIntervalHook[T]) Option {
	return func(o *options) { o.hook, o.pollJitter = hook, 0 }
}

// WithPollJitterHook spreads polls over the poll interval plus or minus jitter, at random, so
// that what was created together is not polled together for ever. Of it and
// [WithPollIntervalHook] the last counts. jitter must be less than the poll interval; where that
// of an object is shorter, the next poll comes after a second at the earliest, or after the
// object's interval if that is less. Zero, the default, means none; a negative one is an error.
func WithPollJitterHook(jitter time.Duration) Option {
	return func(o *options) { o.hook, o.pollJitter = nil, jitter }
}

// WithFinalizer sets who notes that an object has an external resource. nil is the default, which
// keeps [FinalizerName] among the object's finalizers. Of a row that is taken out by force the
// resource is deleted if it has the finalizer (see [Reconciler.Delete]).
func WithFinalizer[T any](f Finalizer[T]) Option {
	return func(o *options) { o.finalizer = f }
}

// WithLeaveHook sets a hook that is called before a row goes whose external resource is to stay
// ([DeletionOrphan], or management policies without [ManagementActionDelete]), to mark the resource
// in the outside system as left on purpose. A [reconciler.Sweeper] must not list what is marked.
// The process itself remembers what it left, a few words for each, until a row takes it over; but
// without the hook the sweep of the next process deletes it. A client should take the mark off what
// it observes for a row again.
//
// The context is that of the calls of a pass, and ends with [WithTimeout]. The hook may be called
// several times for a row, and for a resource that does not exist: neither is an error. An error
// keeps the row, and is the outcome of the pass. nil, the default, is no hook.
func WithLeaveHook[T any](hook func(ctx context.Context, obj T) error) Option {
	return func(o *options) {
		o.leaveHook = nil
		if hook != nil {
			o.leaveHook = hook
		}
	}
}

// WithCriticalAnnotationUpdater sets who writes the annotations that must not be lost after a
// create. nil is the default: a [RetryingCriticalAnnotationUpdater] of the table.
func WithCriticalAnnotationUpdater[T any](u CriticalAnnotationUpdater[T]) Option {
	return func(o *options) { o.critical = u }
}

// WithDeterministicExternalName says that the name of an external resource is known before it is
// created, so that observing tells whether a create happened: no object ever stops to ask a
// person.
func WithDeterministicExternalName() Option {
	return func(o *options) { o.deterministic = true }
}

// WithManagementPolicies sets what may be done for the objects that have no policies of their own
// (see [SetManagementPolicies]). The default is [ManagementActionAll]. None at all pause every
// object; what [ManagementPolicies.Validate] says is wrong is an error.
func WithManagementPolicies(actions ...ManagementAction) Option {
	return func(o *options) { o.policies = actions }
}

// WithInitializers adds initializers, which are called in their order. None of them may be nil.
func WithInitializers[T any](initializers ...Initializer[T]) Option {
	return func(o *options) {
		for _, i := range initializers {
			o.initializers = append(o.initializers, i)
		}
	}
}

// WithReferenceResolver sets who fills in what objects take from other rows. nil, the default, is
// nobody.
func WithReferenceResolver[T any](r ReferenceResolver[T]) Option {
	return func(o *options) { o.resolver = r }
}

// WithConnectionPublishers adds publishers of connection details, which are called in their
// order until one fails. None of them may be nil.
func WithConnectionPublishers[T any](publishers ...ConnectionPublisher[T]) Option {
	return func(o *options) {
		for _, p := range publishers {
			o.publishers = append(o.publishers, p)
		}
	}
}

// WithEqual sets how two versions of a row are compared, to see whether a pass has changed
// something that has to be written. Their finalizers, conditions, annotations and statuses are the
// same then. It must not change or keep them. nil is the default: [reflect.DeepEqual].
func WithEqual[T any](equal func(a, b T) bool) Option {
	return func(o *options) {
		o.equal = nil
		if equal != nil {
			o.equal = equal
		}
	}
}

// WithRecorder sets who is told what happened to an object. nil, the default, is nobody.
func WithRecorder(recorder event.Recorder) Option {
	return func(o *options) { o.recorder = recorder }
}

// WithMetrics sets who is told how all objects are doing. nil, the default, is nobody. With
// metrics the reconciler remembers a few words of each object.
func WithMetrics(m Metrics) Option {
	return func(o *options) { o.metrics = m }
}

// WithKind names the kind of the resources, for [Metrics] and the log. Empty, the default, is the
// name of the table.
func WithKind(kind string) Option {
	return func(o *options) { o.kind = kind }
}

// WithLogger sets where the steps of the passes are logged, at level Debug. nil, the default, is
// the log of the loop.
func WithLogger(log *slog.Logger) Option {
	return func(o *options) { o.log = log }
}

// validate returns everything that is wrong with the settings that have the same type for all
// objects.
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
	if o.pollJitter > 0 && o.pollJitter >= o.pollInterval {
		errs = append(errs, fmt.Errorf("WithPollJitterHook: jitter %s must be less than the poll interval %s", o.pollJitter, o.pollInterval))
	}
	if err := o.policies.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("WithManagementPolicies: %w", err))
	}
	return errors.Join(errs...)
}

// typed returns a setting as what it has to be for the objects of a reconciler; none if it was
// not set. The error says of which type it is instead.
func typed[Want any](option string, setting any, none Want) (Want, error) {
	if setting == nil {
		return none, nil
	}
	want, ok := setting.(Want)
	if !ok {
		return none, fmt.Errorf("%s: a %T is not a %s", option, setting, reflect.TypeFor[Want]())
	}
	return want, nil
}

// shortestPoll is how soon jitter may bring the next poll.
const shortestPoll = time.Second

// jittered returns an interval plus or minus jitter.
func jittered(interval, jitter time.Duration) time.Duration {
	if interval <= 0 || jitter <= 0 {
		return interval
	}
	spread := interval - jitter + rand.N(2*jitter+1)
	return max(spread, min(interval, shortestPoll))
}
