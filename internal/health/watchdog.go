// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package health

import (
	"sync"
	"time"
)

// Calls are the functions with which a watchdog reads the calls of a loop. They must be safe from any
// goroutine. Times are those of one clock, with any zero.
type Calls struct {
	Now func() time.Duration
	// Limit returns how long a call may take.
	Limit func() time.Duration
	// Busy returns the name of the current call; empty if there is none.
	Busy func() string
}

// Watchdog reports a call that the loop itself is in for too long: the loop cannot report it during
// the call. A call begins with one lock and mostly nothing else, since the timer is set only if it is
// not set already. The watchdog does not watch calls on workers: the loop does that.
type Watchdog struct {
	calls Calls
	// tell reports a call; an empty call ends the report.
	tell func(call string)

	mu sync.Mutex
	// since is when the current calls began; 0 if there are none. A sequence of quick calls may be
	// watched as one. limit is how long the calls may take.
	since, limit time.Duration
	timer        *time.Timer
	set, stopped bool
	// told: a call is reported.
	told bool
}

// Begin records that calls begin. It ends the report of an earlier call.
func (w *Watchdog) Begin(now time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.limit = max(1, now), w.calls.Limit()
	if w.told {
		w.told = false
		w.tell("")
	}
	if w.set || w.stopped {
		return
	}
	w.set = true
	if w.timer == nil {
		w.timer = time.AfterFunc(w.limit, w.check)
	} else {
		w.timer.Reset(w.limit)
	}
}

// End records that the calls have ended.
func (w *Watchdog) End() {
	w.mu.Lock()
	w.since = 0
	w.mu.Unlock()
}

// check is the function of the timer. It holds the lock while it reports, so that it reports no call
// that has ended.
func (w *Watchdog) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set = false
	if w.since == 0 || w.stopped {
		return
	}
	if rest := w.since + w.limit - w.calls.Now(); rest > 0 {
		w.set = true
		w.timer.Reset(rest)
	} else if call := w.calls.Busy(); call != "" {
		w.told = true
		w.tell(call)
	}
}

// Stop stops the watchdog. It may be called more than once.
func (w *Watchdog) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
