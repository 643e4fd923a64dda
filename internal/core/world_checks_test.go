// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"github.com/stretchr/testify/require"
)

// requireSound checks everything between two rounds.
func (w *world) requireSound() {
	w.model.requireSame(w.t, w.core, w.observed)
	w.requireNothingLost()
	w.requireAttempted()
}

// requireOneOfAGroup checks that at most one object of each group is worked on.
func (w *world) requireOneOfAGroup(runs []run) {
	if !w.model.grouping {
		return
	}
	busy := map[string]string{}
	occupy := func(r row) {
		if r.group != "" {
			require.Empty(w.t, busy[r.group], "worked on beside %q in group %q", r.key, r.group)
			busy[r.group] = r.key
		}
	}
	for _, f := range w.jobs {
		occupy(f.item.Obj)
	}
	for i := range runs {
		occupy(runs[i].item.Obj)
	}
}

// requireNothingLost checks that each object that the target lacks is still to be observed, or has
// an entry.
func (w *world) requireNothingLost() {
	for key, r := range w.table {
		if w.reached[key] >= r.pendingID || !w.saw(r) || r.status == statusUnset && !r.deleted {
			continue
		}
		require.NotNil(w.t, w.core.keys.entries[key], "%q is forgotten: %+v", key, r)
	}
}

// requireAttempted checks that each change that counts as attempted has been: the rows of the
// table, and the rows of main's snapshot that it has handed over and that still ask for the same,
// by the revision since which they are unreconciled. Paused keys, and keys that are held after a
// failure, count as attempted anyway.
func (w *world) requireAttempted() {
	upTo := w.core.Index.Attempted(w.observed)
	for _, r := range w.table {
		if r.revision <= upTo {
			w.requireAttemptedOf(r)
		}
	}
	for key, r := range w.handed {
		if w.since(r) <= upTo && samePending(r, w.table[key]) {
			w.requireAttemptedOf(r)
		}
	}
}

func (w *world) requireAttemptedOf(r row) {
	if !r.asks() || w.attempted[r.key] >= r.pendingID || w.paused[r.key] {
		return
	}
	e := w.core.keys.entries[r.key]
	require.NotNil(w.t, e, "%q of %d counts as attempted, and is forgotten", r.key, r.revision)
	require.True(w.t, e.state == Held || e.state == Queued && e.from == Held,
		"%q of %d counts as attempted, and is %s", r.key, r.revision, e.state)
}
