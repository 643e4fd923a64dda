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

// options are the settings; defaultOptions says where they start.
type options struct {
	name    string
	metrics Metrics

	roundSize    int
	roundLimiter *rate.Limiter

	minBackoff, maxBackoff time.Duration
	jitter                 float64
	timeout                time.Duration

	refreshInterval time.Duration
	refreshLimiter  *rate.Limiter

	pruneInterval time.Duration
	pruneAsked    bool

	journalRounds, journalOperations int
}

func defaultOptions() options {
	return options{
		// A thousand objects a round: enough to spread the cost of a write
		// transaction, few enough to see statuses move. No limit to the rounds:
		// the loop gathers by itself while it is busy.
		roundSize: 1000,

		minBackoff: 100 * time.Millisecond,
		maxBackoff: time.Minute,
		jitter:     0.1,

		// Every object once in half an hour, at most 100 a second.
		refreshInterval: 30 * time.Minute,
		refreshLimiter:  rate.NewLimiter(100, 1),

		// Once initialised, then every hour.
		pruneInterval: time.Hour,

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
	return func(o *options) { o.pruneInterval, o.pruneAsked = interval, interval > 0 }
}

// WithoutPruning leaves pruning to calls of [Reconciler].Prune.
func WithoutPruning() Option {
	return func(o *options) { o.pruneInterval, o.pruneAsked = 0, false }
}

// WithRefreshing sets the age at which the status of a Done object makes it be
// updated again, against drift in the target; the default is 30 minutes, and zero
// means never. The limiter bounds how many objects a second are marked for it; the
// default is 100, and nil means no limit. A row that others, such as a second
// reconciler of it, write more often than that may be refreshed late: rows are looked at
// in the order in which they were written. Objects are marked in batches, and only
// while the reconciler keeps up, so that a refresh takes at most half of its time and does
// not delay fresh changes by more than one such batch.
func WithRefreshing(interval time.Duration, limiter *rate.Limiter) Option {
	return func(o *options) { o.refreshInterval, o.refreshLimiter = interval, limiter }
}

// WithRetry sets the wait after the first failure of an object, which doubles with
// every further one until it is maxBackoff. The defaults are 100 ms and a minute.
func WithRetry(minBackoff, maxBackoff time.Duration) Option {
	return func(o *options) { o.minBackoff, o.maxBackoff = minBackoff, maxBackoff }
}

// WithJitter sets the fraction by which a wait after a failure may be shortened at
// random, so that objects which failed together do not come back together. The default
// is 0.1; zero makes retries exact. It never makes a wait longer.
func WithJitter(fraction float64) Option {
	return func(o *options) { o.jitter = fraction }
}

// WithTimeout bounds every update and deletion by a deadline on its context: a single
// call, or a whole batch; prunes have none. Zero, the default, means none. An operation that comes back with an
// error after its deadline fails with one that names the operation and the timeout.
// One that ignores its context is waited for.
func WithTimeout(timeout time.Duration) Option {
	return func(o *options) { o.timeout = timeout }
}

// WithRoundLimits sets the largest number of objects in a round and the rate of
// rounds. Statuses are written at the end of a round, and batches are no larger than
// one: a large number makes for large batches, a small one for early statuses. A
// quarter of a round, at least one object, is kept for retries that are due.
//
// The limiter bounds the rounds a second, at the price of latency. nil, the default,
// means no limit: the loop starts a round at once, and under load at most one a
// millisecond unless it is full, so that bursts still gather into batches.
func WithRoundLimits(numObjects int, limiter *rate.Limiter) Option {
	return func(o *options) { o.roundSize, o.roundLimiter = numObjects, limiter }
}

// WithJournal sets how many of the latest rounds and operations [Loop.Journal] can
// tell of. The defaults are 128 and 1024. Zero of either means no journal of rounds,
// or none of operations. The journal keeps the objects of these operations in memory,
// in the versions that were applied.
func WithJournal(rounds, operations int) Option {
	return func(o *options) { o.journalRounds, o.journalOperations = rounds, operations }
}

// validate returns everything that is wrong with the settings, each error naming the
// option and the values, or nil.
func (o *options) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if o.roundSize < 1 {
		bad("WithRoundLimits: numObjects is %d, must be at least 1", o.roundSize)
	}
	if o.minBackoff <= 0 {
		bad("WithRetry: minBackoff is %s, must be positive", o.minBackoff)
	}
	if o.maxBackoff <= 0 {
		bad("WithRetry: maxBackoff is %s, must be positive", o.maxBackoff)
	}
	if o.minBackoff > o.maxBackoff {
		bad("WithRetry: minBackoff %s is above maxBackoff %s", o.minBackoff, o.maxBackoff)
	}
	if !(o.jitter >= 0 && o.jitter <= 1) {
		bad("WithJitter: fraction is %v, must be between 0 and 1", o.jitter)
	}
	if o.timeout < 0 {
		bad("WithTimeout: timeout is %s, must not be negative", o.timeout)
	}
	if o.refreshInterval < 0 {
		bad("WithRefreshing: interval is %s, must not be negative", o.refreshInterval)
	}
	if o.pruneInterval < 0 {
		bad("WithPruning: interval is %s, must not be negative", o.pruneInterval)
	}
	if neverAllows(o.roundLimiter) {
		bad("WithRoundLimits: limiter has rate %v and burst %d, which never allows a round",
			o.roundLimiter.Limit(), o.roundLimiter.Burst())
	}
	if neverAllows(o.refreshLimiter) {
		bad("WithRefreshing: limiter has rate %v and burst %d, which never allows a refresh",
			o.refreshLimiter.Limit(), o.refreshLimiter.Burst())
	}
	if o.journalRounds < 0 || o.journalOperations < 0 {
		bad("WithJournal: %d rounds and %d operations, neither may be negative",
			o.journalRounds, o.journalOperations)
	}
	return errors.Join(errs...)
}

func neverAllows(l *rate.Limiter) bool {
	return l != nil && l.Limit() != rate.Inf && l.Burst() < 1
}
