// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package follow

import (
	"math"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/keyheap"
	"github.com/statekeel/statekeel/internal/problems"
)

// Kept is a set of changes that failed, by the keys of their rows. Each waits until it is due, or is
// being tried again. Times are those of the caller's clock. It is not safe for concurrent use.
type Kept[Obj any] struct {
	byKey map[string]*kept[Obj]
	// waiting has the changes that wait, by due time. errors has the errors of all kept changes.
	waiting keyheap.Heap[*kept[Obj]]
	errors  problems.Set
}

type kept[Obj any] struct {
	change   statedb.Change[Obj]
	failures int
	// last is the time of the last failure.
	last time.Duration
	// pos is the position in waiting, -1 if it is not there.
	pos int
}

func (k *kept[Obj]) HeapPos() int       { return k.pos }
func (k *kept[Obj]) SetHeapPos(pos int) { k.pos = pos }

// NewKept returns an empty set of changes.
func NewKept[Obj any]() Kept[Obj] {
	return Kept[Obj]{byKey: map[string]*kept[Obj]{}, errors: problems.New()}
}

// After returns now + wait, or the largest time if that overflows.
func After(now, wait time.Duration) time.Duration { return now + min(wait, math.MaxInt64-now) }

// Len returns the number of kept changes.
func (c *Kept[Obj]) Len() int { return len(c.byKey) }

// Has reports whether a change of a row is kept.
func (c *Kept[Obj]) Has(key string) bool { return c.byKey[key] != nil }

// Failures returns the number of failures in a row of a row's change; 0 if no change of it is kept.
func (c *Kept[Obj]) Failures(key string) int {
	if k := c.byKey[key]; k != nil {
		return k.failures
	}
	return 0
}

// Keep keeps a change that has failed, until it is due. It replaces an earlier change of the same
// row.
func (c *Kept[Obj]) Keep(key string, change statedb.Change[Obj], err error, now, due time.Duration) {
	k := c.byKey[key]
	if k == nil {
		k = &kept[Obj]{pos: -1}
		c.byKey[key] = k
	}
	c.errors.Keep(key, err, time.Now())
	k.change, k.last = change, now
	k.failures++
	c.schedule(k, due)
}

func (c *Kept[Obj]) schedule(k *kept[Obj], due time.Duration) {
	if k.pos >= 0 {
		c.waiting.Remove(k)
	}
	c.waiting.Push(k, int64(due))
}

// Supersede replaces the waiting change of a row by a later one, which is due when wait has passed
// since the last failure. It returns false if no change of the row waits.
func (c *Kept[Obj]) Supersede(key string, change statedb.Change[Obj], wait time.Duration) bool {
	k := c.byKey[key]
	if k == nil || k.pos < 0 {
		return false
	}
	k.change = change
	c.schedule(k, After(k.last, wait))
	return true
}

// NextDue returns when the next change is due; false if none waits.
func (c *Kept[Obj]) NextDue() (time.Duration, bool) {
	_, at, ok := c.waiting.Min()
	return time.Duration(at), ok
}

// TakeDue returns up to n changes that are due. They no longer wait, but stay kept until Forget or
// Keep is called for them.
func (c *Kept[Obj]) TakeDue(now time.Duration, n int) []statedb.Change[Obj] {
	var changes []statedb.Change[Obj]
	for len(changes) < n {
		if at, ok := c.NextDue(); !ok || at > now {
			break
		}
		changes = append(changes, c.waiting.Pop().change)
	}
	return changes
}

// Forget removes the kept change of a row after a change of that row, with revision dealt, has
// succeeded. It keeps a change that is newer than dealt, or that is dealt and waits again.
func (c *Kept[Obj]) Forget(key string, dealt statedb.Revision) {
	k := c.byKey[key]
	if k == nil || k.change.Revision > dealt || k.change.Revision == dealt && k.pos >= 0 {
		return
	}
	if k.pos >= 0 {
		c.waiting.Remove(k)
	}
	c.errors.Forget(key)
	delete(c.byKey, key)
}

// Errors joins the errors of the changes that have failed for the longest time, and the number of the
// others; nil if nothing is kept.
func (c *Kept[Obj]) Errors() error { return problems.Joined(&c.errors) }
