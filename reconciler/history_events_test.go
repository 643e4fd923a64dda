// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// keys is the number of keys, without those of floods and bursts.
const keys = 12

// event causes one random event.
func (h *history) event() {
	rng := h.rng
	for _, s := range h.slots {
		s.revive()
	}
	key := uint64(1 + rng.IntN(keys))
	s := h.slots[rng.IntN(len(h.slots))]
	what := rng.IntN(32)
	h.record.event("event %d: key %d, reconciler %d, table at %d", what, key, s.index, h.table.Revision(h.db.ReadTxn()))
	switch what {
	case 0, 1, 2:
		h.write(func(wtxn statedb.WriteTxn) { h.somePuts(wtxn, 1+rng.IntN(6), bothWanted) })
	case 3:
		h.write(func(wtxn statedb.WriteTxn) { h.remove(wtxn, key) })
	case 4:
		h.write(func(wtxn statedb.WriteTxn) { h.somePuts(wtxn, 4, bothWanted); h.someRemoves(wtxn, 4) })
	case 5:
		h.write(func(wtxn statedb.WriteTxn) { h.remove(wtxn, key); h.put(wtxn, key, bothWanted) })
	case 6:
		h.write(func(wtxn statedb.WriteTxn) { h.remove(wtxn, key) })
		h.pause()
		h.write(func(wtxn statedb.WriteTxn) { h.put(wtxn, key, h.anyKinds()) })
	case 7:
		h.write(func(wtxn statedb.WriteTxn) { h.put(wtxn, key, bothWanted); h.remove(wtxn, key) })
	case 8:
		// A burst of keys that come and go.
		from, n := 100+rng.Uint64N(60), rng.Uint64N(40)
		h.write(func(wtxn statedb.WriteTxn) {
			for key := from; key < from+n; key++ {
				h.put(wtxn, key, bothWanted)
			}
		})
		if h.one(2) {
			h.pause()
			h.write(func(wtxn statedb.WriteTxn) {
				for key := from; key < from+n; key += 2 {
					h.remove(wtxn, key)
				}
			})
		}
	case 9:
		h.write(func(wtxn statedb.WriteTxn) { h.put(wtxn, key, h.anyKinds()) })
	case 10:
		h.write(func(wtxn statedb.WriteTxn) { h.rewriteAll(wtxn) })
	case 11:
		h.rewriter()
	case 12, 13:
		h.writer(s, rng.IntN(2) == 0)
	case 14, 15, 16:
		for range 1 + rng.IntN(3) {
			s.wait()
		}
	case 17:
		s.meddle()
	case 18:
		h.open()
	case 19:
		s.restart()
	case 20:
		if !h.initialized.Load() {
			h.initialize()
		}
	case 21:
		s.running.loop.Prune()
		s.target.mu.Lock()
		// An object without a row.
		s.target.state[1000+key] = 1
		s.target.mu.Unlock()
		if h.one(2) {
			s.plan()
		}
	case 22, 23, 24:
		s.reconfigure()
	case 25, 26:
		s.call()
	case 27:
		s.setClockBack()
	case 28:
		if h.one(4) {
			time.Sleep(pick(rng, 100*time.Millisecond, time.Second))
		}
	default:
		h.pause()
	}
}

// plan plans beside all else. The target checks when it may be listed.
func (s *slot) plan() {
	loop, lists := s.running.loop, s.config.Lister != nil
	s.h.part(func(*rand.Rand) {
		ctx, cancel := context.WithTimeout(s.h.Context(), time.Second)
		defer cancel()
		switch p, err := loop.Plan(ctx); {
		case lists != (err == nil || !strings.Contains(err.Error(), "there is no plan")):
			s.h.record.violate("(d) a plan of %d: %v", s.index, err)
		case err == nil && (p.Different > 0 || p.Orphan > p.Listed || p.Reapplied > p.Equal):
			s.h.record.violate("(d) a plan of %d has %s", s.index, p)
		}
	})
}

// pause lets a little time pass, or none.
func (h *history) pause() {
	time.Sleep(pick(h.rng, 0, 30*time.Microsecond, 500*time.Microsecond, 3*time.Millisecond, 12*time.Millisecond, 30*time.Millisecond))
}

func (h *history) anyKinds() (kinds [2]wishKind) {
	for i := range kinds {
		kinds[i] = pick(h.rng, kept, wanted, wanted, vouched, unset)
	}
	return kinds
}

func (h *history) somePuts(wtxn statedb.WriteTxn, n int, kinds [2]wishKind) {
	for range n {
		h.put(wtxn, 1+h.rng.Uint64N(keys), kinds)
	}
}

func (h *history) someRemoves(wtxn statedb.WriteTxn, n int) {
	for range n {
		h.remove(wtxn, 1+h.rng.Uint64N(keys))
	}
}

// rewriteAll writes every row unchanged, as a third party does.
func (h *history) rewriteAll(wtxn statedb.WriteTxn) {
	h.rewrites.Store(true)
	for row := range h.table.All(wtxn) {
		_, _, err := h.table.Insert(wtxn, row.Clone())
		require.NoError(h, err)
	}
}

