// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package needs

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/part"

	"github.com/statekeel/statekeel/internal/changes"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/watch"
)

// deletions are the deletions of a loop that are not carried out. The lock of Needs guards them, except changes.
type deletions[Obj any] struct {
	// reading guards changes. It is never taken under the lock of Needs. opens: they are being opened. opened: they can be
	// read. from is the revision of the table after which they have all deletions.
	reading       sync.Mutex
	changes       changes.Table[Obj]
	opens, opened bool
	from          statedb.Revision
	// known is closed if pending has all deletions of the table that were read, or the loop has ended.
	known chan struct{}
	// pending are the deletions by key. Readers iterate over a version of the map without the lock.
	pending part.Map[string, *deletion[Obj]]
	// ahead are the keys of pending that the core may not have yet, by revision. handed is the revision up to which it
	// had all.
	ahead  []read
	handed statedb.Revision
	// awaited are the needs for the deletion of a key that objects wait for. last is the need that was returned last, unless
	// a deletion was carried out since.
	awaited map[string]map[*deleted[Obj]]struct{}
	last    *deleted[Obj]
}

// read is a deletion that was read from the table.
type read struct {
	key string
	at  statedb.Revision
}

// deletion is a deletion that is not carried out. It never changes. why is the text of its last failure, or the reason
// for which it is blocked. at is its revision; 0 if the core had it before it was added.
type deletion[Obj any] struct {
	obj Obj
	why string
	at  statedb.Revision
}

// maxRead bounds the changes that the goroutine of the loop reads in one pass.
const maxRead = 10_000

// open begins to read the deletions of the table, when the table is not locked.
func (n *Needs[Obj]) open() {
	d := &n.deletions
	// The goroutine of the loop must not wait for the table under the lock.
	wtxn := n.cfg.Rows.DB.WriteTxn(n.cfg.Rows.Table)
	d.reading.Lock()
	defer d.reading.Unlock()
	err := d.changes.Open(wtxn)
	from := n.cfg.Rows.Table.Revision(wtxn)
	wtxn.Commit()
	n.mu.Lock()
	ended := n.ended
	d.opened, d.from = err == nil && !ended, from
	n.mu.Unlock()
	if ended {
		go d.changes.Close()
	}
	n.cfg.Wake()
}

// read adds the deletions of the table up to a snapshot, or some of them if limit is not 0. Otherwise it returns a channel
// that is closed when there is more.
func (n *Needs[Obj]) read(txn statedb.ReadTxn, limit int) (more <-chan struct{}) {
	d := &n.deletions
	d.reading.Lock()
	defer d.reading.Unlock()
	if d.changes.Iterator == nil || d.changes.IsRead(txn) {
		return nil
	}
	// A commit is in a snapshot a moment before the iterator knows of it.
	if more = d.changes.More(txn); !watch.IsClosed(more) {
		return more
	}
	var found []statedb.Change[Obj]
	seen := 0
	for change := range d.changes.Next(txn) {
		if change.Deleted {
			found = append(found, change)
		}
		if seen++; seen == limit {
			break
		}
	}
	keys := make([]string, len(found))
	for i := range found {
		keys[i] = string(n.cfg.Rows.Key(found[i].Object))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return nil
	}
	if len(found) > 0 && found[0].Revision <= d.handed {
		// The loop may have carried it out, and may have nothing more to do.
		defer n.cfg.Wake()
	}
	for i, change := range found {
		d.pending = d.pending.Set(keys[i], &deletion[Obj]{obj: change.Object, at: change.Revision})
		d.ahead = append(d.ahead, read{keys[i], change.Revision})
	}
	n.count()
	if seen == limit {
		return watch.Closed
	}
	return nil
}

// takeDeletions notes up to which revision the core has got all deletions, and has those looked at that it has got since.
// all: all changes were read. The caller holds mu.
func (n *Needs[Obj]) takeDeletions(handed statedb.Revision, all bool) {
	d := &n.deletions
	d.handed = handed
	for len(d.ahead) > 0 && d.ahead[0].at <= handed {
		n.request(d.ahead[0].key)
		d.ahead = d.ahead[1:]
	}
	if len(d.ahead) == 0 {
		d.ahead = nil
	}
	if d.opened && !watch.IsClosed(d.known) && all && handed >= d.from {
		for key, obj := range n.cfg.Deletions() {
			n.addDeletion(key, obj)
		}
		close(d.known)
	}
}

// addDeletion adds a deletion that the core has. There may be another one of the key, which counts if the core may not
// have it yet. The caller holds mu.
func (n *Needs[Obj]) addDeletion(key string, obj Obj) {
	d := &n.deletions
	if is, has := d.pending.Get(key); !has || is.at <= d.handed {
		d.pending = d.pending.Set(key, &deletion[Obj]{obj: obj})
		n.request(key)
	}
}

// remove removes a deletion that is carried out, or whose row is back.
func (d *deletions[Obj]) remove(key string) {
	d.pending, d.last = d.pending.Delete(key), nil
	for need := range d.awaited[key] {
		if need.left--; need.left == 0 {
			close(need.released)
		}
	}
	delete(d.awaited, key)
}

// stop wakes all who wait, and ends the reading when the table is not locked.
func (d *deletions[Obj]) stop() {
	if !watch.IsClosed(d.known) {
		close(d.known)
	}
	for key := range d.awaited {
		d.remove(key)
	}
	if d.opened {
		d.opened = false
		go func() {
			d.reading.Lock()
			closing := d.changes
			d.changes.Iterator = nil
			d.reading.Unlock()
			closing.Close()
		}()
	}
}

