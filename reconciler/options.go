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

// Option changes a setting of a reconciler from its default.
type Option func(opts *options)

// options are the settings, and what of a reconciler cannot be changed while it runs;
// defaultOptions says where they start.
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
		// A thousand objects a round: enough to spread the cost of a write
		// transaction, few enough to see statuses move. No limit to the rounds:
		// the loop gathers by itself while it is busy.
		Settings: Settings{
			RoundSize: 1000,

			Concurrency: 1,
			MaxStuck:    -1,

			MinBackoff: 100 * time.Millisecond,
			MaxBackoff: time.Minute,
			Jitter:     0.1,

			BlockedRecheck: time.Minute,

			// Off; at most 100 objects a second when it is turned on.
			RefreshLimiter: rate.NewLimiter(100, 1),

			// Once initialised, then every hour.
			PruneInterval: time.Hour,
		},

		// About 100 KiB a reconciler, beside the objects themselves.
		journalRounds:     128,
		journalOperations: 1024,
	}
}

// WithName names the reconciler among those of its module: in metrics
// ("module/name"), in the names of its jobs ("reconcile-name", "refresh-name") and in
// logs. The default is no name, of which a module can have one.
func WithName(name string) Option {
	return func(o *options) { o.name = name }
}

// WithMetrics makes the reconciler report to m. nil, the default, means
// [Params].DefaultMetrics, or else metrics of its own that nobody sees.
func WithMetrics(m Metrics) Option {
	return func(o *options) { o.metrics = m }
}

// WithSettings calls change with the settings, as the defaults and the options before it leave them,
// when the reconciler is made. nil changes nothing. It may be called for several reconcilers. It works
// in [Register], too.
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

// WithPruning sets the time from one prune to the next; the default is an hour. The
// first comes as soon as the table is initialised. Zero is as [WithoutPruning].
func WithPruning(interval time.Duration) Option {
	return func(o *options) { o.PruneInterval, o.pruneAsked = interval, interval > 0 }
}

// WithoutPruning leaves pruning to calls of [Reconciler].Prune.
func WithoutPruning() Option {
	return func(o *options) { o.PruneInterval, o.pruneAsked = 0, false }
}

// WithRefreshing sets the age at which the status of a Done object makes it be
// updated again, against drift in the target; zero, the default of [New] and [RegisterConfig],
// means never. That of [Register] is 30 minutes. The limiter bounds how many objects a second are
// marked for it; the default is 100, and nil means no limit. A row that others, such as a second
// reconciler of it, write more often than that may be refreshed late: rows are looked at
// in the order in which they were written. Objects are marked in batches, one when the last
// has been worked on, so that a refresh takes at most half of the reconciler's time and does
// not delay fresh changes by more than one such batch. For single operations a batch takes some
// 5 ms. For batch operations it is ever larger, up to a round, as long as a call does not take
// much longer for it.
func WithRefreshing(interval time.Duration, limiter *rate.Limiter) Option {
	return func(o *options) { o.RefreshInterval, o.RefreshLimiter = interval, limiter }
}

// WithRetry sets the wait after the first failure of an object, which doubles with
// every further one until it is maxBackoff. The defaults are 100 ms and a minute.
func WithRetry(minBackoff, maxBackoff time.Duration) Option {
	return func(o *options) { o.MinBackoff, o.MaxBackoff = minBackoff, maxBackoff }
}

// WithRoundLimits sets the largest number of objects in a round and the rate of
// rounds. Statuses are written at the end of a round (of workers, see [Settings].Concurrency,
// at the start of a later one), and batches are no larger than one: a large number makes
// for large batches, a small one for early statuses. One object in four, counted over the
// rounds, may be one that waited and is due, whatever else there is to do.
//
// The limiter bounds the rounds a second, at the price of latency. nil, the default,
// means no limit: the loop starts a round at once, and under load at most one a
// millisecond unless it is full, so that bursts still gather into batches.
func WithRoundLimits(numObjects int, limiter *rate.Limiter) Option {
	return func(o *options) { o.RoundSize, o.RoundLimiter = numObjects, limiter }
}

// WithJournal sets how many of the latest rounds and operations [Loop.Journal] can
// tell of. The defaults are 128 and 1024. Zero of either means no journal of rounds,
// or none of operations. Beside the latest operations it keeps as many of the latest that
// failed, of which the texts have at most 1 MiB: a load of successes does not push them out.
// The journal keeps the objects of all these in memory, in the versions that were applied.
func WithJournal(rounds, operations int) Option {
	return func(o *options) { o.journalRounds, o.journalOperations = rounds, operations }
}

// WithBreaker holds work back while the target is down: see [Breaker]. The default is
// none.
func WithBreaker(b Breaker) Option {
	return func(o *options) { o.breaker = &b }
}

// WithSweepBudget bounds what one sweep (see [Sweeper]) may delete: at most objects, and
// at most the fraction (0 to 1) of what the target has. A sweep that wants more deletes
// nothing, health says so, and [Loop.ApproveSweep], which the command reconciler/approve and a
// button of the page call, lets it. Zero objects and a zero
// fraction mean no such bound; the default is neither.
func WithSweepBudget(objects int, fraction float64) Option {
	return func(o *options) { o.budget = prune.Budget{Objects: objects, Fraction: fraction} }
}

// validate returns everything that is wrong with the options, each error naming the
// option and the values, or nil.
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

// WithRegistry adds the reconciler to a registry, where commands and pages find it, for as long
// as it runs. nil, the default, means none. Reconcilers of one table in a registry find out
// whether they share a status field: at the first row that it reads each sets a status on a clone,
// and calls the GetStatus of the others with that. Those that do are Degraded while both run.
func WithRegistry(r *inspect.Registry) Option {
	return func(o *options) { o.registry = r }
}

// Breaker says when a target counts as down, and what is done then: see [WithBreaker].
// When Failures different objects have failed one after another, with no success in
// between, the breaker opens: everything is held back but a few probes, so that a
// target that is down costs next to nothing, however many objects wait for it, and is not
// hit by all of them while it gets up. The first operation that succeeds closes it, and
// everything that it held, and every retry that waits for its backoff, is due at once. A
// terminal failure, also one of a deletion, which is retried, and a blocked object say nothing of
// the target. Failures are counted when a round is over, so that one more round may fail before
// the breaker opens. Zero fields mean the defaults.
type Breaker struct {
	// Failures is the number of different objects that have to fail one after another.
	// The default is 10.
	Failures int
	// Probes is how many operations are let through at a time. The default is 2.
	Probes int
	// MinInterval is the time from the breaker's opening to the first probes, which
	// doubles with every further ones that fail until it is MaxInterval. If too few
	// objects are due then, others are probed with before their backoff is over. The
	// defaults are 100 ms and a second, or what is set of the other if that leaves
	// MinInterval no larger.
	MinInterval, MaxInterval time.Duration
	// ByClass makes for a breaker for each class of errors, as [Config].ErrorClass tells
	// them apart. An open breaker then holds the objects that failed with an error of its
	// class last, and probes with some of them; new and changed objects are tried. Errors of
	// the empty class count for no breaker. False means one breaker that counts all errors and
	// holds all objects.
	ByClass bool
}

// withDefaults returns the breaker with the defaults in place of zeros.
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
