// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prune

import "time"

const (
	// minHold is for how long work is held back at first for the operations to end. If that is
	// not enough, it is tried again with twice as much, after a pause of holdShare times as long.
	minHold   = 100 * time.Millisecond
	holdShare = 9
	// hangPause is the time after which it is tried again if an operation is stuck.
	hangPause = time.Minute
)

// drain is the wait for the operations to end. The zero value is that before there is one.
type drain struct {
	// holding: work is held back, since from and for hold.
	holding    bool
	from, hold time.Duration
	// notBefore is when to hold it back again; 0 while it is.
	notBefore time.Duration
}

// wait returns true, and ends the wait, if no operation is running. Otherwise it decides whether to
// hold work back: not for an operation that hangs, which may never end.
func (d *drain) wait(now time.Duration, idle, hangs bool) bool {
	switch {
	case idle:
		*d = drain{}
		return true
	case hangs:
		*d = drain{notBefore: now + hangPause}
	case d.holding && now >= d.from+d.hold:
		d.holding = false
		d.notBefore = now + holdShare*d.hold
	case !d.holding && now >= d.notBefore:
		d.holding, d.from, d.notBefore = true, now, 0
		d.hold = max(minHold, 2*d.hold)
	}
	return false
}

// next returns when to look again; false if there is no wait.
func (d *drain) next() (time.Duration, bool) {
	if d.holding {
		return d.from + d.hold, true
	}
	return d.notBefore, d.notBefore > 0
}
