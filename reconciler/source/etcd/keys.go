// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"fmt"
	"slices"
)

// keys has what is known of each key, and which key has each row. A row has one key: that which wanted it
// first. It is owned by the goroutine of Run.
type keys[Obj any] struct {
	prefix string // of the keys, for errors
	all    map[string]wish[Obj]
	// rows has the key that has a row, by its primary key. waiting has the other keys that want the row, in
	// the order in which they came.
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
	// written is the revision of the last value; zero if that was in another store.
	written int64
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

// put sets what a key wants.
func (k *keys[Obj]) put(key string, next wish[Obj], c *changes[Obj]) {
	c.bad[key] = nil
	if k.has(key) && k.all[key].row == next.row {
		k.all[key] = next
		c.touch(next.row, next.obj)
		return
	}
	k.leave(key, c)
	k.all[key] = next
	if _, taken := k.rows[next.row]; taken {
		k.waiting[next.row] = append(k.waiting[next.row], key)
		k.reject(next.row, c)
		return
	}
	k.rows[next.row] = key
	c.touch(next.row, next.obj)
}

// spoil notes that the value of a key does not decode. A row that the key has stays.
func (k *keys[Obj]) spoil(key string, err error, written int64, c *changes[Obj]) {
	if !k.has(key) {
		k.leave(key, c)
		k.all[key] = wish[Obj]{}
	}
	x := k.all[key]
	x.decodes, x.written = false, written
	k.all[key] = x
	c.bad[key] = err
}

// remove forgets a key.
func (k *keys[Obj]) remove(key string, c *changes[Obj]) {
	c.bad[key] = nil
	k.leave(key, c)
	delete(k.all, key)
}

// forgetRevisions notes that all values were read in another store.
func (k *keys[Obj]) forgetRevisions() {
	for key, x := range k.all {
		x.written = 0
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
