// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package metrics

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/cilium/hive/cell"
)

// Attach adds a variable to [ExpVar.FiguresVar] until detach is called, and replaces one with the
// same module and name. Its value is a JSON object that is made from the source at each read: the
// numbers of [Figures] with names in snake case; "states", an object with a number for each state;
// "oldest_unapplied_seconds", an age, 0 if everything is applied; and each histogram as an object
// with "count", "sum", "p50" and "p99" (the last two at most 9 % too high). It is safe for
// concurrent use.
//
// The values in the other maps stay after the reconciler has stopped.
func (m *ExpVar) Attach(moduleID cell.FullModuleID, name string, source Source) (detach func()) {
	key, v := key(moduleID, name), &figuresVar{source}
	attaching.Lock()
	defer attaching.Unlock()
	m.FiguresVar.Set(key, v)
	return func() {
		attaching.Lock()
		defer attaching.Unlock()
		if m.FiguresVar.Get(key) == v {
			m.FiguresVar.Delete(key)
		}
	}
}

// attaching protects a successor's variable from being removed by a reconciler that stops. Several
// ExpVars can share a map.
var attaching sync.Mutex

// figuresVar is the variable with the figures of one reconciler.
type figuresVar struct{ source Source }

// String returns the figures as JSON.
func (v *figuresVar) String() string {
	figures := v.source.Figures()
	text, _ := json.Marshal(shownFigures(&figures, time.Now())) // an error leaves it empty, as in expvar
	return string(text)
}

// shown is the JSON form of Figures. The order of the fields is the order in the text.
type shown struct {
	Objects         int            `json:"objects"`
	States          map[string]int `json:"states"`
	Unseen          int            `json:"unseen"`
	Failing         int            `json:"failing"`
	Blocked         int            `json:"blocked"`
	Unheld          int            `json:"unheld"`
	BreakersOpen    int            `json:"breakers_open"`
	Stuck           int            `json:"stuck"`
	Paused          bool           `json:"paused"`
	OldestUnapplied float64        `json:"oldest_unapplied_seconds"`
	WriteToApplied  shownHistogram `json:"write_to_applied_seconds"`
	InForce         shownHistogram `json:"in_force_seconds"`

	Updates         shownOperation `json:"updates"`
	Deletes         shownOperation `json:"deletes"`
	Retries         uint64         `json:"retries"`
	Released        uint64         `json:"released"`
	Refreshes       uint64         `json:"refreshes"`
	Panics          uint64         `json:"panics"`
	Timeouts        uint64         `json:"timeouts"`
	BreakerOpenings uint64         `json:"breaker_openings"`

	RoundDuration   shownHistogram `json:"round_duration_seconds"`
	CommitSize      shownHistogram `json:"commit_size"`
	CommitDuration  shownHistogram `json:"commit_duration_seconds"`
	CommitLost      uint64         `json:"commit_lost"`
	CommitConflicts uint64         `json:"commit_conflicts"`

	PruneDuration shownHistogram `json:"prune_duration_seconds"`
	PruneErrors   uint64         `json:"prune_errors"`
	Listed        uint64         `json:"listed"`
	Adopted       uint64         `json:"adopted"`
	Different     uint64         `json:"different"`
	Missing       uint64         `json:"missing"`
	Orphans       uint64         `json:"orphans"`
	Repairs       uint64         `json:"repairs"`
	Unset         uint64         `json:"unset"`

	Calls      map[string]int `json:"calls,omitempty"`
	Edges      int            `json:"edges,omitempty"`
	EdgesToAll int            `json:"edges_to_all,omitempty"`
}

type shownOperation struct {
	Done     uint64         `json:"done"`
	Failed   uint64         `json:"failed"`
	Terminal uint64         `json:"terminal"`
	Blocked  uint64         `json:"blocked"`
	Requeued uint64         `json:"requeued"`
	Duration shownHistogram `json:"duration_seconds"`
}

type shownHistogram struct {
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
}

func shownFigures(f *Figures, now time.Time) shown {
	counts := func(of []StateCount) map[string]int {
		named := make(map[string]int, len(of))
		for _, one := range of {
			named[one.State] = one.Count
		}
		return named
	}
	return shown{
		Objects:         f.Objects,
		States:          counts(f.States),
		Unseen:          f.Unseen,
		Failing:         f.Failing,
		Blocked:         f.Blocked,
		Unheld:          f.Unheld,
		BreakersOpen:    f.BreakersOpen,
		Stuck:           f.Stuck,
		Paused:          f.Paused,
		OldestUnapplied: f.UnappliedFor(now).Seconds(),
		WriteToApplied:  shownValues(&f.Latency),
		InForce:         shownValues(&f.InForce),

		Updates:         shownResults(&f.Updates),
		Deletes:         shownResults(&f.Deletes),
		Retries:         f.Retries,
		Released:        f.Released,
		Refreshes:       f.Refreshes,
		Panics:          f.Panics,
		Timeouts:        f.Timeouts,
		BreakerOpenings: f.BreakerOpenings,

		RoundDuration:   shownValues(&f.Rounds),
		CommitSize:      shownValues(&f.CommitSizes),
		CommitDuration:  shownValues(&f.CommitDurations),
		CommitLost:      f.Lost,
		CommitConflicts: f.Conflicts,

		PruneDuration: shownValues(&f.Prunes),
		PruneErrors:   f.PruneErrors,
		Listed:        f.Listed,
		Adopted:       f.Adopted,
		Different:     f.Different,
		Missing:       f.Missing,
		Orphans:       f.Orphans,
		Repairs:       f.Repairs,
		Unset:         f.Unset,

		Calls:      counts(f.Calls),
		Edges:      f.Edges,
		EdgesToAll: f.EdgesToAll,
	}
}

func shownResults(o *OperationFigures) shownOperation {
	return shownOperation{
		Done:     o.Done,
		Failed:   o.Failed,
		Terminal: o.Terminal,
		Blocked:  o.Blocked,
		Requeued: o.Requeued,
		Duration: shownValues(&o.Durations),
	}
}

func shownValues(h *Histogram) shownHistogram {
	return shownHistogram{Count: h.Count, Sum: h.Sum, P50: h.Quantile(0.5), P99: h.Quantile(0.99)}
}
