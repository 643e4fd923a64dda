// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package journal

import (
	"sort"
	"time"
)

// maxFailureText bounds the bytes of the texts and notes of the failures that a journal keeps, which
// are kept in addition to those of its latest operations.
const maxFailureText = 1 << 20

// placed is an operation with its number, and the number and the beginning of its round, which the
// journal may no longer have.
type placed[Obj any] struct {
	entry[Obj]
	number, round uint64
	started       time.Time
}

// failures are the latest failed operations, in order. Operations that succeed do not displace them,
// and cost nothing here.
type failures[Obj any] struct {
	latest []placed[Obj]
	// most bounds their number. bytes is the size of their texts and notes.
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

// between returns the failures with a number from first to below end.
func (f *failures[Obj]) between(first, end uint64) []placed[Obj] {
	at := func(number uint64) int {
		return sort.Search(len(f.latest), func(i int) bool { return f.latest[i].number >= number })
	}
	from := at(first)
	return f.latest[from:max(from, at(end))]
}
