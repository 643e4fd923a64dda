// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package health

import (
	"errors"
	"sync"

	"github.com/cilium/hive/cell"
)

// Reporter reports conditions to health, and keeps the last report. [Reporter.IsNews] and
// [Reporter.Tell] belong to the loop's goroutine.
type Reporter struct {
	// Watchdog reports a call that the loop is in for too long.
	Watchdog
	health cell.Health

	mu   sync.Mutex
	told bool
	// over: the end of the loop was reported. Nothing is reported after that.
	over bool
	last Condition
	// call is the reported call that the loop is in for too long; empty if there is none.
	call string
	// examples are the examples of the last condition, without the call.
	examples error
}

// New returns a reporter with a watchdog for calls. Call [Reporter.Start] before any other method.
func New(calls Calls) *Reporter {
	r := &Reporter{}
	r.Watchdog = Watchdog{calls: calls, tell: r.tellCall}
	return r
}

// Start sets the health to report to.
func (r *Reporter) Start(health cell.Health) { r.health = health }

// Failing returns the number of failing objects in the last reported condition. It belongs to the
// loop's goroutine.
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
	if r.over {
		return
	}
	r.told, r.last, r.call = true, now.reported(), ""
	r.examples = now.examples(details)
	r.say(r.examples)
}

// tellCall reports a call that the loop is in for too long, with the last condition. An empty call
// ends that report. The watchdog calls it.
func (r *Reporter) tellCall(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || call == r.call {
		return
	}
	r.call = call
	examples := r.examples
	if call != "" {
		examples = errors.Join(errors.New(call), examples)
	}
	r.say(examples)
}

// say reports the last condition and the call. The caller holds mu.
func (r *Reporter) say(examples error) {
	if r.call == "" && !r.last.wrong() {
		r.health.OK(r.last.okMessage())
		return
	}
	r.health.Degraded(r.last.problems(r.call != ""), examples)
}

// TellEnd reports that the loop has ended with an error. Nothing is reported after it.
func (r *Reporter) TellEnd(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.health.Degraded("The reconciler has ended", err)
}

// None is a health that ignores all reports.
type None struct{}

// OK implements [cell.Health].
func (None) OK(string) {}

// Stopped implements [cell.Health].
func (None) Stopped(string) {}

// Degraded implements [cell.Health].
func (None) Degraded(string, error) {}

// NewScope implements [cell.Health].
func (None) NewScope(string) cell.Health { return None{} }

// Close implements [cell.Health].
func (None) Close() {}
