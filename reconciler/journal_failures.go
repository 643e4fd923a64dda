// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

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
	operationEntry[Obj]
	number, round uint64
	at            time.Time
}

// failures are the latest operations that failed, in order. A load of successes pushes none of
// them out, and costs nothing here.
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

// from returns the failures that have a number from first to before end.
func (f *failures[Obj]) from(first, end uint64) []placed[Obj] {
	at := func(number uint64) int {
		return sort.Search(len(f.latest), func(i int) bool { return f.latest[i].number >= number })
	}
	from := at(first)
	return f.latest[from:max(from, at(end))]
}

// textSize returns the bytes of the texts of an operation.
func (op *operationEntry[Obj]) textSize() (bytes int) {
	if op.text != nil {
		bytes += len(*op.text)
	}
	if op.note != nil {
		bytes += len(*op.note)
	}
	return bytes
}
