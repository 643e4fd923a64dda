// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prune

import "time"

const (
	// minHold is how long work is held back the first time. If operations are still running then,
	// it is tried again for twice as long, after a pause of holdShare times as long.
	minHold   = 100 * time.Millisecond
	holdShare = 9
	// hangPause is the pause before the next try if an operation is stuck.
	hangPause = time.Minute
)

// drain is the wait for running operations to end. The zero value is no wait.
type drain struct {
	// holding: work is held back, since from and for the time hold.
	holding    bool
	from, hold time.Duration
	// notBefore is when work may be held back again; 0 if it is or always may be.
	notBefore time.Duration
}

// wait returns true, and ends the wait, if no operation is running (idle). Otherwise it decides
// whether to hold work back. It does not while an operation is stuck (hangs), which may never end.
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

// next returns when to call wait again; false if there is no wait.
func (d *drain) next() (time.Duration, bool) {
	if d.holding {
		return d.from + d.hold, true
	}
	return d.notBefore, d.notBefore > 0
}
