// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger

import (
	linked "container/list"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/backoff"
	"github.com/statekeel/statekeel/internal/keyheap"
)

// maxExamples bounds the errors that health is told, so that it costs the same however many
// changes fail.
const maxExamples = 10

// keptChanges are the changes of a trigger's source whose dependents could not be found:
// one for each row, the last. They wait for their backoff, or are being tried again.
type keptChanges[Source any] struct {
	byKey map[string]*keptChange[Source]
	// waiting orders those that wait by when they are due, oldest all by when they
	// began to fail.
	waiting keyheap.Heap[*keptChange[Source]]
	oldest  *linked.List
	// version changes whenever what examples returns does.
	version uint64
}

type keptChange[Source any] struct {
	change   statedb.Change[Source]
	err      error
	failures int
	// last is when it failed last.
	last  time.Duration
	place *linked.Element
	// pos is the position in waiting, -1 if it is not there.
	pos int
}

func (k *keptChange[Source]) HeapPos() int       { return k.pos }
func (k *keptChange[Source]) SetHeapPos(pos int) { k.pos = pos }

func newKeptChanges[Source any]() keptChanges[Source] {
	return keptChanges[Source]{byKey: map[string]*keptChange[Source]{}, oldest: linked.New()}
}

func (c *keptChanges[Source]) any() bool { return len(c.byKey) > 0 }
func (c *keptChanges[Source]) len() int  { return len(c.byKey) }

// keep makes a change wait for the backoff that its row has earned. Times are those of
// the trigger's clock.
func (c *keptChanges[Source]) keep(key string, change statedb.Change[Source], err error, now time.Duration, wait backoff.Exponential) {
	k := c.byKey[key]
	if k == nil {
		k = &keptChange[Source]{pos: -1}
		k.place = c.oldest.PushBack(k)
		c.byKey[key] = k
	}
	if k.err == nil || k.err.Error() != err.Error() {
		c.version++
	}
	k.change, k.err, k.last = change, err, now
	k.failures++
	c.schedule(k, wait.Delay(k.failures))
}

// schedule makes a change due a time after it failed last.
func (c *keptChanges[Source]) schedule(k *keptChange[Source], wait time.Duration) {
	if k.pos >= 0 {
		c.waiting.Remove(k)
	}
	// The longest wait there is must not wrap around.
	c.waiting.Push(k, int64(k.last+min(wait, math.MaxInt64-k.last)))
}

// supersede puts a later change of a row in the place of one that waits, and reports
// whether there is one. It is due when the minimum backoff has passed since the last attempt.
func (c *keptChanges[Source]) supersede(key string, change statedb.Change[Source], minBackoff time.Duration) bool {
	k := c.byKey[key]
	if k == nil || k.pos < 0 {
		return false
	}
	k.change = change
	c.schedule(k, minBackoff)
	return true
}

// next returns when the next change is due, if any waits.
func (c *keptChanges[Source]) next() (time.Duration, bool) {
	_, at, ok := c.waiting.Min()
	return time.Duration(at), ok
}

// due takes up to n changes that are due out of their wait. They stay kept until
// they are forgotten, or kept again.
func (c *keptChanges[Source]) due(now time.Duration, n int) []statedb.Change[Source] {
	var changes []statedb.Change[Source]
	for len(changes) < n {
		if at, ok := c.next(); !ok || at > now {
			break
		}
		changes = append(changes, c.waiting.Pop().change)
	}
	return changes
}

// forget drops what is kept of a row if it is older than the given change, which has been
// dealt with, or if it is that change and was tried again with success.
func (c *keptChanges[Source]) forget(key string, dealt statedb.Revision) {
	k := c.byKey[key]
	if k == nil || k.change.Revision > dealt || k.change.Revision == dealt && k.pos >= 0 {
		return
	}
	if k.pos >= 0 {
		c.waiting.Remove(k)
	}
	c.oldest.Remove(k.place)
	delete(c.byKey, key)
	c.version++
}

// examples joins the errors of those that have been failing the longest.
func (c *keptChanges[Source]) examples() error {
	var errs []error
	for place := c.oldest.Front(); place != nil && len(errs) < maxExamples; place = place.Next() {
		errs = append(errs, place.Value.(*keptChange[Source]).err)
	}
	if omitted := c.len() - len(errs); omitted > 0 {
		errs = append(errs, fmt.Errorf("%d further errors omitted", omitted))
	}
	return errors.Join(errs...)
}
