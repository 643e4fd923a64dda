// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/prune"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Option changes a setting of a reconciler from its default; see [Config].Options.
type Option func(opts *options)

// options are the settings and what cannot change while the reconciler runs. defaultOptions has the
// defaults.
type options struct {
	Settings

	name    string
	metrics Metrics

	pruneAsked bool
	breaker    *Breaker
	hook       OperationHook
	registry   *inspect.Registry
	budget     prune.Budget

	journalRounds, journalOperations int
}

func defaultOptions() options {
	return options{
		// A thousand objects a round: enough to spread the cost of a write transaction, few enough
		// for statuses to appear soon. Rounds are not limited: the loop gathers changes by itself
		// while it is busy.
		Settings: Settings{
			RoundSize: 1000,

			Concurrency: 1,

			MinBackoff: 100 * time.Millisecond,
			MaxBackoff: time.Minute,
			Jitter:     0.1,

			BlockedRecheck: time.Minute,

			// Refreshing is off; at most 100 objects a second when it is turned on.
			RefreshLimiter: rate.NewLimiter(100, 1),

			// When the table is initialised, then every hour.
			PruneInterval: time.Hour,
		},

		// About 100 KiB for each reconciler, without the objects themselves.
		journalRounds:     128,
		journalOperations: 1024,
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

// WithSettings makes change modify the settings when the reconciler is made. change gets the settings
// as the defaults and the earlier options leave them. A nil change does nothing. One WithSettings
// option may be used for several reconcilers, and with [Register] too: change is called for each.
func WithSettings(change func(s *Settings)) Option {
	return func(o *options) {
		if change == nil {
			return
		}
		was := o.PruneInterval
		change(&o.Settings)
		o.pruneAsked = o.PruneInterval > 0 && (o.pruneAsked || o.PruneInterval != was)
	}
}

// WithPruning sets [Settings].PruneInterval, the time from one prune to the next. The default is an
// hour. The first prune runs as soon as the table is initialised. Zero is the same as
// [WithoutPruning].
func WithPruning(interval time.Duration) Option {
	return func(o *options) { o.PruneInterval, o.pruneAsked = interval, interval > 0 }
}

// WithoutPruning turns periodic pruning off: prunes run only after calls of [Reconciler].Prune.
func WithoutPruning() Option {
	return func(o *options) { o.PruneInterval, o.pruneAsked = 0, false }
}

// WithRefreshing sets [Settings].RefreshInterval and RefreshLimiter. An object that is Done is
// updated again when its status is older than interval, to repair drift in the target. The default of
// [New] and [RegisterConfig] is zero, which means never; the default of [Register] is 30 minutes. The
// limiter bounds the objects that are refreshed; the default is 100 a second, and nil means no limit.
//
// Objects that are not Done are not refreshed. Failed ones are retried instead, except after a
// [TerminalError] or [Settings].MaxRetries.
//
// Rows are checked in the order in which they were written. A row that another writer, such as a
// second reconciler, writes more often than interval may be refreshed late.
//
// If the rows carry no status, all rows are refreshed in turn, spread over the interval, so that each
// is applied at least once in two intervals, if the limiter allows it. Nothing is written for that, and
// the status stays Done.
//
// Objects are refreshed in batches. The next batch comes when the last has been worked on, so that a
// refresh takes at most half of the reconciler's time, and delays fresh changes by at most one batch.
// For single operations a batch takes about 5 ms. For batch operations it grows up to a round, as
// long as larger calls do not take much longer.
func WithRefreshing(interval time.Duration, limiter *rate.Limiter) Option {
	return func(o *options) { o.RefreshInterval, o.RefreshLimiter = interval, limiter }
}

// WithRetry sets [Settings].MinBackoff and MaxBackoff: the delay after the first failure of an
// object, which doubles with every further failure, and its maximum. The defaults are 100 ms and a
// minute. Both must be positive.
func WithRetry(minBackoff, maxBackoff time.Duration) Option {
	return func(o *options) { o.MinBackoff, o.MaxBackoff = minBackoff, maxBackoff }
}

// WithRoundLimits sets [Settings].RoundSize and RoundLimiter: the largest number of objects in a
// round, and the rate of rounds.
//
// The default of numObjects is 1000; it must be at least 1. Statuses are written at the end of a
// round, or with workers (see [Settings].Concurrency) at the start of a later one. A batch is no
// larger than a round. So a large number allows large batches, and a small one gives early statuses.
// However many changes there are, one object in four, counted over several rounds, may be one that
// waited and is due, such as a retry.
//
// The limiter bounds the rounds per second, at the price of latency. nil, the default, means no limit:
// the loop starts a round at once. Under load it starts the next round a millisecond after a round
// that was not full began, so that bursts are gathered into batches.
func WithRoundLimits(numObjects int, limiter *rate.Limiter) Option {
	return func(o *options) { o.RoundSize, o.RoundLimiter = numObjects, limiter }
}

// WithJournal sets how many of the latest rounds and operations the journal keeps: see [Loop.Journal]
// and [Loop.Events]. The defaults are 128 and 1024. An operation is kept no longer than its round,
// except failures: zero rounds mean no journal, zero operations a journal of rounds only. Negative
// numbers are an error.
//
// In addition to the latest operations the journal keeps the same number of the latest failures, with
// at most 1 MiB of error texts, so that many successes do not push failures out. It keeps the objects
// of all these operations in memory, in the versions that were applied.
func WithJournal(rounds, operations int) Option {
	return func(o *options) { o.journalRounds, o.journalOperations = rounds, operations }
}

// WithBreaker holds work back while the target is down: see [Breaker]. The default is no breaker.
func WithBreaker(b Breaker) Option {
	return func(o *options) { o.breaker = &b }
}

// WithSweepBudget bounds how much one sweep (see [Sweeper]) may delete: at most objects, and at most
// the fraction (0 to 1) of what the target has. Zero objects or a zero fraction mean no such bound;
// the default is neither.
//
// A sweep that exceeds the budget deletes nothing, and health reports it. [Loop.ApproveSweep], the
// command reconciler/approve or the button of the debug page allows it.
func WithSweepBudget(objects int, fraction float64) Option {
	return func(o *options) { o.budget = prune.Budget{Objects: objects, Fraction: fraction} }
}

// validate returns everything that is wrong with the options, or nil. Each error names the option and
// the values.
func (o *options) validate() error {
	errs := []error{o.Settings.validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if o.journalRounds < 0 || o.journalOperations < 0 {
		bad("WithJournal: %d rounds and %d operations, neither may be negative",
			o.journalRounds, o.journalOperations)
	}
	if o.budget.Objects < 0 || !(o.budget.Fraction >= 0 && o.budget.Fraction <= 1) {
		bad("WithSweepBudget: %d objects and fraction %v, must not be negative, and the fraction at most 1",
			o.budget.Objects, o.budget.Fraction)
	}
	if o.breaker != nil {
		errs = append(errs, o.breaker.validate())
	}
	return errors.Join(errs...)
}

// WithRegistry adds the reconciler to a registry, where commands and pages find it, while it runs.
// nil, the default, means none.
func WithRegistry(r *inspect.Registry) Option {
	return func(o *options) { o.registry = r }
}

// Breaker configures when a target counts as down, and what happens then: see [WithBreaker].
//
// The breaker opens when Failures different objects have failed one after another, with no success in
// between. While it is open, everything is held back, except a few probes. So a target that is down
// costs next to nothing, however many objects wait for it, and it does not get all of them at once
// when it recovers. The first operation that succeeds closes the breaker. Then everything that it
// held, and every retry that waits for its backoff, is due at once.
//
// A terminal failure and a blocked object do not count, because they are not caused by the target;
// this includes a terminal failure of a deletion, which is retried. Failures are counted at the end
// of a round, so one more round may fail before the breaker opens.
//
// Zero fields mean the defaults; negative ones are an error.
type Breaker struct {
	// Failures is the number of different objects that have to fail one after another. The default is
	// 10.
	Failures int
	// Probes is the number of operations that are let through at a time. The default is 2.
	Probes int
	// MinInterval is the time from the opening of the breaker to the first probes. It doubles with
	// every failed group of probes, up to MaxInterval. If too few objects are due for a probe, others
	// are used before their backoff is over.
	//
	// The defaults are 100 ms and a second. If only one of the two is set, the default of the other
	// is adapted so that MinInterval is not above MaxInterval.
	MinInterval, MaxInterval time.Duration
	// ByClass makes a breaker for each class of errors (see [Config].ErrorClass). An open breaker
	// then holds the objects whose last failure was of its class, and probes with some of them; new
	// and changed objects are tried. Errors of the empty class count for no breaker. False means one
	// breaker, which counts all errors and holds all objects.
	ByClass bool
}

// withDefaults returns the breaker with defaults for fields that are zero.
func (b Breaker) withDefaults() Breaker {
	if b.Failures == 0 {
		b.Failures = 10
	}
	if b.Probes == 0 {
		b.Probes = 2
	}
	if b.MinInterval == 0 {
		b.MinInterval = 100 * time.Millisecond
		if b.MaxInterval > 0 {
			b.MinInterval = min(b.MinInterval, b.MaxInterval)
		}
	}
	if b.MaxInterval == 0 {
		b.MaxInterval = max(time.Second, b.MinInterval)
	}
	return b
}

func (b Breaker) validate() error {
	var errs []error
	if b.Failures < 0 {
		errs = append(errs, fmt.Errorf("WithBreaker: Failures is %d, must not be negative", b.Failures))
	}
	if b.Probes < 0 {
		errs = append(errs, fmt.Errorf("WithBreaker: Probes is %d, must not be negative", b.Probes))
	}
	if b.MinInterval < 0 || b.MaxInterval < 0 {
		errs = append(errs, fmt.Errorf("WithBreaker: MinInterval is %s and MaxInterval is %s, neither may be negative", b.MinInterval, b.MaxInterval))
	} else if b := b.withDefaults(); b.MinInterval > b.MaxInterval {
		errs = append(errs, fmt.Errorf("WithBreaker: MinInterval %s is above MaxInterval %s", b.MinInterval, b.MaxInterval))
	}
	return errors.Join(errs...)
}
