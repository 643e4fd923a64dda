// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"cmp"
	"fmt"
	"slices"
)

// keys has what is known of each key, and which key has each row. Of the keys that decode to one row, that which
// was created first has it. This follows from the store alone, so an agent that starts agrees with one that has
// followed the store for long. It is owned by the goroutine of Run.
type keys[Obj any] struct {
	prefix string // of the keys, for errors
	all    map[string]wish[Obj]
	// rows has the key that has a row, by its primary key. waiting has the other keys that want the row, in
	// their order. Their values decode, and are of the store that is followed.
	rows    map[string]string
	waiting map[string][]string
}

// wish is what a key wants: an object and its primary key, if wants is true.
type wish[Obj any] struct {
	obj   Obj
	row   string
	wants bool
	// decodes reports whether the last value of the key decodes. If it does not, the key wants what it had
	// before.
	decodes bool
	// former reports whether obj was read in another store than the one that is followed.
	former bool
	// created is the revision at which the key was put first, and written that of the last value. Both are zero if
	// the store that is followed has not shown the key.
	created, written int64
}

func newKeys[Obj any](prefix string) *keys[Obj] {
	return &keys[Obj]{
		prefix: prefix, all: map[string]wish[Obj]{}, rows: map[string]string{}, waiting: map[string][]string{},
	}
}

// changes are what changes of keys have changed: rows, in the order of the events, each with an object that
// has its primary key, and bad keys, of which those with a nil error are not bad any more.
type changes[Obj any] struct {
	rows []string
	objs map[string]Obj
	bad  map[string]error
}

func newChanges[Obj any]() *changes[Obj] {
	return &changes[Obj]{objs: map[string]Obj{}, bad: map[string]error{}}
}

func (c *changes[Obj]) touch(row string, obj Obj) {
	if _, again := c.objs[row]; !again {
		c.rows = append(c.rows, row)
	}
	c.objs[row] = obj
}

// has reports whether a key has the row that it wants.
func (k *keys[Obj]) has(key string) bool {
	x := k.all[key]
	return x.wants && k.rows[x.row] == key
}

// anyDecodes reports whether a key wants what it has, or had, in the store that is followed.
func (k *keys[Obj]) anyDecodes() bool {
	for _, x := range k.all {
		if x.wants && !x.former {
			return true
		}
	}
	return false
}

// numFormer returns the number of rows that are from a former store: the store that is followed does not have their
// keys, or has values there that do not decode.
func (k *keys[Obj]) numFormer() (n int) {
	for _, x := range k.all {
		if x.wants && x.former {
			n++
		}
	}
	return n
}

// put sets what a key wants.
func (k *keys[Obj]) put(key string, next wish[Obj], c *changes[Obj]) {
	c.bad[key] = nil
	if k.has(key) && k.all[key].row == next.row && len(k.waiting[next.row]) == 0 {
		k.all[key] = next
		c.touch(next.row, next.obj)
		return
	}
	k.leave(key, c)
	k.all[key] = next
	owner, taken := k.rows[next.row]
	switch x := k.all[owner]; {
	case !taken:
		k.rows[next.row] = key
	case k.order(key, owner) > 0:
		k.wait(key, next.row)
	default:
		k.rows[next.row] = key
		if x.decodes && !x.former {
			k.wait(owner, next.row)
		} else {
			// It does not want the row now: its value does not decode, or was read in another store.
			k.all[owner] = wish[Obj]{created: x.created, written: x.written}
		}
	}
	c.touch(next.row, next.obj)
	k.reject(next.row, c)
}

// order compares two keys that want the same row: the lower one has it.
func (k *keys[Obj]) order(a, b string) int {
	x, y := k.all[a], k.all[b]
	if x.former != y.former {
		if x.former {
			return 1
		}
		return -1
	}
	// Keys of one transaction have one revision.
	return cmp.Or(cmp.Compare(x.created, y.created), cmp.Compare(a, b))
}

// wait has a key wait for a row.
func (k *keys[Obj]) wait(key, row string) {
	at, _ := slices.BinarySearchFunc(k.waiting[row], key, k.order)
	k.waiting[row] = slices.Insert(k.waiting[row], at, key)
}

// spoil notes that the value of a key does not decode. A row that the key has stays.
func (k *keys[Obj]) spoil(key string, err error, created, written int64, c *changes[Obj]) {
	if !k.has(key) {
		k.leave(key, c)
		k.all[key] = wish[Obj]{}
	}
	x := k.all[key]
	x.decodes, x.created, x.written = false, created, written
	k.all[key] = x
	c.bad[key] = err
}

// remove forgets a key.
func (k *keys[Obj]) remove(key string, c *changes[Obj]) {
	c.bad[key] = nil
	k.leave(key, c)
	delete(k.all, key)
}

// forgetStore notes that everything was read in another store. A key that has no row wants nothing any more.
func (k *keys[Obj]) forgetStore() {
	for key, x := range k.all {
		if !k.has(key) {
			x = wish[Obj]{}
		}
		x.former, x.created, x.written = true, 0, 0
		k.all[key] = x
	}
	clear(k.waiting)
}

// decodeAgain has the next list decode all values, as if they had not decoded before.
func (k *keys[Obj]) decodeAgain() {
	for key, x := range k.all {
		x.decodes = false
		k.all[key] = x
	}
}

// adopt notes that the table is that of the store that is followed: keys which the store has not shown are
// forgotten. empty reports whether the rows of the former store are gone, also those of its keys that are bad.
func (k *keys[Obj]) adopt(empty bool) {
	gone := newChanges[Obj]()
	for key, x := range k.all {
		if x.written == 0 {
			k.remove(key, gone)
			continue
		}
		if x.former && empty {
			k.leave(key, gone)
			x = wish[Obj]{created: x.created, written: x.written}
		}
		x.former = false
		k.all[key] = x
	}
}

// leave ends what a key wants. Its row goes to the key that waits for it longest.
func (k *keys[Obj]) leave(key string, c *changes[Obj]) {
	x := k.all[key]
	if !x.wants {
		return
	}
	next := k.waiting[x.row]
	if k.rows[x.row] != key {
		at := slices.Index(next, key)
		next = slices.Delete(next, at, at+1)
	} else if c.touch(x.row, x.obj); len(next) == 0 {
		delete(k.rows, x.row)
	} else {
		k.rows[x.row], c.bad[next[0]] = next[0], nil
		next = next[1:]
	}
	if k.waiting[x.row] = next; len(next) == 0 {
		delete(k.waiting, x.row)
	}
	k.reject(x.row, c)
}

// reject makes the keys that wait for a row bad keys.
func (k *keys[Obj]) reject(row string, c *changes[Obj]) {
	for _, key := range k.waiting[row] {
		c.bad[key] = fmt.Errorf("the key %q has the same row", k.prefix+k.rows[row])
	}
}
