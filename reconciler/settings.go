// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Settings are the options that can change at run time: see [WithSettings], [Loop.Settings] and
// [Loop.Reconfigure].
//
// These options of github.com/cilium/statedb/reconciler set the following fields:
//
//   - [WithRoundLimits]: RoundSize and RoundLimiter
//   - [WithRetry]: MinBackoff and MaxBackoff
//   - [WithRefreshing]: RefreshInterval and RefreshLimiter
//   - [WithPruning] and [WithoutPruning]: PruneInterval
//
// The constructors and Reconfigure return an error for values that are out of range: negative numbers
// and durations; a limiter with a burst of 0, unless its limit is [rate.Inf]; and what the fields say.
type Settings struct {
	// RoundSize is the largest number of objects in a round, at least 1; the default is 1000.
	// RoundLimiter bounds the rounds per second; nil, the default, means no limit. See
	// [WithRoundLimits].
	RoundSize    int
	RoundLimiter *rate.Limiter

	// OperationLimiter bounds the updates and deletions per second. Each object of a batch counts;
	// prunes do not. Reconcilers that share a limiter are bounded together. nil, the default, means
	// no limit.
	OperationLimiter *rate.Limiter

	// Concurrency is the number of operations that may run at the same time: calls of [Operations],
	// or batches without a common key. The default is 1, the maximum 10,000; zero is an error.
	//
	// The operations of one object never overlap. An object that changes while its operation runs is
	// reconciled again, with its version at that time. Operations of different objects run in no
	// particular order; [Config].SerialBy makes those of a group wait for each other.
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
	// and a minute. See [WithRetry].
	MinBackoff, MaxBackoff time.Duration
	// Jitter is the fraction, 0 to 1, by which a delay after a failure may be shortened at random, so
	// that objects which failed together are not retried together. It never makes a delay longer. The
	// default is 0.1; zero makes retries exact. All objects of one call of a batch operation are
	// shortened by the same fraction, so that they are retried in one call.
	Jitter float64
	// MaxRetries is the number of retries after which the failure of an update is final, as with
	// [TerminalError]: the object is left alone until it changes, its status is set to Pending or
	// Refreshing, [Loop.Retry] or [Loop.Reapply] is called, or a reconciler starts again. The text of the status says so. Zero,
	// the default, means no limit. Deletions are always retried without limit, because no row would
	// show that one was given up.
	MaxRetries int
	// BlockedRecheck is the time after which a [Blocked] object is tried again although none of its
	// channels closed, for channels that do not report everything. It is shortened at random by
	// Jitter. The default is a minute; zero means never.
	BlockedRecheck time.Duration

	// RefreshInterval is the age of a Done status at which the object is updated again. Zero, the
	// default of [New] and [RegisterConfig], means never; the default of [Register] is 30 minutes.
	// RefreshLimiter bounds the refreshes per second; the default is 100, and nil means no limit. See
	// [WithRefreshing].
	RefreshInterval time.Duration
	RefreshLimiter  *rate.Limiter

	// PruneInterval is the time between two prunes or sweeps; the default is an hour, and zero means
	// only after calls of [Reconciler].Prune. A new value restarts that time, unless a failed prune
	// waits for its retry. It is an error to set it if nothing prunes: see [Config].Pruner. See
	// [WithPruning].
	PruneInterval time.Duration
}

// maxConcurrency bounds the operations in flight, because each uses a goroutine.
const maxConcurrency = 10_000

// validate returns everything that is wrong with the settings, or nil. Each error names the field and
// the value.
func (s *Settings) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if s.RoundSize < 1 {
		bad("Settings.RoundSize is %d, must be at least 1", s.RoundSize)
	}
	if s.MinBackoff <= 0 {
		bad("Settings.MinBackoff is %s, must be positive", s.MinBackoff)
	}
	if s.MaxBackoff <= 0 {
		bad("Settings.MaxBackoff is %s, must be positive", s.MaxBackoff)
	}
	if s.MinBackoff > s.MaxBackoff {
		bad("Settings.MinBackoff is %s, above MaxBackoff, which is %s", s.MinBackoff, s.MaxBackoff)
	}
	if !(s.Jitter >= 0 && s.Jitter <= 1) {
		bad("Settings.Jitter is %v, must be between 0 and 1", s.Jitter)
	}
	if s.MaxRetries < 0 {
		bad("Settings.MaxRetries is %d, must not be negative", s.MaxRetries)
	}
	if s.Timeout < 0 {
		bad("Settings.Timeout is %s, must not be negative", s.Timeout)
	}
	if s.Concurrency < 1 || s.Concurrency > maxConcurrency {
		bad("Settings.Concurrency is %d, must be between 1 and %d", s.Concurrency, maxConcurrency)
	}
	if s.BlockedRecheck < 0 {
		bad("Settings.BlockedRecheck is %s, must not be negative", s.BlockedRecheck)
	}
	if s.RefreshInterval < 0 {
		bad("Settings.RefreshInterval is %s, must not be negative", s.RefreshInterval)
	}
	if s.PruneInterval < 0 {
		bad("Settings.PruneInterval is %s, must not be negative", s.PruneInterval)
	}
	limiter := func(l *rate.Limiter, field, what string) {
		if l != nil && l.Limit() != rate.Inf && l.Burst() < 1 {
			bad("Settings.%s has rate %v and burst %d, which never allows %s", field, l.Limit(), l.Burst(), what)
		}
	}
	limiter(s.RoundLimiter, "RoundLimiter", "a round")
	limiter(s.OperationLimiter, "OperationLimiter", "an operation")
	limiter(s.RefreshLimiter, "RefreshLimiter", "a refresh")
	return errors.Join(errs...)
}

// workers reports whether operations run on goroutines of their own.
func (s *Settings) workers() bool { return s.Concurrency > 1 }

// settings holds the current settings of a loop.
type settings struct {
	atomic.Pointer[Settings]
	// changing is held during a call of Reconfigure.
	changing sync.Mutex
}

// Settings returns the current settings. Safe from any goroutine.
func (l *Loop[Obj]) Settings() Settings { return *l.settings.Load() }

func (l *Loop[Obj]) roundLimiter() *rate.Limiter { return l.settings.Load().RoundLimiter }

// Reconfigure changes settings before the reconciler runs or while it does. It calls change with a
// copy of the current settings; change modifies the copy, and must not call Reconfigure. Concurrent
// calls happen one after the other.
//
// If the result is invalid, nothing changes; the error names each setting that is wrong and its
// value. New settings apply from the next round on. Running operations are not interrupted. Safe from
// any goroutine.
func (l *Loop[Obj]) Reconfigure(change func(s *Settings)) error {
	l.settings.changing.Lock()
	defer l.settings.changing.Unlock()
	s := l.Settings()
	change(&s)
	err := s.validate()
	if s.PruneInterval > 0 && l.cfg.Pruner == nil && l.cfg.Sweeper == nil {
		err = errors.Join(err, fmt.Errorf("Settings.PruneInterval is %s, but nothing prunes", s.PruneInterval))
	}
	if err != nil {
		return fmt.Errorf("reconciler %q: %w", called(l.ID()), err)
	}
	l.settings.Store(&s)
	l.calls.made.Send()
	return nil
}