// rewriter starts a third party that rewrites all rows for a while.
func (h *history) rewriter() {
	every := pick(h.rng, 200*time.Microsecond, 2*time.Millisecond)
	n := h.rng.IntN(15)
	h.part(func(*rand.Rand) {
		for range n {
			h.write(h.rewriteAll)
			time.Sleep(every)
		}
	})
}

// writer starts a writer that is as fast as a target, or twice as fast.
func (h *history) writer(s *slot, twice bool) {
	every := s.pace()
	if twice {
		every /= 2
	}
	n := 5 + h.rng.IntN(40)
	h.part(func(rng *rand.Rand) {
		for range n {
			h.write(func(wtxn statedb.WriteTxn) {
				switch key := 200 + rng.Uint64N(40); rng.IntN(6) {
				case 0:
					h.remove(wtxn, key)
				case 1, 2:
					h.put(wtxn, 1+rng.Uint64N(keys), bothWanted)
				default:
					h.put(wtxn, key, bothWanted)
				}
			})
			time.Sleep(every)
		}
	})
}

// revive starts another loop if an operation or a prune has ended the goroutine of the current one.
func (s *slot) revive() {
	if len(s.running.ended) > 0 {
		s.stop()
		s.start()
	}
}

// restart stops the loop, between operations or in the middle of one, and starts another.
func (s *slot) restart() {
	h, rng, x := s.h, s.h.rng, s.target
	if !h.one(3) {
		x.mu.Lock()
		x.stopIn = pick(rng, stopBetween, 1+rng.IntN(8))
		x.mu.Unlock()
		h.write(func(wtxn statedb.WriteTxn) { h.somePuts(wtxn, 6, bothWanted); h.someRemoves(wtxn, 4) })
		s.wait()
		s.wait()
		for range 30 {
			if s.running.stopped() {
				break
			}
			time.Sleep(time.Millisecond)
		}
		x.mu.Lock()
		x.stopIn = 0
		x.mu.Unlock()
	}
	s.stop()
	for h.one(2) {
		h.write(func(wtxn statedb.WriteTxn) { h.somePuts(wtxn, 2, bothWanted); h.someRemoves(wtxn, 2) })
		h.pause()
	}
	if h.one(2) {
		h.write(s.askAgain)
	}
	s.start()
}

// wait starts a wait and checks its end.
func (s *slot) wait() {
	h, rng, by := s.h, s.h.rng, s.running
	what, m := rng.IntN(4), pick(rng, reconciler.Attempted, reconciler.Applied)
	if what == 3 {
		m = reconciler.Attempted
	}
	ctx, cancel := by.ctx, context.CancelFunc(func() {})
	if what != 3 {
		// The wait must end by itself when the loop ends.
		ctx = h.Context()
	}
	if h.one(6) {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(30))*time.Millisecond)
	}
	var objs []*historyRow
	for range 1 + rng.IntN(3) {
		objs = append(objs, &historyRow{ID: 1 + rng.Uint64N(keys)})
	}
	txn := h.db.ReadTxn()
	until := h.table.Revision(txn)
	switch {
	case what == 1 || what == 2:
	case h.one(4):
		until -= min(until, rng.Uint64N(10))
	case h.one(6):
		until += rng.Uint64N(3)
	}
	todos, began := s.todos(txn, until, m, by), time.Now()
	name := fmt.Sprintf("%s(%d, %s)", [...]string{"Wait", "WaitAll", "WaitFor", "WaitUntilReconciled"}[what], until, m)
	ids := ""
	if what == 2 {
		for _, obj := range objs {
			ids += fmt.Sprintf(" %d", obj.ID)
		}
	}
	h.record.event("%s%s of %d begins", name, ids, s.index)
	by.waiting.Add(1)
	go func() {
		defer by.waiting.Add(-1)
		defer cancel()
		joined := &joinContext{Context: ctx, revision: func() statedb.Revision { return h.table.Revision(h.db.ReadTxn()) }}
		ctx := context.Context(joined)
		var unapplied inspect.Unapplied
		var err error
		switch what {
		case 0:
			unapplied, err = by.loop.Wait(ctx, until, m)
		case 1:
			unapplied, err = by.loop.WaitAll(ctx, m)
		case 2:
			_, err = by.loop.WaitFor(ctx, m, objs...)
		case 3:
			var revision, low statedb.Revision
			revision, low, err = by.loop.WaitUntilReconciled(ctx, until)
			if err == nil && revision < until {
				h.record.violate("(a) WaitUntilReconciled(%d) of %d returns %d", until, s.index, revision)
			}
			if err == nil && (low == 0 || low > until) {
				m = reconciler.Applied
			}
		}
		h.record.event("%s%s of %d, begun at %s, ends: %v", name, ids, s.index, clock(began), err)
		switch {
		case what == 2 && errors.Is(err, reconciler.ErrNoStatus):
		case err != nil && !isEnd(err):
			h.record.violate("(a) a wait ends with %v", err)
		case err != nil:
		case what == 2:
			var asked []todo
			for _, d := range todos {
				for _, obj := range objs {
					if d.key == obj.ID {
						asked = append(asked, d)
					}
				}
			}
			s.checkObjectWait(asked, m, began)
		case joined.at() != h.table.Revision(txn):
			// The table changed before the wait began, so the todos at its beginning are not known.
		default:
			s.checkRevisionWait(name, todos, m, began)
			if what != 3 {
				s.checkUnapplied(name, todos, unapplied, began)
			}
		}
	}()
}

