// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import "time"

// Poller is a Controller of resources of an external system. A request is to observe one of
// them, and from then on it is polled. None is ever to be created, changed or deleted.
type Poller interface {
	Controller
	// PollAfter sets what is asked at the end of each poll: after how long the resource is to
	// be polled again, zero for never. It must be called before the first is asked for; without
	// it each is observed once.
	PollAfter(after func(id uint64) time.Duration)
	// Well returns how many resources are ready and synced, and will not be polled again.
	Well() uint64
	// Written returns how many statuses were written so far.
	Written() uint64
	// Writes returns how many statuses are to be written for so many resources, if each is
	// observed so many times.
	Writes(resources, polls uint64) uint64
}

// pollAfter says when a resource is to be polled again; nil is never.
type pollAfter func(id uint64) time.Duration

// named is pollAfter of a resource by its name.
func (after pollAfter) named(name string) time.Duration {
	if after == nil {
		return 0
	}
	id, err := numberOf(name)
	if err != nil {
		return 0 // the observation has failed for that
	}
	return after(id)
}
