// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"slices"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/core"
)

// known is what the loop knows about an object.
type known[Obj any] struct {
	// info is nil if the loop has no entry for the key.
	info *core.KeyInfo[Obj]
	// seen: the rows carry no status, and the loop has read this version of the row.
	seen bool
}

// known returns what the loop knows about a key, and about a version of its row; the revision is 0 if there
// is none. It counts up to limit of the keys ahead.
func (b *answers[Obj]) known(key index.Key, row Obj, revision statedb.Revision, limit int) (k known[Obj]) {
	if info, has := b.r.core.KeyInfo(string(key), limit); has {
		k.info = &info
	}
	o := b.r.observer
	k.seen = revision > 0 && b.r.beside && (revision <= o.Revision() || o.Applied(row, revision))
	return k
}

// sight returns what the table and the loop know about the object that a text names.
func (b *answers[Obj]) sight(text string) sight[Obj] {
	s := b.r.view.glance(text, func(key index.Key) bool {
		_, has := b.r.core.KeyInfo(string(key), 0)
		return has
	})
	s.known = b.known(s.key, s.row, s.revision, maxAhead)
	s.paused = s.found && b.r.isPaused(s.row)
	return s
}

// deletions is a part of the deletions that are not carried out.
type deletions[Obj any] struct {
	// list is in the order of the places. It has one more than the page, if there is one.
	list []*deletion[Obj]
	// last is the highest place that was read. more: keys with higher places are not reconciled.
	last place
	more bool
}

// deletion is a deletion that is not carried out, and what the core knows about its key.
type deletion[Obj any] struct {
	place
	info core.KeyInfo[Obj]
}

// deletions returns the deletions after a place, and one more than limit at most.
func (b *answers[Obj]) deletions(after place, limit int) deletions[Obj] {
	found, read := deletions[Obj]{last: after}, 0
	b.r.core.UnreconciledSince(after.revision, func(d core.Unreconciled[Obj]) bool {
		// Keys with the same revision come in no order: all of them are read.
		if d.Since > found.last.revision && (len(found.list) > limit || read >= maxScanned) {
			found.more = true
			return false
		}
		at := place{d.Since, string(b.r.rows.Key(d.Obj))}
		if at.compare(after) <= 0 {
			return true
		}
		read++
		if at.compare(found.last) > 0 {
			found.last = at
		}
		i, _ := slices.BinarySearchFunc(found.list, at, func(d *deletion[Obj], at place) int { return d.compare(at) })
		if d.Deleted && i <= limit {
			found.list = slices.Insert(found.list, i, &deletion[Obj]{place: at})
			found.list = found.list[:min(len(found.list), limit+1)]
		}
		return true
	})
	for _, d := range found.list {
		d.info, _ = b.r.core.KeyInfo(d.key, 0)
	}
	return found
}
