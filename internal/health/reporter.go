// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package health

import (
	"errors"
	"sync"

	"github.com/cilium/hive/cell"
)

// Reporter remembers what health has been told, by the loop and by its watchdog. [Reporter.News] and
// [Reporter.Tell] belong to the goroutine of the loop.
type Reporter struct {
	// Watchdog names the call that the loop is in.
	Watchdog
	health cell.Health

	mu   sync.Mutex
	told bool
	// over: the loop has ended with an error, and nothing else is told.
	over bool
	last Condition
	// call is the one that the loop itself has been in for long; empty if there is none.
	call string
	// examples are those of the last condition, without the call.
	examples error
}

// New returns a reporter whose watchdog watches some calls.
func New(calls Calls) *Reporter {
	r := &Reporter{}
	r.Watchdog = Watchdog{calls: calls, tell: r.tellCall}
	return r
}

// Start says which health is told. It is called before anything else.
func (r *Reporter) Start(health cell.Health) { r.health = health }

// Failing returns how many objects fail in the last condition.
func (r *Reporter) Failing() int { return r.last.Failing }

// News reports whether health does not know of a condition yet.
func (r *Reporter) News(now Condition) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.over && (!r.told || now.told() != r.last || r.call != "")
}

// Tell tells health of a condition. A call that was named is over.
func (r *Reporter) Tell(now Condition, details Details) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.told, r.last, r.call = true, now.told(), ""
	r.examples = now.examples(details)
	r.say(r.examples)
}

// tellCall tells health of a call that the loop has been in for long, beside what it has been
// told; of none if the call is empty.
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

// say tells health of the last condition and call. It is called with the lock.
func (r *Reporter) say(examples error) {
	if r.call == "" && !r.last.Wrong() {
		r.health.OK(r.last.fine())
		return
	}
	r.health.Degraded(r.last.problems(r.call != ""), examples)
}

// Ended tells health that the loop has ended with an error. It is the last that health is told.
func (r *Reporter) Ended(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.health.Degraded("The reconciler has ended", err)
}

// None is a health that tells nothing.
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
