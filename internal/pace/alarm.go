// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pace

import "time"

// Alarm is a timer that is set to a time of its caller's clock. Setting it to the same time again
// costs nothing. The zero value is not set. An Alarm belongs to one goroutine.
type Alarm struct {
	timer *time.Timer
	at    time.Duration
	set   bool
}

// Set sets the alarm to the time at, and returns the channel that delivers then. now is the current
// time. Call [Alarm.Rang] after a receive.
func (a *Alarm) Set(at, now time.Duration) <-chan time.Time {
	switch {
	case a.timer == nil:
		a.timer = time.NewTimer(at - now)
	case !a.set || a.at != at:
		a.timer.Reset(at - now)
	}
	a.at, a.set = at, true
	return a.timer.C
}

// Rang records that the alarm has delivered.
func (a *Alarm) Rang() { a.set = false }

// Stop makes the alarm deliver nothing until it is set again.
func (a *Alarm) Stop() {
	if a.set {
		a.timer.Stop()
		a.set = false
	}
}
