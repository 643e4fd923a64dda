// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// The indexes of the core are derived from the facts of its entries: the heaps unreconciled and untried,
// the counters, and the list of entries whose record may have changed. This file has the rules. The
// queue of a state is in entry.go, because the order in a queue is that in which entries come.

// indexed is what the indexes, and the ledger, have of an entry.
type indexed struct {
	// since and untried are the revisions under which the entry is in the heaps unreconciled and untried;
	// 0 means not in the heap. unreconciledPos and untriedPos are its positions, and untriedIn is the
	// heap of Core.untried. The other fields are facts of the entry when it was last indexed.
	since, untried              uint64
	revision                    uint64
	text                        *string
	unreconciledPos, untriedPos int32
	untriedIn                   uint8
	result                      result
	deleted, refreshes          bool
	// recorded is the kind of the record that the ledger has. touched: the entry is in Core.touched.
	recorded Recorded
	touched  bool
}

// unreconciled returns the version that says since when a key is not reconciled: the one that runs, or the
// newest if the key was reconciled when that began to run. Its since is 0 if the key is reconciled.
func (e *entry[Obj]) unreconciled() *rowVersion[Obj] {
	if e.runs != nil && e.runs.since > 0 {
		return e.runs
	}
	return &e.rowVersion
}

// untriedSince returns the revision since which the change of a key is not attempted; 0 if it counts as
// attempted. A change that has not been attempted counts as such while it waits for its turn or is in
// flight, but not while it is held or paused, or is about to be replaced by a deletion.
func (e *entry[Obj]) untriedSince() uint64 {
	if e.runs != nil && e.runs.since > 0 && !e.runs.tried {
		return e.runs.since
	}
	turn := e.state
	if turn == Taken || turn == Queued {
		turn = e.from
	}
	if !e.tried && (turn == Ready || turn == InFlight) && (!e.paused || e.runsNewest()) {
		return e.since
	}
	return 0
}

// refreshes reports whether a refresh of the key is in flight.
func (e *entry[Obj]) refreshes() bool {
	return e.state == InFlight && e.running().lane == Refresh
}

// reindex brings all indexes up to date with the facts of an entry. If these have not changed, it costs
// some comparisons.
func (c *Core[Obj]) reindex(e *entry[Obj]) {
	has := &e.indexed
	if since := e.unreconciled().since; since != has.since {
		if has.since > 0 {
			c.unreconciled.Remove(unreconciledEntry[Obj]{e})
		}
		if since > 0 {
			c.unreconciled.Push(unreconciledEntry[Obj]{e}, int64(since))
			c.newestSince = max(c.newestSince, since)
		}
		has.since = since
	}
	if since, in := e.untriedSince(), e.untriedHeap(); since != has.untried || in != has.untriedIn {
		if has.untried > 0 {
			c.untried[has.untriedIn].Remove(untriedEntry[Obj]{e})
		}
		if since > 0 {
			c.untried[in].Push(untriedEntry[Obj]{e}, int64(since))
		}
		has.untried, has.untriedIn = since, in
	}
	count(&c.deletions, &has.deleted, e.deleted)
	count(&c.refreshesInFlight, &has.refreshes, e.refreshes())
	news := !sameText(e.text, has.text)
	if e.result != has.result || news {
		if e.result == hasFailed || has.result == hasFailed {
			c.version++
		}
		c.results[has.result]--
		c.results[e.result]++
	}
	if c.records && !has.touched {
		kind := e.recordKind()
		if kind != has.recorded || kind != NotRecorded && (news || e.revision != has.revision) {
			has.touched = true
			c.touched = append(c.touched, e)
		}
	}
	has.result, has.text, has.revision = e.result, e.text, e.revision
}

// count counts in n whether something is so; was is whether it was counted before.
func count(n *int, was *bool, is bool) {
	switch {
	case is && !*was:
		*n++
	case *was && !is:
		*n--
	}
	*was = is
}

// sameText reports whether two texts are equal. They are often the same string.
func sameText(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
