// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package guard is what surrounds a call of a function of the program: it names a function that hangs and its key,
// without a lock, notices one that ends its goroutine, and describes a panic.
package guard

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/statekeel/statekeel/internal/text"
)

// LongAfter is for how long a function runs before it is named.
const LongAfter = 10 * time.Second

// maxKey bounds the bytes of a key in a text.
const maxKey = 200

// Function is a function of the program.
type Function uint32

// The functions of a source or a derivation, and of its table. Derive is the function of a derivation.
const (
	Decode Function = iota
	Owner
	Same
	Merge
	Index
	Derive
	Rank
	Parse
)

var names = [...]string{"Decode", "Owner", "Same", "Merge", "an index", "the function", "the rank", "Parse"}

// Running is the function that one goroutine calls now. The zero value is none. Any goroutine may call Long.
type Running struct{ call atomic.Pointer[call] }

type call struct {
	key   string
	since time.Time
	what  atomic.Uint32
}

// Begin notes that a function is called about a key.
func (r *Running) Begin(what Function, key string) {
	c := &call{key: key, since: time.Now()}
	c.what.Store(uint32(what))
	r.call.Store(c)
}

// Next notes that another function is called about the key of the last Begin. It is cheaper than Begin, and leaves
// the time.
func (r *Running) Next(what Function) { r.call.Load().what.Store(uint32(what)) }

// End notes that the function has returned.
func (r *Running) End() { r.call.Store(nil) }

// Long describes the function that runs, if it has run for LongAfter; otherwise it returns an empty text. The
// text stays the same for as long as the function runs.
func (r *Running) Long() string { return r.LongBy(func(_ Function, key string) string { return key }) }

// LongBy is Long with a function that returns the name of a key.
func (r *Running) LongBy(name func(what Function, key string) string) string {
	c := r.call.Load()
	if c == nil || time.Since(c.since) < LongAfter {
		return ""
	}
	what := Function(c.what.Load())
	key := text.Printable(text.Cut(name(what, c.key), maxKey))
	return fmt.Sprintf("%s of %s runs since %s", names[what], key, text.Stamp(c.since))
}
