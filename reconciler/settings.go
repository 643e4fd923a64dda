// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/resync"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Settings are the options that can change at run time: see [WithSettings], [Loop.Settings] and
// [Loop.Reconfigure].
//
// The constructors and Reconfigure return an error for values that are out of range: negative numbers
// and durations; a limiter with a burst of 0, unless its limit is [rate.Inf]; and what the fields say.
type Settings struct {
	// RoundSize is the largest number of objects in a round, at least 1; the default is 1000. Statuses
	// are written at the end of a round, or with workers (see Concurrency) at the start of a later one.
	// A batch is no larger than a round. So a large number allows large batches, and a small one gives
	// early statuses. However many changes there are, one object in four, counted over several rounds,
	// may be one that waited and is due, such as a retry.
	RoundSize int
	// RoundLimiter bounds the rounds per second, at the price of latency. nil, the default, means no
	// limit: the loop starts a round at once. Under load it starts the next round a millisecond after a
	// round that was not full began, so that bursts are gathered into batches.
	RoundLimiter *rate.Limiter

	// OperationLimiter bounds the updates and deletions per second. Each object of a batch counts;
	// prunes do not. Reconcilers that share a limiter are bounded together. nil, the default, means
	// no limit.
	OperationLimiter *rate.Limiter

	// Concurrency is the number of operations that may run at the same time: calls of [ObjectOperations],
	// or batches without a common key. The default is 1, the maximum 10,000; zero is an error.
	//
	// The operations of one object never overlap. An object that changes while its operation runs is
	// reconciled again, with its version at that time. Operations of different objects run in no
	// particular order; [Config].SerialBy makes those of a group wait for each other. If it is lowered to 1,
	// the operations on workers end before others begin.
	Concurrency int
	// Timeout sets the deadline of the context of each update and deletion, for a single call or for
	// a whole batch. Prunes have no deadline. Zero, the default, means none.
	//
	// If an operation returns an error after its deadline, the reconciler adds the name of the
	// operation and the timeout to it, and it matches [context.DeadlineExceeded]. If it returns nil
	// or an outcome such as [RetryAfter], that counts. An operation that ignores its context is
	// waited for.
	//
	// A call on a worker is stuck if it still runs after its deadline and a grace period, which is as
	// long as Timeout, but at most a second; without a timeout, after a minute. Health names it. It
	// keeps its worker, and holds up its own objects, their groups, and prunes. Other objects go on
	// while workers are free; [Loop.Reconfigure] can raise Concurrency at any time. Without workers
	// the loop waits for the call, and health names it after a minute, or after its deadline and the
	// grace period if that is later.
	Timeout time.Duration

	// MinBackoff is the delay of the retry after the first failure of an object. The delay doubles
	// with every further failure, up to MaxBackoff. Both must be positive; the defaults are 100 ms
	// and a minute.
	MinBackoff, MaxBackoff time.Duration
	// Jitter is the fraction, 0 to 1, by which a delay after a failure may be shortened at random, so
	// that objects which failed together are not retried together. It never makes a delay longer. The
	// default is 0.1; zero makes retries exact. All objects of one call of a batch operation are
	// shortened by the same fraction, so that they are retried in one call.
	Jitter float64
	// MaxRetries is the number of retries after which the failure of an update is final, as with
	// [TerminalError]: the object is left alone until it changes, its status is set to Pending or
	// Refreshing, [Loop.Retry] or [Loop.Reapply] is called, a trigger finds it, or a reconciler starts
	// again. The text of the status says so. Zero, the default, means no limit. Deletions are always retried without
	// limit, because no row would show that one was given up.
	MaxRetries int
	// BlockedRecheck is the time after which a [Blocked] object is tried again although none of its
	// channels closed, for channels that do not report everything. It is shortened at random by
	// Jitter. The default is a minute; zero means never.
	BlockedRecheck time.Duration
	// BreakerFailures is the number of different objects that have to fail one after another, with no success in
	// between, to open the breaker. Zero, the default, means no breaker; 10 suits most targets. Set it above the number
	// of objects that may fail for long beside a target that works: those become due together when the breaker
	// closes, and would open it again.
	//
	// While it is open, everything is held back: a target that is down costs next to nothing, however many objects
	// wait for it. Only the next operation that is due is let through, on its own, after a pause of 100 ms, which
	// doubles with each such failure up to a second. An operation that still runs on a worker is waited for first,
	// until it counts as stuck: set Timeout. The first operation that succeeds closes the breaker. Then
	// everything that it held, and every retry that waits for its backoff, is due at once.
	//
	// A terminal failure and a blocked object do not count, because they are not caused by the target; this includes
	// a terminal failure of a deletion, which is retried. Failures are counted at the end of a round, so one more
	// round may fail before the breaker opens.
	BreakerFailures int

	// RefreshInterval is the age of a Done status at which the object is updated again, to repair drift
	// in the target. Zero, the default of [New] and [RegisterConfig], means never; the default of
	// [Register] is 30 minutes. Objects that are not Done are not refreshed. Failed ones are retried
	// instead, except after a [TerminalError] or MaxRetries.
	//
	// Rows are checked in the order in which they were written. A row that another writer, such as a
	// second reconciler, writes more often than RefreshInterval may be refreshed late.
	//
	// If the rows carry no status, all rows are refreshed once a RefreshInterval, in the order of their keys, so that
	// each is applied at least once in two intervals, if RefreshLimiter allows it. An interval begins when refreshing is
	// turned on.
	//
	// Nothing is written before the operation ends: the status stays Done meanwhile. At most 128 objects, or an eighth of
	// RoundSize if that is more, wait to be refreshed at a time. They have a share of the operations, so that other work
	// goes on beside them. With batch operations a fresh change waits for the call that refreshes them.
	RefreshInterval time.Duration
	// RefreshLimiter bounds the objects that are refreshed per second; the default is 100, and nil means
	// no limit.
	RefreshLimiter *rate.Limiter

	// PruneInterval is the time between two prunes; the first runs as soon as the table is initialised; zero means only
	// after calls of [Reconciler].Prune. The default is an hour, or zero if nothing prunes (see [Config].Pruner) or there is
	// a Lister; then it is an error to set it. A new value restarts that time, unless a failed prune waits for its retry.
	PruneInterval time.Duration

	// ResyncInterval is the time between two listings of the target by [Config].Lister; zero means only the first one
	// and those after [Loop.Resync]. The default is an hour with [Config].OrphansOnly, and zero otherwise. It is
	// shortened at random by Jitter. To set it without a Lister is an error. Repairs are bounded by RefreshLimiter.
	ResyncInterval time.Duration
	// ListTimeout is how long the loop waits for the first listing of the target before it calls an operation, if
	// [Config].Equal is set; the default is 30 s. Then objects are applied without a comparison, and health reports
	// it until a listing works. What was listed is kept as long again if the table is not initialised before. A
	// later listing that takes longer goes on, and health reports it. Zero means that the loop does not wait, and
	// adopts nothing; then a listing is reported after a minute.
	ListTimeout time.Duration
}