// checkDeletion looks at the deletion of a key.
func (n *Needs[Obj]) checkDeletion(key string) {
	n.mu.Lock()
	_, has := n.deletions.pending.Get(key)
	n.mu.Unlock()
	if !has {
		return
	}
	info, found := n.cfg.Key(key)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch d, has := n.deletions.pending.Get(key); {
	case !has || d.at > n.deletions.handed:
		// The core may only have an earlier deletion.
	case !found || !info.Deleted:
		n.deletions.remove(key)
		n.count()
	default:
		if why := info.Failure + info.Reason; why != d.why {
			n.deletions.pending = n.deletions.pending.Set(key, &deletion[Obj]{d.obj, why, d.at})
		}
	}
}

// deleted is the need for deletions that are carried out. Objects that need the same ones share it, since there may be many
// of both.
type deleted[Obj any] struct {
	of   *Needs[Obj]
	keys []string
	// The lock of Needs guards the fields below. waits counts the waits that have begun and not ended, left the deletions that
	// they wait for. released is closed when these are carried out; the next wait begins again.
	waits, left int
	released    chan struct{}
}

// deletedWait is the wait of one object for deletions.
type deletedWait[Obj any] struct {
	*deleted[Obj]
	released <-chan struct{}
}

// Deleted reports with its error whether deletions of the table are not carried out for which match returns true. It is
// Blocked, with a text that begins with what, even if the loop has not read those that were there when somebody first
// asked for deletions.
func (n *Needs[Obj]) Deleted(match func(Obj) bool, what string) error {
	stopped := fmt.Errorf("%s may not be deleted: reconciler %q has stopped", what, n.cfg.Name)
	if n.hasEnded() {
		return outcome.Missing(stopped, nil)
	}
	if n.tracks.CompareAndSwap(false, true) {
		n.cfg.Wake()
	}
	unread := (<-chan struct{})(n.deletions.known)
	txn := n.cfg.Rows.DB.ReadTxn()
	if watch.IsClosed(unread) {
		unread = n.read(txn, 0)
	}
	if unread != nil {
		state := n.idle()
		if state == "" {
			state = fmt.Sprintf("reconciler %q has not read all deletions", n.cfg.Name)
		}
		return outcome.Missing(fmt.Errorf("%s is %w: %s", what, ErrNotKnown, state), nil, unread)
	}
	n.mu.Lock()
	pending, ended := n.deletions.pending, n.ended
	n.mu.Unlock()
	if ended {
		return outcome.Missing(stopped, nil)
	}
	var keys []string
	for key, d := range pending.All() {
		if !match(d.obj) {
			continue
		}
		// The row may be back, and the loop not have read it yet.
		if _, _, back := n.cfg.Rows.Get(txn, d.obj); !back {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return outcome.Missing(fmt.Errorf("%s is not deleted", what), []core.Need{n.deletionsOf(keys)})
}

// deletionsOf returns the need for the deletions of keys, which are in order.
func (n *Needs[Obj]) deletionsOf(keys []string) *deleted[Obj] {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := &n.deletions
	if d.last == nil || !slices.Equal(d.last.keys, keys) {
		d.last = &deleted[Obj]{of: n, keys: keys}
	}
	return d.last
}

// Begin implements [core.Need].
func (d *deleted[Obj]) Begin() core.Wait {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	if d.left == 0 {
		d.begin()
	}
	d.waits++
	return &deletedWait[Obj]{d, d.released}
}

// begin begins to wait for the deletions. The caller holds the lock.
func (d *deleted[Obj]) begin() {
	n := d.of
	d.released = make(chan struct{})
	for _, key := range d.keys {
		if _, pending := n.deletions.pending.Get(key); n.ended || !pending {
			continue
		}
		d.left++
		if n.deletions.awaited[key] == nil {
			n.deletions.awaited[key] = map[*deleted[Obj]]struct{}{}
		}
		n.deletions.awaited[key][d] = struct{}{}
	}
	if d.left == 0 {
		close(d.released)
	}
}

// Released implements [core.Wait].
func (w *deletedWait[Obj]) Released() <-chan struct{} { return w.released }

// Outlives implements [core.Wait]: the next operation asks again.
func (w *deletedWait[Obj]) Outlives([]core.Wait) bool { return false }

// End implements [core.Wait].
func (w *deletedWait[Obj]) End() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.waits--; w.waits > 0 || w.left == 0 {
		return
	}
	awaited := w.of.deletions.awaited
	w.left = 0
	for _, key := range w.keys {
		if delete(awaited[key], w.deleted); len(awaited[key]) == 0 {
			delete(awaited, key)
		}
	}
}

// stillPending calls yield with the deletions that are not carried out, until it returns false.
func (w *deletedWait[Obj]) stillPending(yield func(key string, d *deletion[Obj]) bool) {
	w.of.mu.Lock()
	pending := w.of.deletions.pending
	w.of.mu.Unlock()
	for _, key := range w.keys {
		if d, is := pending.Get(key); is && !yield(key, d) {
			return
		}
	}
}

// Needed implements [core.Wait].
func (w *deletedWait[Obj]) Needed(yield func(core.Needed) bool) {
	for key := range w.stillPending {
		if !yield(core.Needed{In: w.of, Key: key}) {
			return
		}
	}
}

// maxNamed bounds the deletions that Why names.
const maxNamed = 3

// Why implements [core.Wait].
func (w *deletedWait[Obj]) Why() string {
	var lines []string
	more := 0
	for key, d := range w.stillPending {
		if len(lines) == maxNamed {
			more++
			continue
		}
		line := "deletion of " + w.of.NameOf(key)
		if d.why != "" {
			line += ": " + d.why
		}
		lines = append(lines, line)
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("%d more", more))
	}
	if w.of.cfg.Started() && w.of.cfg.Paused() {
		lines = append(lines, w.of.idle())
	}
	return strings.Join(lines, ", ")
}
