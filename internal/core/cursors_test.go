// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package core

import (
	"cmp"
	"maps"
	"slices"
)

// cursors is how far a world has looked at its table: up to main, and, if there is much
// between, at what came after tipFrom up to tip as well.
type cursors struct {
	main, tipFrom, tip uint64
	tipped             bool
}

// saw reports whether the change with a revision has been observed.
func (c *cursors) saw(revision uint64) bool {
	return revision <= c.main || c.tipped && revision > c.tipFrom && revision <= c.tip
}

// sawAll reports whether everything has been observed.
func (w *world) sawAll() bool { return w.main == w.revision }

// skip makes fresh changes be observed beside what has piled up.
func (w *world) skip() {
	if !w.tipped && w.main < w.revision {
		w.tipFrom, w.tip, w.tipped = w.revision, w.revision, true
	}
}

// observe hands over the changes of a snapshot, as many as there is room for.
func (w *world) observe(snapshot map[string]row) {
	if w.core.Room() == 0 {
		return
	}
	changes := slices.SortedFunc(maps.Values(snapshot), func(a, b row) int { return cmp.Compare(a.revision, b.revision) })
	latest := uint64(0)
	if len(changes) > 0 {
		latest = changes[len(changes)-1].revision
	}
	if w.tipped {
		w.observeFrom(&w.tip, latest, changes, func() int { return w.core.RoomFor(false) }, false)
	}
	room, backlog, until := w.core.Room, false, latest
	if w.tipped {
		room, backlog, until = func() int { return w.core.RoomFor(true) }, true, w.tipFrom
	}
	w.observeFrom(&w.main, until, changes, room, backlog)
	if w.tipped && w.main == w.tipFrom {
		w.main, w.tipped = w.tip, false
	}
}

// observeFrom moves a cursor to a revision, or as far as there is room.
func (w *world) observeFrom(cursor *uint64, until uint64, changes []row, room func() int, backlog bool) {
	for _, r := range changes {
		if r.revision <= *cursor || r.revision > until {
			continue
		}
		same(w.t, w.model.room(), w.core.Room(), "room")
		same(w.t, w.model.roomFor(true), w.core.RoomFor(true), "room for the backlog")
		same(w.t, w.model.roomFor(false), w.core.RoomFor(false), "room beside the backlog")
		if room() == 0 {
			return
		}
		*cursor = r.revision
		w.observeOne(r, backlog)
	}
	*cursor = max(*cursor, until)
}

func (w *world) observeOne(r row, backlog bool) {
	lane := r.lane
	if backlog {
		lane = Backlog
	}
	switch {
	case r.deleted || r.status == statusPending:
		w.core.Observe(r, r.revision, r.deleted, lane)
		w.model.observe(r, r.revision, r.deleted, lane)
	case w.core.Awaits():
		w.core.ObserveSettled(r, r.revision)
		w.model.observeSettled(r, r.revision)
	}
}
