// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"sync"
	"time"

	"github.com/statekeel/statekeel/internal/execute"
)

// watchdog tells health of a call that the loop itself is in for long: it cannot do so, being
// in that call. The timer is set when a call begins and it is not set already, so that calls
// which are quick cost a lock. What workers run the loop watches itself.
type watchdog struct {
	mu sync.Mutex
	// since is when the calls began that are being made, none of which takes long as a
	// rule; 0 if none is. patience is how long they may take.
	since, patience time.Duration
	timer           *time.Timer
	set, stopped    bool
	// told: health names a call.
	told bool
}

// watched is what a watchdog has to know of its loop.
type watched interface {
	now() time.Duration
	// busy names the call that is being made, empty if there is none.
	busy() string
	// tellCall tells health of a call, of none if it is empty.
	tellCall(call string)
	patience() time.Duration
}

// begin notes that calls are made from now on. If health names one that was made before, it is
// told that this is over: else that is for the report of the round.
func (w *watchdog) begin(l watched, now time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.patience = max(1, now), max(execute.Long, l.patience())
	if w.told {
		w.told = false
		l.tellCall("")
	}
	if w.set || w.stopped {
		return
	}
	w.set = true
	if w.timer == nil {
		w.timer = time.AfterFunc(w.patience, func() { w.look(l) })
	} else {
		w.timer.Reset(w.patience)
	}
}

// end notes that they are over.
func (w *watchdog) end() {
	w.mu.Lock()
	w.since = 0
	w.mu.Unlock()
}

// look is called when the time has come to see what is being called. The lock is held for the
// loop not to be told of a call that has ended.
func (w *watchdog) look(l watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set = false
	if w.since == 0 || w.stopped {
		return
	}
	if rest := w.since + w.patience - l.now(); rest > 0 {
		w.set = true
		w.timer.Reset(rest)
	} else if call := l.busy(); call != "" {
		w.told = true
		l.tellCall(call)
	}
}

// stop makes the watchdog look no more.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (l *Loop[Obj]) tellCall(call string) { l.reporter.tellCall(call) }

func (l *Loop[Obj]) patience() time.Duration { return execute.Patience(l.settings.Load().Timeout) }
