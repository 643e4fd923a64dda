// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package health

import (
	"sync"
	"time"
)

// Calls is what a watchdog asks about the calls of a loop. Times are those of one clock, from any
// zero.
type Calls struct {
	Now func() time.Duration
	// Patience returns how long a call may take.
	Patience func() time.Duration
	// Busy names the call that is being made, empty if there is none.
	Busy func() string
}

// Watchdog tells health of a call that the loop itself is in for long: it cannot do so, being
// in that call. The timer is set when a call begins and it is not set already, so that calls
// which are quick cost a lock. What workers run the loop watches itself.
type Watchdog struct {
	calls Calls
	// tell tells health of a call, of none if it is empty.
	tell func(call string)

	mu sync.Mutex
	// since is when the calls began that are being made, none of which takes long as a
	// rule; 0 if none is. patience is how long they may take.
	since, patience time.Duration
	timer           *time.Timer
	set, stopped    bool
	// told: health names a call.
	told bool
}

// Begin notes that calls are made from now on. If health names one that was made before, it is
// told that this is over: else that is for the report of the round.
func (w *Watchdog) Begin(now time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.patience = max(1, now), w.calls.Patience()
	if w.told {
		w.told = false
		w.tell("")
	}
	if w.set || w.stopped {
		return
	}
	w.set = true
	if w.timer == nil {
		w.timer = time.AfterFunc(w.patience, w.look)
	} else {
		w.timer.Reset(w.patience)
	}
}

// End notes that they are over.
func (w *Watchdog) End() {
	w.mu.Lock()
	w.since = 0
	w.mu.Unlock()
}

// look is called when the time has come to see what is being called. The lock is held for the
// loop not to be told of a call that has ended.
func (w *Watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set = false
	if w.since == 0 || w.stopped {
		return
	}
	if rest := w.since + w.patience - w.calls.Now(); rest > 0 {
		w.set = true
		w.timer.Reset(rest)
	} else if call := w.calls.Busy(); call != "" {
		w.told = true
		w.tell(call)
	}
}

// Stop makes the watchdog look no more.
func (w *Watchdog) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
