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

// known returns what the loop knows about a version of a row.
func (b *answers[Obj]) known(row Obj, revision statedb.Revision) known[Obj] {
	return known[Obj]{b.info(b.r.rows.Key(row), 0), b.seen(row, revision)}
}

// info returns what the core knows about a key; nil if it has no entry for it. It counts up to limit of
// the keys ahead.
func (b *answers[Obj]) info(key index.Key, limit int) *core.KeyInfo[Obj] {
	if info, has := b.r.core.KeyInfo(string(key), limit); has {
		return &info
	}
	return nil
}

// seen reports whether the rows carry no status, and the loop has read a version of a row.
func (b *answers[Obj]) seen(row Obj, revision statedb.Revision) bool {
	return b.r.beside && (revision <= b.r.observer.Revision() || b.r.observer.Applied(row, revision))
}

// sight returns what the table and the loop know about the object that a text names.
func (b *answers[Obj]) sight(text string) sight[Obj] {
	s := b.r.view.glance(text, func(key index.Key) bool { return b.info(key, 0) != nil })
	s.info = b.info(s.key, maxAhead)
	s.seen = s.found && b.seen(s.row, s.revision)
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
	info *core.KeyInfo[Obj]
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
		d.info = b.info(index.Key(d.key), 0)
	}
	return found
}
