// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// The indexes of the core are derived from the facts of its entries: the heaps unreconciled and untried,
// the counters, and the list of entries whose record may have changed. This file has the rules. The
// queue of a state is in entry.go, because the order in a queue is that in which entries come.

// indexed is what the indexes have of an entry.
type indexed struct {
	// since and untried are the revisions under which the entry is in the heaps
	// unreconciled and untried; 0 means not in the heap. unreconciledPos and untriedPos are its positions.
	since, untried uint64
	// revision and text are those that the record had when the entry was last indexed.
	revision                    uint64
	text                        *string
	unreconciledPos, untriedPos int32
	result                      result
	// The entry is counted in Core.deletions, and in Core.refreshesInFlight. recorded: it is in
	// the second of the heaps untried.
	deleted, refreshes, recorded bool
}

// unreconciledSince returns the revision since which a key is not reconciled; 0 if it is reconciled. If
// only the later change of a key in flight is not, that counts.
func (c *Core[Obj]) unreconciledSince(e *entry[Obj]) uint64 {
	if n, noted := c.laterOf(e); noted && e.since == 0 {
		return n.since
	}
	return e.since
}

// untriedSince returns the revision since which the change of a key is not attempted; 0 if it counts as
// attempted. A change that has not been attempted counts as such while it waits for its turn or is in
// flight, but not while it is held or paused, or is about to be replaced by a deletion.
func (c *Core[Obj]) untriedSince(e *entry[Obj]) uint64 {
	if n, noted := c.laterOf(e); noted && (e.since == 0 || e.tried) {
		return n.since
	}
	turn := e.state
	if turn == Planned || turn == Queued {
		turn = e.from
	}
	if !e.tried && (turn == Ready || turn == InFlight) {
		return e.since
	}
	return 0
}

// latestRevision returns the revision of the latest change of a key that was observed.
func (c *Core[Obj]) latestRevision(e *entry[Obj]) uint64 {
	if n, noted := c.laterOf(e); noted {
		return n.item.Revision
	}
	return e.revision
}

// refreshes reports whether a refresh of the key is in flight, and may end.
func (e *entry[Obj]) refreshes() bool { return e.state == InFlight && e.lane == Refresh && !e.stuck }

// reindex brings all indexes up to date with the facts of an entry. If these have not changed, it costs
// some comparisons.
func (c *Core[Obj]) reindex(e *entry[Obj]) {
	if since := c.unreconciledSince(e); since != e.indexed.since {
		if e.indexed.since > 0 {
			c.unreconciled.Remove(unreconciledEntry[Obj]{e})
		}
		if since > 0 {
			c.unreconciled.Push(unreconciledEntry[Obj]{e}, int64(since))
			c.newestSince = max(c.newestSince, since)
		}
		e.indexed.since = since
	}
	recorded := e.recorded != NotRecorded
	if since := c.untriedSince(e); since != e.indexed.untried || recorded != e.indexed.recorded {
		if e.indexed.untried > 0 {
			c.untriedHeap(e.indexed.recorded).Remove(untriedEntry[Obj]{e})
		}
		if since > 0 {
			c.untriedHeap(recorded).Push(untriedEntry[Obj]{e}, int64(since))
		}
		e.indexed.untried, e.indexed.recorded = since, recorded
	}
	count(&c.deletions, &e.indexed.deleted, e.deleted)
	count(&c.refreshesInFlight, &e.indexed.refreshes, e.refreshes())
	news := !sameText(e.text, e.indexed.text)
	if e.result != e.indexed.result || news {
		if e.result == hasFailed || e.indexed.result == hasFailed {
			c.version++
		}
		c.results[e.indexed.result]--
		c.results[e.result]++
	}
	revision := c.latestRevision(e)
	if c.records && !e.touched {
		kind := c.recordKind(e)
		if kind != e.recorded || recorded && (news || revision != e.indexed.revision) {
			e.touched = true
			c.touched = append(c.touched, e)
		}
	}
	e.indexed.result, e.indexed.text, e.indexed.revision = e.result, e.text, revision
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
