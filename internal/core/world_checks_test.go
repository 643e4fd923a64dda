// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"github.com/stretchr/testify/require"
)

// requireSound checks everything between two rounds.
func (w *world) requireSound() {
	check(w.t, w.core)
	w.model.requireSame(w.t, w.core, w.observed)
	w.requireNothingLost()
	w.requireAttempted()
	w.requireProbesKnown()
}

// requireOneOfAGroup checks that of no group two objects are worked on at a time.
func (w *world) requireOneOfAGroup(items []Item[row]) {
	if !w.model.grouping {
		return
	}
	busy := map[string]string{}
	occupy := func(r row) {
		if r.group != "" {
			require.Empty(w.t, busy[r.group], "%q is worked on beside it in group %q", r.key, r.group)
			busy[r.group] = r.key
		}
	}
	for _, f := range w.jobs {
		occupy(f.item.Obj)
	}
	for i := range items {
		occupy(items[i].Obj)
	}
}

// requireProbesKnown checks that a breaker that waits for probes has some under way: one
// that waits for what never comes would stay open for ever.
func (w *world) requireProbesKnown() {
	if b := w.core.global(); b != nil {
		flying := 0
		for _, f := range w.jobs {
			if f.item.probe == b.opening {
				flying++
			}
		}
		require.Equal(w.t, flying, b.probesRunning, "probes under way")
	}
	for _, b := range w.core.open {
		if b.class == allErrors || b.probesRunning == 0 {
			continue
		}
		// Each of them is worked on, or has its turn as soon as others have had theirs.
		for _, e := range w.core.entries {
			if e.breaker == b && e.probedOpening == b.opening {
				require.True(w.t, e.state == InFlight || e.state == Queued || e.pos >= 0 && e.dueAt <= w.now,
					"%q in state %s is to be a probe", e.key, e.state)
			}
		}
	}
}

// requireNothingLost checks that whatever the program wants and the target does not
// have yet is on its way: still to be observed, or with the core.
func (w *world) requireNothingLost() {
	for key, r := range w.table {
		if w.reached[key] >= r.pendingID || !w.saw(r.revision) || r.status == statusUnset && !r.deleted {
			continue
		}
		require.NotNil(w.t, w.core.entries[key], "%q is forgotten: %+v", key, r)
	}
}

// requireAttempted checks that what counts as attempted has been: every wish that stands in
// the table; and every one that stood in the snapshot that main reads, as far as main has come,
// and still stands, from the revision on that somebody waits for. What is paused, or held since
// its key failed, counts all the same.
func (w *world) requireAttempted() {
	upTo := w.core.Attempted(w.observed)
	for _, r := range w.table {
		if r.revision <= upTo {
			w.requireAttemptedOf(r)
		}
	}
	for key, r := range w.snapshot {
		if r.revision <= w.observed && w.since(r) <= upTo && samePending(r, w.table[key]) {
			w.requireAttemptedOf(r)
		}
	}
}

func (w *world) requireAttemptedOf(r row) {
	if !r.asks() || w.attempted[r.key] >= r.pendingID || w.paused[r.key] {
		return
	}
	e := w.core.entries[r.key]
	require.NotNil(w.t, e, "%q of %d counts as attempted, and is forgotten", r.key, r.revision)
	require.True(w.t, e.state == Held || e.state == Queued && e.from == Held,
		"%q of %d counts as attempted, and is %s", r.key, r.revision, e.state)
}
