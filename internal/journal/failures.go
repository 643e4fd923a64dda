// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package journal

import (
	"sort"
	"time"
)

// maxFailureText bounds the texts and notes of the failures that a journal keeps, in bytes: what
// they add to the texts of its latest operations.
const maxFailureText = 1 << 20

// placed is an operation and its place in the journal: its number, and the number and the
// beginning of its round, which the journal may have forgotten.
type placed[Obj any] struct {
	Entry[Obj]
	number, round uint64
	started       time.Time
}

// failures are the latest operations that failed, in order. Operations that succeed push none of
// them out, and cost nothing here.
type failures[Obj any] struct {
	latest []placed[Obj]
	// most bounds their number; bytes are those of their texts and notes.
	most, bytes int
}

// add adds a failure, and drops the oldest that are beyond the bounds.
func (f *failures[Obj]) add(op placed[Obj]) {
	f.latest = append(f.latest, op)
	f.bytes += op.textSize()
	for len(f.latest) > f.most || f.bytes > maxFailureText {
		f.bytes -= f.latest[0].textSize()
		f.latest[0] = placed[Obj]{}
		f.latest = f.latest[1:]
	}
}

// between returns the failures that have a number from first to before end.
func (f *failures[Obj]) between(first, end uint64) []placed[Obj] {
	at := func(number uint64) int {
		return sort.Search(len(f.latest), func(i int) bool { return f.latest[i].number >= number })
	}
	from := at(first)
	return f.latest[from:max(from, at(end))]
}
