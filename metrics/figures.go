// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics

import (
	"time"

	"github.com/cilium/hive/cell"
)

// Figures are the counters of one reconciler since it was made, and its state at the end of its
// last round. Their size does not depend on the number of objects.
type Figures struct {
	// Updates and Deletes are the figures of the operations.
	Updates, Deletes OperationFigures
	// Retries counts operations on objects whose last attempt had failed.
	Retries uint64
	// Released counts blocked objects whose watch channel closed.
	Released uint64
	// Refreshes counts the operations with the cause refresh or repair.
	Refreshes uint64
	// Latency is the time in seconds from the write of a change (its status was set to Pending)
	// until its outcome was committed. A deletion counts from when the reconciler read it.
	Latency Histogram
	// InForce is the time in seconds from the change at the beginning of a chain, in the first table, until what follows
	// from it was applied, for each object of a reconciler whose table is derived; it is empty for others. What was
	// derived together counts from its oldest change. What was applied before, and is applied again after a refresh has
	// failed, does not count, nor what is applied over 256 to 512 rounds of the derivation later, nor the time for which the
	// first derivation was paused.
	InForce Histogram

	// Panics counts calls of operations that panicked, Timeouts objects whose operation returned an
	// ordinary error after its deadline.
	Panics, Timeouts uint64
	// BreakerOpenings counts how often the breaker opened.
	BreakerOpenings uint64

	// Rounds is the duration of rounds, in seconds, including the commit. CommitSizes is the number
	// of statuses in a commit, CommitDurations its duration in seconds, including the wait for the
	// table.
	Rounds, CommitSizes, CommitDurations Histogram
	// Lost counts outcomes that were not written because the object had changed or was deleted.
	// Conflicts counts outcomes that were written onto an object that another reconciler had
	// written meanwhile.
	Lost, Conflicts uint64

	// Prunes is the duration of prunes and resyncs in seconds, including failed ones and those that await approval, but
	// not the first listing of a loop that adopts; PruneErrors counts these two. Listed counts all listed objects.
	Prunes      Histogram
	PruneErrors uint64
	Listed      uint64

	// Adopted counts objects that the target had already, when the reconciler started or after a failure, so that no
	// operation was called. Different, Missing and Orphans add up what resyncs found of applied rows: the first listing of a
	// reconciler that adopts, with which rows are compared before they are applied, does not count. Repairs counts the
	// operations on different and missing objects.
	Adopted                     uint64
	Different, Missing, Orphans uint64
	Repairs                     uint64

	// Unset counts changes of rows without a status, which are left alone.
	Unset uint64

	// Calls counts the calls of the function of a derivation for changes of each of its inputs, with the name of the
	// table as the state; none for a derivation with one input. Edges is the number of look-ups that it remembers, and
	// EdgesToAll the number of those that are of a whole table.
	Calls             []StateCount
	Edges, EdgesToAll int

	// Objects is the number of rows of the table.
	Objects int
	// States is the number of objects in each state, always with the same states in the same order.
	// Objects that the loop does not track, such as reconciled ones, are in none.
	States []StateCount
	// Unseen is the approximate number of changes that were not read yet, without the reconciler's
	// own writes.
	Unseen int
	// Failing and Blocked count objects whose last attempt failed or was blocked, also while they
	// are attempted again. Unheld counts those of the failing ones whose repairs work and do not hold.
	Failing, Blocked, Unheld int
	// BreakersOpen is 1 while the breaker is open, and 0 otherwise. Stuck counts the calls of operations that are stuck on workers.
	BreakersOpen, Stuck int
	// Paused is true if the whole reconciler is paused.
	Paused bool
	// OldestUnapplied is when the oldest change that is not applied was written; zero if everything
	// is applied.
	OldestUnapplied time.Time
}

// UnappliedFor returns the age at now of the oldest change that is not applied; 0 if everything is
// applied, or if the change is in the future because a clock was set.
func (f *Figures) UnappliedFor(now time.Time) time.Duration {
	if f.OldestUnapplied.IsZero() {
		return 0
	}
	return max(now.Sub(f.OldestUnapplied), 0)
}

// OperationFigures are the figures of one kind of operation.
type OperationFigures struct {
	// Done, Failed, Terminal, Blocked and Requeued count objects by the outcome of their operation.
	Done, Failed, Terminal, Blocked, Requeued uint64
	// Durations is the duration of calls in seconds; a call is for one object or for a batch.
	Durations Histogram
}

// StateCount is the number of objects in one state.
type StateCount struct {
	// State is the name of the state in lower case: "retry", "in flight".
	State string `json:"state"`
	Count int    `json:"count"`
}

// Source provides figures; a reconciler is one. Figures may be called at any time from any
// goroutine, does not wait for operations, and returns a copy.
type Source interface {
	Figures() Figures
}

// Attacher is a [Metrics] that reads figures on demand, such as at a scrape, in addition to the
// calls of the Metrics methods. Implementing it is optional.
type Attacher interface {
	// Attach is called when a reconciler starts, from any goroutine. The Attacher keeps the source,
	// which is never nil, and replaces a source with the same module and name. The reconciler calls
	// detach once, from any goroutine, when it has stopped: the Attacher drops the source unless
	// another has replaced it. detach must not be nil.
	Attach(moduleID cell.FullModuleID, name string, source Source) (detach func())
}

// Attach attaches a reconciler's figures to m if m is an [Attacher], until detach is called. detach
// is never nil.
func Attach(m Metrics, moduleID cell.FullModuleID, name string, source Source) (detach func()) {
	if a, ok := m.(Attacher); ok {
		return a.Attach(moduleID, name, source)
	}
	return func() {}
}

// Join returns a [Metrics] that calls all of ms in their order, for example expvar and Prometheus.
// It uses their [Binder] and [Attacher] methods; nil values are ignored.
func Join(ms ...Metrics) Metrics {
	var joined joined
	for _, m := range ms {
		if m != nil {
			joined = append(joined, m)
		}
	}
	return joined
}
