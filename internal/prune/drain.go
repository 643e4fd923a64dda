// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prune

import "time"

const (
	// minHold is how long work is held back the first time. If operations are still running then,
	// work goes on for holdShare times as long. Then it is held back again, for twice as long as
	// before.
	minHold   = 100 * time.Millisecond
	holdShare = 9
	// hangPause is the pause before work may be held back again if an operation is stuck.
	hangPause = time.Minute
)

// drain waits for running operations to end, so that a prune can begin. The zero value does not
// wait.
type drain struct {
	// holding: work is held back. hold is for how long it was the last time.
	holding bool
	hold    time.Duration
	// until is when that changes; 0 for now.
	until time.Duration
}

// wait returns true and ends the wait if no operation is running (idle). Otherwise it decides
// whether to hold work back. It does not while an operation is stuck (hangs), which may never end.
func (d *drain) wait(now time.Duration, idle, hangs bool) bool {
	switch {
	case idle:
		*d = drain{}
		return true
	case hangs:
		*d = drain{until: now + hangPause}
	case now < d.until:
	case d.holding:
		d.holding, d.until = false, now+holdShare*d.hold
	default:
		d.hold = max(minHold, 2*d.hold)
		d.holding, d.until = true, now+d.hold
	}
	return false
}

// next returns when to call wait again; false if there is no wait.
func (d *drain) next() (time.Duration, bool) { return d.until, d.until > 0 }
