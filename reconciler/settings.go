// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// Settings are what of a reconciler can be read and changed while it runs: see
// [Loop.Settings] and [Loop.Reconfigure]. Each field says which option sets it at the
// start; what zero means is said there.
type Settings struct {
	// RoundSize and RoundLimiter are those of [WithRoundLimits].
	RoundSize    int
	RoundLimiter *rate.Limiter
	// OperationLimiter is that of [WithOperationLimit].
	OperationLimiter *rate.Limiter

	// Concurrency is that of [WithConcurrency], MaxStuck that of [WithMaxStuck].
	Concurrency int
	MaxStuck    int
	// Timeout is that of [WithTimeout].
	Timeout time.Duration

	// MinBackoff and MaxBackoff are those of [WithRetry], Jitter that of [WithJitter],
	// MaxRetries that of [WithMaxRetries]. They hold from the next failure on.
	MinBackoff, MaxBackoff time.Duration
	Jitter                 float64
	MaxRetries             int
	// BlockedRecheck is that of [WithBlockedRecheck].
	BlockedRecheck time.Duration

	// RefreshInterval and RefreshLimiter are those of [WithRefreshing].
	RefreshInterval time.Duration
	RefreshLimiter  *rate.Limiter

	// PruneInterval is that of [WithPruning]; zero is as [WithoutPruning]. When it is
	// changed, the time to the next prune begins anew.
	PruneInterval time.Duration
}

// maxConcurrency bounds the operations in flight: each is a goroutine.
const maxConcurrency = 10_000

// validate returns everything that is wrong with the settings, each error naming the
// option and the values, or nil.
func (s *Settings) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if s.RoundSize < 1 {
		bad("WithRoundLimits: numObjects is %d, must be at least 1", s.RoundSize)
	}
	if s.MinBackoff <= 0 {
		bad("WithRetry: minBackoff is %s, must be positive", s.MinBackoff)
	}
	if s.MaxBackoff <= 0 {
		bad("WithRetry: maxBackoff is %s, must be positive", s.MaxBackoff)
	}
	if s.MinBackoff > s.MaxBackoff {
		bad("WithRetry: minBackoff %s is above maxBackoff %s", s.MinBackoff, s.MaxBackoff)
	}
	if !(s.Jitter >= 0 && s.Jitter <= 1) {
		bad("WithJitter: fraction is %v, must be between 0 and 1", s.Jitter)
	}
	if s.MaxRetries < 0 {
		bad("WithMaxRetries: n is %d, must not be negative", s.MaxRetries)
	}
	if s.Timeout < 0 {
		bad("WithTimeout: timeout is %s, must not be negative", s.Timeout)
	}
	if s.Concurrency < 1 || s.Concurrency > maxConcurrency {
		bad("WithConcurrency: n is %d, must be between 1 and %d", s.Concurrency, maxConcurrency)
	}
	if s.MaxStuck < 0 || s.MaxStuck > maxConcurrency {
		bad("WithMaxStuck: n is %d, must be between 0 and %d", s.MaxStuck, maxConcurrency)
	}
	if s.MaxStuck > 0 && s.Timeout == 0 {
		bad("WithMaxStuck: n is %d, but without WithTimeout no operation is ever left behind", s.MaxStuck)
	}
	if s.BlockedRecheck < 0 {
		bad("WithBlockedRecheck: interval is %s, must not be negative", s.BlockedRecheck)
	}
	if s.RefreshInterval < 0 {
		bad("WithRefreshing: interval is %s, must not be negative", s.RefreshInterval)
	}
	if s.PruneInterval < 0 {
		bad("WithPruning: interval is %s, must not be negative", s.PruneInterval)
	}
	limiter := func(l *rate.Limiter, option, what string) {
		if l != nil && l.Limit() != rate.Inf && l.Burst() < 1 {
			bad("%s: limiter has rate %v and burst %d, which never allows %s", option, l.Limit(), l.Burst(), what)
		}
	}
	limiter(s.RoundLimiter, "WithRoundLimits", "a round")
	limiter(s.OperationLimiter, "WithOperationLimit", "an operation")
	limiter(s.RefreshLimiter, "WithRefreshing", "a refresh")
	return errors.Join(errs...)
}

// patience returns how long a call may take before it is stuck; without a deadline, before it is
// named.
func (s *Settings) patience() time.Duration {
	if s.Timeout == 0 {
		return long
	}
	return min(s.Timeout, never/4) + min(s.Timeout, maxGrace)
}

// workers reports whether operations run on goroutines of their own.
func (s *Settings) workers() bool { return s.Concurrency > 1 || s.MaxStuck > 0 }

// configuration is what is in force between two calls of Reconfigure.
type configuration struct {
	Settings
	// refreshing ends, by endRefreshing, when those of the settings are replaced that the
	// refresher goes by.
	refreshing    context.Context
	endRefreshing context.CancelFunc
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
// at once happen one after the other. MaxStuck follows Concurrency and Timeout, as
// [WithMaxStuck] says, until it is set. What is wrong is an error that names the setting
// and the value, and then nothing changes. What is running is not interrupted: new
// settings hold from the next round on. Safe from any goroutine.
func (l *Loop[Obj]) Reconfigure(change func(s *Settings)) error {
	l.reconfiguring.Lock()
	defer l.reconfiguring.Unlock()
	was := l.settings.Load()
	s := was.Settings
	change(&s)
	maxStuckSet := l.opts.maxStuckSet || s.MaxStuck != was.MaxStuck
	if !maxStuckSet {
		s.MaxStuck = s.defaultMaxStuck()
	}
	err := s.validate()
	if s.PruneInterval > 0 && l.cfg.Pruner == nil && l.cfg.Sweeper == nil {
		err = errors.Join(err, fmt.Errorf("WithPruning: interval is %s, but nothing prunes", s.PruneInterval))
	}
	if err != nil {
		return fmt.Errorf("reconciler %q: %w", l.ID().called(), err)
	}
	l.opts.maxStuckSet = maxStuckSet
	if s.RefreshInterval == was.RefreshInterval && s.RefreshLimiter == was.RefreshLimiter {
		l.settings.Store(&configuration{s, was.refreshing, was.endRefreshing})
	} else {
		l.settings.Store(newConfiguration(s))
		was.endRefreshing()
	}
	l.calls.made.signal()
	return nil
}

// defaultMaxStuck is that of [WithMaxStuck].
func (s *Settings) defaultMaxStuck() int {
	if s.Concurrency > 1 && s.Timeout > 0 {
		return s.Concurrency
	}
	return 0
}
