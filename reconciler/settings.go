// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Settings are the options that can change at run time: see [WithSettings], [Loop.Settings] and
// [Loop.Reconfigure].
type Settings struct {
	// RoundSize and RoundLimiter bound the objects of a round and the rate of rounds: see
	// [WithRoundLimits].
	RoundSize    int
	RoundLimiter *rate.Limiter

	// OperationLimiter bounds the rate of updates and deletions, those of batches counted one by
	// one; prunes are not counted. Reconcilers that share a limiter are bounded together. nil, the
	// default, means no limit.
	OperationLimiter *rate.Limiter

	// Concurrency is how many operations run at a time: calls of [Operations], or batches with
	// disjoint keys. The default is 1, the most is 10,000. The operations of one object never
	// overlap, and an object that changes while an operation on it runs is reconciled again with
	// the version that it has then. Operations of several objects come in no particular order:
	// [Config].SerialBy makes some of them wait for each other.
	Concurrency int
	// Timeout bounds every update and deletion by a deadline on its context: a single call, or a
	// whole batch; prunes have none. Zero, the default, means none. An operation that returns an
	// error after its deadline fails with one that names the operation and the timeout, and is
	// [context.DeadlineExceeded]; but a [RetryAfter] or its like stands, and an operation that
	// returns nil is done. One that ignores its context is waited for, unless MaxStuck lets it be
	// left behind. Health names a call that takes a minute, or its timeout and some more if that
	// is longer, also without a timeout.
	Timeout time.Duration
	// MaxStuck is how many operations that ignore the end of their context may be left behind. One
	// that still runs some time after its deadline (as long again, a second at most) no longer
	// counts for Concurrency, so that another can run in its place. Its object waits until it
	// returns, and health names it. It needs a Timeout. Zero means that every operation is waited
	// for. Below zero, the default, means as many as Concurrency if that is above 1 and there is a
	// Timeout, else none.
	MaxStuck int

	// MinBackoff and MaxBackoff bound the wait after a failure: see [WithRetry].
	MinBackoff, MaxBackoff time.Duration
	// Jitter is the fraction by which a wait after a failure may be shortened at random, so that
	// objects which failed together do not come back together. The default is 0.1; zero makes
	// retries exact. It never makes a wait longer. All objects of one call of a batch operation
	// are shortened by the same part, so that they come back in one call.
	Jitter float64
	// MaxRetries is the number of retries after which the failure of an update is final: the object
	// is then left alone until it changes or its status is set to Pending or Refreshing, as with
	// [TerminalError], and the text of its status says so. Zero, the default, means that retries go
	// on for ever. Deletions are always retried for ever: nothing in the table would tell of one
	// that was given up.
	MaxRetries int
	// BlockedRecheck is after how long a [Blocked] object is tried again although nothing released
	// it, for watch channels that do not tell everything. The default is a minute, shortened at
	// random by Jitter; zero means never.
	BlockedRecheck time.Duration

	// RefreshInterval and RefreshLimiter turn refreshing on and bound its rate: see
	// [WithRefreshing].
	RefreshInterval time.Duration
	RefreshLimiter  *rate.Limiter

	// PruneInterval is the time between prunes: see [WithPruning]; zero is as [WithoutPruning].
	// The time to the next prune begins when it is changed.
	PruneInterval time.Duration
}

// maxConcurrency bounds the operations in flight: each is a goroutine.
const maxConcurrency = 10_000

// validate returns everything that is wrong with the settings, each error naming the field and the
// value, or nil.
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
	if s.MaxStuck > maxConcurrency {
		bad("Settings.MaxStuck is %d, must be at most %d", s.MaxStuck, maxConcurrency)
	}
	if s.MaxStuck > 0 && s.Timeout == 0 {
		bad("Settings.MaxStuck is %d, but Timeout is 0, so that no operation is ever left behind", s.MaxStuck)
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
func (s *Settings) workers() bool { return s.Concurrency > 1 || s.maxStuck() > 0 }

// configuration is what is in force between two calls of Reconfigure.
type configuration struct {
	Settings
	// refreshing ends, by endRefreshing, when those of the settings are replaced that the
	// refresher goes by.
	refreshing    context.Context
	endRefreshing context.CancelFunc
}

// settings are the settings of a loop, as the last call of [Loop.Reconfigure] left them.
type settings struct {
	atomic.Pointer[configuration]
	// changing is held by a call of Reconfigure.
	changing sync.Mutex
}

func newConfiguration(s Settings) *configuration {
	c := &configuration{Settings: s}
	c.refreshing, c.endRefreshing = context.WithCancel(context.Background())
	return c
}

// Settings returns the settings that are in force. Safe from any goroutine.
func (l *Loop[Obj]) Settings() Settings { return l.settings.Load().Settings }

func (l *Loop[Obj]) roundLimiter() *rate.Limiter { return l.settings.Load().RoundLimiter }

// Reconfigure changes settings while the reconciler runs, or before: change is handed
// the current ones and changes what it wants; it must not call Reconfigure. Several calls
// at once happen one after the other. What is wrong is an error that names the setting and
// the value, and then nothing changes. What is running is not interrupted: new
// settings hold from the next round on. Safe from any goroutine.
func (l *Loop[Obj]) Reconfigure(change func(s *Settings)) error {
	l.settings.changing.Lock()
	defer l.settings.changing.Unlock()
	was := l.settings.Load()
	s := was.Settings
	change(&s)
	err := s.validate()
	if s.PruneInterval > 0 && l.cfg.Pruner == nil && l.cfg.Sweeper == nil {
		err = errors.Join(err, fmt.Errorf("Settings.PruneInterval is %s, but nothing prunes", s.PruneInterval))
	}
	if err != nil {
		return fmt.Errorf("reconciler %q: %w", called(l.ID()), err)
	}
	if s.RefreshInterval == was.RefreshInterval && s.RefreshLimiter == was.RefreshLimiter {
		l.settings.Store(&configuration{s, was.refreshing, was.endRefreshing})
	} else {
		l.settings.Store(newConfiguration(s))
		was.endRefreshing()
	}
	l.calls.made.Send()
	return nil
}

// maxStuck returns how many operations may be left behind.
func (s *Settings) maxStuck() int {
	switch {
	case s.MaxStuck >= 0:
		return s.MaxStuck
	case s.Concurrency > 1 && s.Timeout > 0:
		return s.Concurrency
	}
	return 0
}
