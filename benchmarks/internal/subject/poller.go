// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import "time"

// Poller is a Controller of resources of an external system. A request is to observe one of
// them, and from then on it is polled. None is ever to be created, changed or deleted.
type Poller interface {
	Controller
	// PollWhile makes a resource be polled again for as long as more says so, which is asked
	// at the end of each poll. It must be called before the first is asked for; without it each
	// is observed once.
	PollWhile(more func(id uint64) bool)
	// Well returns how many resources are ready and synced, and will not be polled again.
	Well() uint64
	// Written returns how many statuses were written so far.
	Written() uint64
	// Writes returns how many statuses are to be written for so many resources, if each is
	// observed so many times.
	Writes(resources, polls uint64) uint64
}

// pollInterval is as short as can be: each resource is due again at once, and comes after all
// that are due already.
const pollInterval = time.Nanosecond

// pollWhile says when a resource is to be polled again.
type pollWhile struct{ more func(id uint64) bool }

// next returns interval for as long as there is to be another poll, and zero for never.
func (p pollWhile) next(name string, interval time.Duration) time.Duration {
	if p.more == nil {
		return 0
	}
	// A name that is no number was reported by the target.
	if id, err := numberOf(name); err != nil || !p.more(id) {
		return 0
	}
	return interval
}
