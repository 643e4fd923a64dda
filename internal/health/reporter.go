// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package health

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
)

// Calls are the functions with which a reporter reads the calls of a loop. They must be safe from any
// goroutine. Times are those of one clock, with any zero.
type Calls struct {
	Now func() time.Duration
	// Limit returns how long a call may take.
	Limit func() time.Duration
	// Busy returns the name of the current call; empty if there is none.
	Busy func() string
}

// Reporter reports conditions to health, and keeps the last report. It also has a timer, which reports a call
// that the loop itself is in for too long: the loop cannot report it during the call. It does not watch calls
// on workers, which the loop does. All methods belong to the loop's goroutine.
type Reporter struct {
	calls  Calls
	health cell.Health

	// mu is for the timer.
	mu   sync.Mutex
	told bool
	// over: nothing is reported any more.
	over bool
	last Condition
	// examples are the examples of the last condition, without the call.
	examples []string

	// call is the reported call that the loop is in for too long; empty if there is none.
	call string
	// since is when the current calls began; 0 if there are none. A sequence of quick calls may be
	// watched as one. limit is how long the calls may take. set: the timer is set.
	since, limit time.Duration
	timer        *time.Timer
	set          bool
}

// New returns a reporter. Call [Reporter.Start] before any other method.
func New(calls Calls) *Reporter { return &Reporter{calls: calls} }

// Start sets the health to report to.
func (r *Reporter) Start(health cell.Health) { r.health = health }

// Failing returns the number of failing objects in the last reported condition.
func (r *Reporter) Failing() int { return r.last.Failing }

// IsNews reports whether now differs from the last report.
func (r *Reporter) IsNews(now Condition) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.over && (!r.told || now.reported() != r.last || r.call != "")
}

// Tell reports a condition. It ends the report of a call.
func (r *Reporter) Tell(now Condition, details Details) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.told, r.last, r.examples = true, now.reported(), now.examples(details)
		r.say("")
	}
}

// say reports the last condition and a call; an empty call ends that report. The caller holds mu.
func (r *Reporter) say(call string) {
	r.call = call
	lines := r.examples
	if call != "" {
		lines = slices.Concat([]string{call}, lines)
	} else if !r.last.wrong() {
		r.health.OK(r.last.okMessage())
		return
	}
	r.health.Degraded(r.last.problems(call != ""), errors.New(strings.Join(lines, "\n")))
}

// Begin records that calls of the loop begin. It ends the report of an earlier call. It mostly takes only the
// lock, since the timer is set only if it is not set already.
func (r *Reporter) Begin(now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.since, r.limit = max(1, now), r.calls.Limit()
	if r.call != "" {
		r.say("")
	}
	switch {
	case r.set:
	case r.timer == nil:
		r.timer = time.AfterFunc(r.limit, r.check)
	default:
		r.timer.Reset(r.limit)
	}
	r.set = true
}

// End records that the calls have ended.
func (r *Reporter) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = 0
}

// check is the function of the timer. It holds the lock while it reports, so that it reports no call
// that has ended.
func (r *Reporter) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set = false
	if r.since == 0 || r.over {
		return
	}
	if rest := r.since + r.limit - r.calls.Now(); rest > 0 {
		r.set = true
		r.timer.Reset(rest)
	} else if call := r.calls.Busy(); call != "" {
		r.say(call)
	}
}

// TellEnd reports that the loop has ended with an error, and stops the reporter.
func (r *Reporter) TellEnd(err error) {
	r.Stop()
	r.health.Degraded("The reconciler has ended", err)
}

// Stop stops the reporter: it reports nothing any more. It may be called more than once.
func (r *Reporter) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.timer != nil {
		r.timer.Stop()
	}
}

// None returns a health that drops its reports.
func None() cell.Health {
	h, _ := cell.NewSimpleHealth()
	return h
}
