// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics

import (
	"time"

	"github.com/cilium/hive/cell"
)

// Figures are what one reconciler has counted since it was made, and how it stands at the
// end of its last round. None grows with the number of objects.
type Figures struct {
	// Updates and Deletes are the operations.
	Updates, Deletes OperationFigures
	// Retries counts the operations on an object that had failed the time before.
	Retries uint64
	// Released counts objects that were blocked and of which what they waited for
	// happened.
	Released uint64
	// Refreshes counts the changes that were marked for a refresh.
	Refreshes uint64
	// Latency has the seconds from when a change was written (its status was set to
	// Pending) until it was applied and that was committed. A deletion counts from when
	// the reconciler saw it.
	Latency Histogram

	// Panics counts calls of operations that panicked, Timeouts objects whose operation came
	// back with an error after its deadline, and LeftBehind calls that ignored it and were
	// not waited for any more.
	Panics, Timeouts, LeftBehind uint64
	// BreakerOpenings counts how often a breaker opened.
	BreakerOpenings uint64

	// Rounds has the seconds that each round took until it was committed. CommitSizes has the number of
	// statuses of each commit, CommitDurations the seconds that it took, waiting for the
	// table included.
	Rounds, CommitSizes, CommitDurations Histogram
	// Lost counts outcomes that were not written, since the object had changed or was
	// deleted; Conflicts those that were written onto an object that another reconciler
	// had written meanwhile.
	Lost, Conflicts uint64

	// Prunes has the seconds that each prune or sweep took, failed ones included;
	// PruneErrors counts these. Listed counts the objects that sweeps were told of, Swept
	// those of which they began the deletion.
	Prunes        Histogram
	PruneErrors   uint64
	Listed, Swept uint64

	// Unset counts changes of rows without a status, which were left alone.
	Unset uint64

	// Objects is the number of rows of the table.
	Objects int
	// States has the number of objects in each state that a reconciler tells apart,
	// always the same states in the same order; objects that are reconciled, or whose
	// change it has not looked at, are in none.
	States []StateCount
	// Unseen is about how many changes it has not looked at yet, its own writes left out.
	Unseen int
	// Failing and Blocked count objects whose last attempt failed, or was blocked, also
	// while they are attempted again.
	Failing, Blocked int
	// BreakersOpen and Stuck count the breakers that are open and the operations that
	// were left behind and are still running.
	BreakersOpen, Stuck int
	// Paused: the reconciler is, as a whole.
	Paused bool
	// OldestUnapplied is when the oldest change was written that is not applied; zero
	// if all are.
	OldestUnapplied time.Time
}

// UnappliedFor returns how long before now the oldest change was written that is not
// applied: 0 if all are, or if a clock has put it into the future.
func (f *Figures) UnappliedFor(now time.Time) time.Duration {
	if f.OldestUnapplied.IsZero() {
		return 0
	}
	return max(now.Sub(f.OldestUnapplied), 0)
}

// OperationFigures are those of one kind of operation.
type OperationFigures struct {
	// Done, Failed, Terminal, Blocked and Requeued count objects by what their operation
	// came back with.
	Done, Failed, Terminal, Blocked, Requeued uint64
	// Durations has the seconds that each call took: that for one object, or for a batch.
	Durations Histogram
}

// StateCount is a number of objects in one state.
type StateCount struct {
	// State is the state's name in lower case: "retry", "in flight".
	State string `json:"state"`
	Count int    `json:"count"`
}

// Source is who has figures: a reconciler. Figures may be called at any time from any
// goroutine, does not wait for operations, and returns a copy.
type Source interface {
	Figures() Figures
}

// Attacher is a [Metrics] that reads figures when it wants them, as when it is scraped,
// beside what it is told. Others need not implement it.
type Attacher interface {
	// Attach is called when a reconciler starts, from any goroutine, and keeps the source,
	// which is never nil. One that is attached under the names of another takes its place.
	// The reconciler calls detach once, from any goroutine, when it has stopped: the source
	// is let go, unless another has its place. detach is not nil.
	Attach(moduleID cell.FullModuleID, name string, source Source) (detach func())
}

// Attach hands a reconciler's figures to m if that is an [Attacher], until detach is called. It
// is never nil.
func Attach(m Metrics, moduleID cell.FullModuleID, name string, source Source) (detach func()) {
	if a, ok := m.(Attacher); ok {
		return a.Attach(moduleID, name, source)
	}
	return func() {}
}

// Join returns a [Metrics] that tells all of ms, in their order: expvar and Prometheus,
// say. Those that are a [Binder] or an [Attacher] are used as such; nil is left out.
func Join(ms ...Metrics) Metrics {
	var joined joined
	for _, m := range ms {
		if m != nil {
			joined = append(joined, m)
		}
	}
	return joined
}