// defaultSettings returns the settings before any option. prunes: there is a Pruner. orphans: the target is listed for
// orphans only.
func defaultSettings(prunes, orphans bool) Settings {
	s := Settings{
		// A thousand objects a round: enough to spread the cost of a write transaction, few enough
		// for statuses to appear soon. Rounds are not limited: the loop gathers changes by itself
		// while it is busy.
		RoundSize: 1000, Concurrency: 1,
		MinBackoff: 100 * time.Millisecond, MaxBackoff: time.Minute, Jitter: 0.1,
		BlockedRecheck: time.Minute, ListTimeout: 30 * time.Second,
		// Refreshing is off; at most 100 objects a second when it is turned on.
		RefreshLimiter: rate.NewLimiter(100, 1),
	}
	if prunes {
		s.PruneInterval = time.Hour
	}
	if orphans {
		s.ResyncInterval = time.Hour
	}
	return s
}

// workers reports whether operations run on goroutines of their own.
func (s *Settings) workers() bool { return s.Concurrency > 1 }

// Option changes a setting of a reconciler from its default; see [Config].Options.
type Option func(opts *options)

// WithSettings makes change modify the settings when the reconciler is made. change gets the settings
// as the defaults and the earlier options leave them. A nil change does nothing. One WithSettings
// option may be used for several reconcilers, and with [Register] too: change is called for each.
func WithSettings(change func(s *Settings)) Option {
	return func(o *options) {
		if change != nil {
			change(&o.settings)
		}
	}
}

// WithName sets the name of the reconciler within its module. It is used in metrics ("module/name"),
// in the names of its jobs ("reconcile-name", "refresh-name") and in logs. The default is no name;
// only one reconciler of a module can have none.
//
// If the rows carry no status, the tables of outcomes have this name, or else that of the table. Then
// it has to be unique in the database, and "name-outcomes" has to be a name that statedb allows: at
// most 31 characters. Otherwise [New] returns an error.
func WithName(name string) Option {
	return func(o *options) { o.name = name }
}

// WithMetrics makes the reconciler report to m. nil, the default, means [Params].DefaultMetrics, or
// if there are none, unpublished metrics of its own.
func WithMetrics(m Metrics) Option {
	return func(o *options) { o.metrics = m }
}

// WithRegistry adds the reconciler to a registry, where commands and pages find it, while it runs.
// nil, the default, means none.
func WithRegistry(r *inspect.Registry) Option {
	return func(o *options) { o.registry = r }
}

// WithOperationHook makes the reconciler call hook around each update and deletion, for example to
// start an OpenTelemetry span that the operation finds in its context. nil, the default, means no
// hook and costs nothing.
func WithOperationHook(hook OperationHook) Option {
	return func(o *options) { o.hook = hook }
}

// WithOrphanBudget bounds how many orphans one resync (see [Lister]) may delete: at most objects, and at most the
// fraction (0 to 1) of what the target has. Zero objects or a zero fraction mean no such bound; the default is neither.
//
// A resync that exceeds the budget deletes nothing, and health reports it. [Loop.ApproveResync], the
// command reconciler/approve or the button of the debug page allows it.
func WithOrphanBudget(objects int, fraction float64) Option {
	return func(o *options) { o.budget = resync.Budget{Objects: objects, Fraction: fraction} }
}
