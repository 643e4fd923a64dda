// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

// laterChange is a change that was observed while an operation on its key ran.
type laterChange[Obj any] struct {
	item Item[Obj]
	// since is the revision of the first version that asked for the same.
	since uint64
	// settled: the row asks for no operation. unset: the row has no status. again: the row has not
	// changed, see [Core.Again].
	settled, unset, again bool
}

// keepLater stores the latest change of a key that is in flight. If the key was reconciled, it is
// unreconciled since that change. If the change in flight has been attempted before, the later one
// counts as not attempted. An older change that is observed afterwards may lower the since of the
// stored one.
func (c *Core[Obj]) keepLater(e *entry[Obj], n laterChange[Obj]) {
	old, noted := c.later[e]
	n.since = n.item.since
	switch {
	case !noted:
	case n.item.Revision <= old.item.Revision:
		if n.settled || old.settled || n.since >= old.since {
			return
		}
		old.since = n.since
		n = old
	case !n.settled && !old.settled && c.same(&old.item, &n.item):
		n.since = min(n.since, old.since)
	}
	c.later[e] = n
	if !n.settled {
		c.lowerSince(e, n.since)
		if c.untriedSince(e) < n.item.Revision {
			c.recordAtOnce(e)
		}
	}
	c.reindex(e)
}

// laterOf returns the change that was observed while an operation on the key of an entry ran, if that
// change asks for an operation.
func (c *Core[Obj]) laterOf(e *entry[Obj]) (n laterChange[Obj], noted bool) {
	if e.state != InFlight {
		return n, false
	}
	n, noted = c.later[e]
	return n, noted && !n.settled && !n.again
}

// same reports whether a change asks for the same as an older one.
func (c *Core[Obj]) same(older, newer *Item[Obj]) bool {
	return c.samePending != nil && !older.Deleted && !newer.Deleted && c.samePending(older.Obj, newer.Obj)
}
