// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// Option changes a setting of a reconciler from its default.
type Option func(opts *options)

// options are the settings, and what of a reconciler cannot be changed while it runs;
// defaultOptions says where they start.
type options struct {
	Settings

	name    string
	metrics Metrics

	pruneAsked  bool
	maxStuckSet bool
	panics      bool
	breaker     *Breaker
	hook        OperationHook
	registry    *Registry
	budget      sweepBudget

	// serialBy and merge are functions of the type of the objects, which options do
	// not know; nil if not set.
	serialBy, merge any

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

			MinBackoff: 100 * time.Millisecond,
			MaxBackoff: time.Minute,
			Jitter:     0.1,

			BlockedRecheck: time.Minute,

			// Every object once in half an hour, at most 100 a second.
			RefreshInterval: 30 * time.Minute,
			RefreshLimiter:  rate.NewLimiter(100, 1),

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
// updated again, against drift in the target; the default is 30 minutes, and zero
// means never. The limiter bounds how many objects a second are marked for it; the
// default is 100, and nil means no limit. A row that others, such as a second
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

// WithJitter sets the fraction by which a wait after a failure may be shortened at
// random, so that objects which failed together do not come back together. The default
// is 0.1; zero makes retries exact. It never makes a wait longer. All objects of one call
// of a batch operation are shortened by the same part, so that they come back in one call.
func WithJitter(fraction float64) Option {
	return func(o *options) { o.Jitter = fraction }
}

// WithTimeout bounds every update and deletion by a deadline on its context: a single
// call, or a whole batch; prunes have none. Zero, the default, means none. An operation
// that comes back with an error after its deadline fails with one that names the
// operation and the timeout, and is [context.DeadlineExceeded]; but what it said with
// [RetryAfter] or its like stands, and one that comes back without an error is done. One that
// ignores its context is waited for, unless [WithMaxStuck] lets it be left behind. A call that takes a minute, or its timeout and some
// more if that is longer, is named in health, also without a timeout.
func WithTimeout(timeout time.Duration) Option {
	return func(o *options) { o.Timeout = timeout }
}

// WithRoundLimits sets the largest number of objects in a round and the rate of
// rounds. Statuses are written at the end of a round (of workers, see [WithConcurrency],
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

// WithOperationLimit bounds the rate of updates and deletions, those of batches counted
// one by one; prunes are not counted. A limiter may be shared between reconcilers, and
// then bounds them together. nil, the default, means no limit.
func WithOperationLimit(limiter *rate.Limiter) Option {
	return func(o *options) { o.OperationLimiter = limiter }
}

// WithConcurrency runs up to n operations at a time: calls of [Operations], or batches
// with disjoint keys. The default is 1. The operations of one object never overlap, and
// one that changes while an operation on it runs is run again with the version that it
// has then. Operations of several objects come in no particular order.
func WithConcurrency(n int) Option {
	return func(o *options) { o.Concurrency = n }
}

// WithSerialBy makes objects of one group, such as the routes of one device, be worked
// on one at a time, in the order in which their turns come, whatever [WithConcurrency]
// says. The group is what groupOf returns; objects of the empty group are not held up by
// each other. While a group is busy those of its objects whose turn has come wait in
// memory. A batch holds at most one object of a group. The type of groupOf's argument
// has to be that of the table's objects.
func WithSerialBy[Obj any](groupOf func(obj Obj) string) Option {
	return func(o *options) { o.serialBy = groupOf }
}

// WithMaxStuck lets up to n operations that ignore the end of their context be left
// behind: one that is still running some time after its deadline (see [WithTimeout]; as
// long again, a second at most) no longer counts for [WithConcurrency], so that
// another can run in its place. Its object waits until it comes back, and health names
// it. Zero means that every operation is waited for. The default is zero with one worker
// or without a timeout, and else as many as there are workers at the start.
func WithMaxStuck(n int) Option {
	return func(o *options) { o.MaxStuck, o.maxStuckSet = n, true }
}

// WithMaxRetries makes the failure of an update final after n retries: the object is
// then left alone until it changes or its status is set to Pending or Refreshing, as with
// [TerminalError], and the text of its status says so. Zero, the default, means that retries go on for ever.
// Deletions are always retried for ever: nothing in the table would tell of one that was
// given up.
func WithMaxRetries(n int) Option {
	return func(o *options) { o.MaxRetries = n }
}

// WithBlockedRecheck sets after how long a [Blocked] object is tried again although
// nothing released it, for watch channels that do not tell everything. The default is
// a minute, shortened at random by the fraction of [WithJitter]; zero means never.
func WithBlockedRecheck(interval time.Duration) Option {
	return func(o *options) { o.BlockedRecheck = interval }
}

// WithPanicPropagation lets a panic of an operation end the program, for those who
// would rather have the crash. By default it is an error of the object, with the stack
// in the log.
func WithPanicPropagation() Option {
	return func(o *options) { o.panics = true }
}

// WithMerge says how to keep what an operation set on its object when another
// reconciler has written the object meanwhile: merge is handed a clone of the row as it
// stands in the table and the object as the operation left it, copies onto the first
// what the operation is there to set, and returns it. Status fields are nobody's to
// copy. Without it the operation's changes are lost in that case, though not its status.
// The type has to be that of the table's objects.
func WithMerge[Obj any](merge func(current, reconciled Obj) Obj) Option {
	return func(o *options) { o.merge = merge }
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
	return func(o *options) { o.budget = sweepBudget{objects, fraction} }
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
	if o.budget.objects < 0 || !(o.budget.fraction >= 0 && o.budget.fraction <= 1) {
		bad("WithSweepBudget: %d objects and fraction %v, must not be negative, and the fraction at most 1",
			o.budget.objects, o.budget.fraction)
	}
	if o.breaker != nil {
		errs = append(errs, o.breaker.validate())
	}
	return errors.Join(errs...)
}
