// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/observe"
)

// newObserver returns the observer of the loop's table. The core has been made.
func (l *Loop[Obj]) newObserver() *observe.Observer[Obj] {
	return observe.New(observe.Config[Obj]{
		Rows: l.rows, Core: l.core, Waits: &l.progress,
		Hooks: observe.Hooks[Obj]{
			FirstRow: l.findSharers,
			FirstUnset: func(row Obj, revision statedb.Revision) {
				l.log.Warn("object has no status and is left alone; set it to Pending for it to be reconciled (said once)",
					"table", l.rows.Table.Name(), "key", l.rows.Key(row), "revision", revision)
			},
			Deletion: l.pruner.NoteDeletion,
			Forgotten: func(obj Obj) {
				l.unblock(obj)
				l.keyWaits.NoteChange(obj)
			},
		},
	})
}

// followUp begins a catch-up cursor if there is need for one.
func (l *Loop[Obj]) followUp(now time.Duration) {
	target := observe.Target{Workers: 1, Least: l.set.leastTime()}
	if l.pooled {
		target.Workers = l.set.Concurrency
	}
	if err := l.observer.UpdateCatchUp(now, target); err != nil {
		l.log.Error("cannot observe the table a second time; what is new waits for what is old", "error", err)
	}
}

// leastTime returns the time that the limiters leave for an object, zero if they do not limit.
func (s *Settings) leastTime() (least time.Duration) {
	if l := s.OperationLimiter; l != nil && l.Limit() > 0 {
		least = inSeconds(1 / float64(l.Limit()))
	}
	if l := s.RoundLimiter; l != nil && l.Limit() > 0 {
		least = max(least, inSeconds(1/float64(l.Limit())/float64(s.RoundSize)))
	}
	return least
}
