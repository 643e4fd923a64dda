// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"fmt"
	"hash/maphash"
)

// wanted has the last object of each key of a store. Several keys may want one row: that which was written
// last has it. It is owned by the goroutine of Run.
type wanted[Obj any] struct {
	// rowOf returns the primary key of an object.
	rowOf func(Obj) (string, error)
	seed  maphash.Seed
	keys  map[string]wish[Obj]
	// rows has the number of keys that want a row, by the hash of its primary key.
	rows map[uint64]int32
}

// wish is the last object of a key. row is the hash of its primary key, and written the revision at which
// the key was written; zero if that was in another store.
type wish[Obj any] struct {
	obj     Obj
	row     uint64
	written int64
}

// newWanted returns one without keys, with room for n.
func newWanted[Obj any](rowOf func(Obj) (string, error), n int) *wanted[Obj] {
	return &wanted[Obj]{
		rowOf: rowOf, seed: maphash.MakeSeed(), keys: make(map[string]wish[Obj], n), rows: make(map[uint64]int32, n),
	}
}

func (w *wanted[Obj]) hash(row string) uint64 { return maphash.String(w.seed, row) }

// put makes an object that of a key, and returns the hash of row, its primary key.
func (w *wanted[Obj]) put(key string, obj Obj, row string, written int64) (hash uint64) {
	w.remove(key)
	h := w.hash(row)
	w.keys[key] = wish[Obj]{obj: obj, row: h, written: written}
	w.rows[h]++
	return h
}

func (w *wanted[Obj]) remove(key string) {
	old, found := w.keys[key]
	if !found {
		return
	}
	delete(w.keys, key)
	if w.rows[old.row]--; w.rows[old.row] == 0 {
		delete(w.rows, old.row)
	}
}

// resetWritten notes that all keys were written in another store.
func (w *wanted[Obj]) resetWritten() {
	for key, x := range w.keys {
		x.written = 0
		w.keys[key] = x
	}
}

// alone reports whether a key is the only one that wants a row.
func (w *wanted[Obj]) alone(key, row string) bool {
	x, found := w.keys[key]
	h := w.hash(row)
	return found && x.row == h && w.rows[h] == 1
}

// rivals returns the keys that want each of some rows. The cost is proportional to the number of all keys,
// unless no key wants them.
func (w *wanted[Obj]) rivals(rows []string) map[string][]string {
	hashes, found := map[uint64]struct{}{}, map[string][]string{}
	for _, row := range rows {
		if h := w.hash(row); w.rows[h] > 0 {
			hashes[h] = struct{}{}
			found[row] = nil
		}
	}
	if len(found) == 0 {
		return found
	}
	for key, x := range w.keys {
		if _, may := hashes[x.row]; !may {
			continue
		}
		row, _ := w.rowOf(x.obj)
		if keys, does := found[row]; does {
			found[row] = append(keys, key)
		}
	}
	return found
}

// winner returns which of the keys that want one row has it: the one that was written last, or the first
// by name of those that were written at once.
func (w *wanted[Obj]) winner(keys []string) string {
	best := keys[0]
	for _, key := range keys[1:] {
		if a, b := w.keys[key].written, w.keys[best].written; a > b || a == b && key < best {
			best = key
		}
	}
	return best
}

// rivalError is the error of a key whose row is that of another key.
type rivalError struct{ winner string }

func (e rivalError) Error() string {
	return fmt.Sprintf("the key %q, which was written later, has the same row", e.winner)
}
