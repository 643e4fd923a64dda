// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package controllers

import "time"

// Poller is a Controller of resources of an external system. A request asks to observe a resource, which is
// polled from then on. No resource needs to be created, changed or deleted.
type Poller interface {
	Controller
	// PollAfter sets the function that is called at the end of each poll, and returns the time until the
	// next poll of the resource, zero for never. Call it before the first request; without it each resource
	// is observed once.
	PollAfter(after func(id uint64) time.Duration)
	// Well returns the number of resources that are ready and synced and will not be polled again.
	Well() uint64
	// Written returns the number of statuses written so far.
	Written() uint64
	// Writes returns the number of status writes to expect for a number of resources and of observations of
	// each.
	Writes(resources, polls uint64) uint64
}

// pollAfter returns the time until the next poll of a resource; nil is never.
type pollAfter func(id uint64) time.Duration

// named is pollAfter for the name of a resource.
func (after pollAfter) named(name string) time.Duration {
	if after == nil {
		return 0
	}
	id, err := numberOf(name)
	if err != nil {
		return 0 // the observation has already failed for this name
	}
	return after(id)
}