// joinContext records the revision of the table when a wait has begun. That is when the wait first
// calls Done, or when it ends.
type joinContext struct {
	context.Context
	revision func() statedb.Revision
	once     sync.Once
	joined   statedb.Revision
}

func (c *joinContext) Done() <-chan struct{} {
	c.at()
	return c.Context.Done()
}

func (c *joinContext) at() statedb.Revision {
	c.once.Do(func() { c.joined = c.revision() })
	return c.joined
}

// flood checks (c): there is a backlog, and writers write as fast as the target works, or twice as
// fast.
func (h *history) flood() {
	for _, s := range h.slots {
		// Each status of another reconciler in the row makes one beside apply again.
		if s.beside && len(h.slots) > 1 || s.groups || s.perSecond == 200 || s.config.Operations == nil && s.target.takes*time.Duration(s.size) > historyTimeout {
			return
		}
	}
	h.calm.Store(true)
	defer h.calm.Store(false)
	for _, s := range h.slots {
		s.revive()
	}
	rng := h.rng
	backlog := 40 + rng.Uint64N(60)
	for _, s := range h.slots {
		if s.size == 1000 {
			backlog = 1500
		}
	}
	bounds := make([]time.Duration, len(h.slots))
	var longest time.Duration
	for i, s := range h.slots {
		// The backlog gets a quarter of the operations, an eighth if a resync has found orphans, and
		// the catch-up cursor begins after some time. Rounds of eight or more items are a
		// millisecond apart.
		each, share := max(s.pace(), time.Millisecond/8), time.Duration(5)
		if s.config.Lister != nil {
			share = 9
		}
		bounds[i] = share*time.Duration(backlog)*each + 16*time.Duration(min(s.size, 100))*s.target.takes + 50*time.Millisecond
		longest = max(longest, bounds[i])
	}
	h.write(func(wtxn statedb.WriteTxn) {
		for key := range backlog {
			h.put(wtxn, 10_000+key, bothWanted)
		}
	})
	slowest := h.slots[0]
	for _, s := range h.slots {
		if s.pace() > slowest.pace() {
			slowest = s
		}
	}
	every := slowest.pace() / time.Duration(1+rng.IntN(2))
	hot := pick(rng, 0, 0, 20)
	began := time.Now()
	over := false
	for i := 0; !over && time.Since(began) < longest; i++ {
		h.write(func(wtxn statedb.WriteTxn) {
			switch key := uint64(20_000 + i); {
			case hot > 0:
				h.put(wtxn, 20_000+uint64(i%hot), bothWanted)
			case i%4 == 3:
				h.remove(wtxn, key-rng.Uint64N(min(uint64(i), 30)))
			default:
				h.put(wtxn, key, bothWanted)
			}
		})
		time.Sleep(every)
		if i%16 == 0 {
			over = true
			for j, s := range h.slots {
				left := s.unattempted(10_000, backlog)
				over = over && left == 0
				if left > 0 && time.Since(began) > bounds[j] {
					h.record.violate("(c) after %s of %s an operation for %d, %d of %d rows that were there before are not attempted (a write each %s, hot keys: %d)",
						time.Since(began), s.target.takes, j, left, backlog, every, hot)
					return
				}
			}
		}
		if i%64 == 63 {
			for _, s := range h.slots {
				s.checkMemory()
			}
		}
	}
	for j, s := range h.slots {
		if left := s.unattempted(10_000, backlog); left > 0 {
			h.record.violate("(c) after %s of %s an operation for %d, %d of %d rows that were there before are not attempted (a write each %s, hot keys: %d)",
				time.Since(began), s.target.takes, j, left, backlog, every, hot)
		}
	}
}

// unattempted counts the keys of a range without a started operation.
func (s *slot) unattempted(from, n uint64) (left int) {
	r := s.h.record
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := from; key < from+n; key++ {
		if len(r.ledger(s.index, key).operations) == 0 {
			left++
		}
	}
	return left
}

// checkMemory checks that the number of ready changes stays within six rounds. Refreshes, which come in batches of
// their own size, and resumed objects, with orphans, do not count.
func (s *slot) checkMemory() {
	x := s.running.loop.Snapshot(s.h.Context())
	n := 0
	for _, c := range x.Lanes {
		if c.State != "resumed" && c.State != "refresh" {
			n += c.Count
		}
	}
	if n > 6*s.size+8 {
		s.h.record.violate("(c) %d changes are ready in %d: %+v", n, s.index, x.Lanes)
	}
}
