// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package usercall knows which function of the program runs, for how long, and about which key. It finds that
// out without a lock, so also if the function hangs.
package usercall

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

// Running is the function that one goroutine calls now. The zero value is none. Any goroutine may call Long.
type Running struct{ call atomic.Pointer[call] }

type call struct {
	what, key string
	since     time.Time
}

// Begin notes that a function is called about a key, since a time. It replaces the one before.
func (r *Running) Begin(what, key string, since time.Time) {
	r.call.Store(&call{what: what, key: key, since: since})
}

// End notes that the function has returned.
func (r *Running) End() { r.call.Store(nil) }

// Long describes the function that runs, if it has run for LongAfter; otherwise it returns an empty text. The
// text stays the same for as long as the function runs.
func (r *Running) Long() string {
	c := r.call.Load()
	if c == nil || time.Since(c.since) < LongAfter {
		return ""
	}
	return fmt.Sprintf("%s of %s runs since %s", c.what, text.Printable(text.Cut(c.key, maxKey)), text.Stamp(c.since))
}
