// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package health

import (
	"sync"
	"time"
)

// Calls are functions that tell a watchdog about the calls of a loop. Times are those of one clock,
// with any zero.
type Calls struct {
	Now func() time.Duration
	// Limit returns how long a call may take.
	Limit func() time.Duration
	// Busy names the current call; empty if there is none.
	Busy func() string
}

// Watchdog reports a call that the loop itself has been in for too long: the loop cannot, while it
// is in that call. The timer is set when a call begins, unless it is set already, so that a quick
// call costs one lock. The loop itself watches the calls of workers.
type Watchdog struct {
	calls Calls
	// tell reports a call; an empty one ends the report.
	tell func(call string)

	mu sync.Mutex
	// since is when the current calls began, each of which is expected to be quick; 0 if there are
	// none. limit is how long they may take.
	since, limit time.Duration
	timer        *time.Timer
	set, stopped bool
	// told: a call is reported.
	told bool
}

// Begin notes that calls begin. It ends the report of an earlier call.
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

// End notes that the calls are over.
func (w *Watchdog) End() {
	w.mu.Lock()
	w.since = 0
	w.mu.Unlock()
}

// check is called by the timer. It holds the lock while it reports, so that no call is reported
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

// Stop ends the watchdog. It may be called again.
func (w *Watchdog) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
