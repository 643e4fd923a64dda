// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// This file has what users and programs do to a running loop: pauses, settings, manual calls. It
// also has the checks of the number of passes.

// passCounter counts the passes of a reconciler's loops. A loop spins if it makes very many passes
// while no virtual time passes. It is then stopped, so that the history ends.
type passCounter struct {
	statedb.RWTable[*historyRow]
	s *slot

	mu   sync.Mutex
	n    int
	at   time.Time
	here int
}

// maxPasses bounds the passes of a loop at one moment of virtual time. The largest backlog has
// 1,500 rows, and an operation may take no time.
const maxPasses = 50_000

// NumObjects counts a pass: a pass calls it once, at its end.
func (p *passCounter) NumObjects(txn statedb.ReadTxn) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if now := time.Now(); !now.Equal(p.at) {
		p.at, p.here = now, 0
	}
	if p.here++; p.here == maxPasses {
		p.s.h.record.violate("(e) reconciler %d spins at %s", p.s.index, clock(p.at))
		p.s.current().stop(false)
	}
	return p.RWTable.NumObjects(txn)
}

func (p *passCounter) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// setStatus sets a status for the loop. Its clock may be behind the clock of the refresher, like
// one that was set back.
func (s *slot) setStatus(r *historyRow, st reconciler.Status) *historyRow {
	st.UpdatedAt = st.UpdatedAt.Add(-time.Duration(s.back.Load()))
	return s.set(r, st)
}

// setClockBack simulates a clock that was set back. Either the statuses that are Done move into the
// future, or the statuses that are written from now on move into the past.
func (s *slot) setClockBack() {
	h := s.h
	if h.one(2) {
		// With periodic refreshes, a larger step would make every new status old enough at once.
		back := pick(h.rng, 0, 2*time.Millisecond, time.Hour)
		if s.refreshes {
			back = min(back, 2*time.Millisecond)
		}
		s.back.Store(int64(back))
		return
	}
	if s.beside {
		h.write(h.rewriteAll)
		return
	}
	h.rewrites.Store(true)
	h.write(func(wtxn statedb.WriteTxn) {
		for row := range h.table.All(wtxn) {
			if st := s.get(row); st.Kind == reconciler.StatusKindDone {
				st.UpdatedAt = st.UpdatedAt.Add(time.Hour)
				_, _, err := h.table.Insert(wtxn, s.set(row.Clone(), st))
				require.NoError(h, err)
			}
		}
	})
}

// meddle pauses or resumes.
func (s *slot) meddle() {
	h, l := s.h, s.running.loop
	what, key := h.rng.IntN(7), 1+h.rng.Uint64N(keys)
	h.record.event("reconciler %d is paused (0), by half (1), by key %d (2, 3), or resumed: %d", s.index, key, what)
	switch what {
	case 0:
		s.resumed(anyPause)
		l.Pause()
	case 1:
		odd := h.rng.Uint64N(2)
		s.resumed(anyPause)
		s.pause(pausedSpan{odd: odd})
		l.PauseObjects(func(r *historyRow) bool { return r.ID%2 == odd })
	case 2, 3:
		// The error is that of another pause, which goes on.
		if l.PauseOnly(strconv.FormatUint(key, 10)) == nil {
			s.resumed(anyPause)
			s.pause(pausedSpan{key: key})
		}
	case 4:
		if l.PauseOnly() == nil {
			s.resumed(anyPause)
		}
	default:
		s.resume()
	}
}

// reconfigure changes settings.
func (s *slot) reconfigure() {
	h, rng := s.h, s.h.rng
	what := rng.IntN(7)
	h.record.event("settings of reconciler %d are changed: %d", s.index, what)
	set := func(change func(set *reconciler.Settings)) { require.NoError(h, s.running.loop.Reconfigure(change)) }
	limiter := func() *rate.Limiter {
		// A limiter that refills nothing allows as many events as it has tokens.
		return pick(rng, nil, nil, rate.NewLimiter(0, 2), rate.NewLimiter(20, 1), rate.NewLimiter(500, 3), rate.NewLimiter(rate.Inf, 0))
	}
	switch what {
	case 0:
		size := 1 + rng.IntN(12)
		set(func(set *reconciler.Settings) { set.RoundSize = size })
	case 1, 2:
		n := pick(rng, 1, 1, 2, 8)
		s.running.pooled.Store(true)
		set(func(set *reconciler.Settings) { set.Concurrency = n })
	case 3:
		timeout := pick(rng, 0, historyTimeout, 5*historyTimeout)
		if timeout > 0 {
			s.timeout.Store(true)
		}
		set(func(set *reconciler.Settings) { set.Timeout = timeout })
	case 4:
		l := limiter()
		s.roundsLimited.Store(true)
		set(func(set *reconciler.Settings) { set.RoundLimiter = l })
	case 5:
		l := limiter()
		set(func(set *reconciler.Settings) { set.OperationLimiter = l })
	default:
		interval := pick(rng, 0, 5*time.Millisecond, 100*time.Millisecond)
		if interval > 0 {
			interval = s.refreshInterval(interval)
		}
		if l := limiter(); s.refreshes {
			set(func(set *reconciler.Settings) { set.RefreshInterval, set.RefreshLimiter = interval, l })
		}
	}
}

// refreshInterval returns an interval that is long enough for the history. With large rounds there
// may be 1,500 rows, and the record has each operation.
func (s *slot) refreshInterval(interval time.Duration) time.Duration {
	for _, other := range s.h.slots {
		if other.size == 1000 {
			return max(interval, 300*time.Millisecond)
		}
	}
	if s.size == 1000 {
		return max(interval, 300*time.Millisecond)
	}
	return interval
}

// call makes a manual call to the loop.
func (s *slot) call() {
	h, by := s.h, s.running
	what := h.rng.IntN(5)
	if h.one(2) {
		what = 5
	}
	var some []string
	var objs []*historyRow
	for range 1 + h.rng.IntN(3) {
		id := 1 + h.rng.Uint64N(keys)
		some, objs = append(some, strconv.FormatUint(id, 10)), append(objs, &historyRow{ID: id})
	}
	if what%2 == 0 {
		some = nil
	}
	h.record.event("reconciler %d gets a call to retry (0, 1), to refresh (2, 3), to approve a resync or to reapply (5): %d, keys %v", s.index, what, some)
	by.waiting.Add(1)
	go func() {
		defer by.waiting.Add(-1)
		var err error
		switch what {
		case 0, 1:
			_, err = by.loop.Retry(h.Context(), some...)
		case 2, 3:
			_, err = by.loop.Refresh(h.Context(), some...)
		case 5:
			h.record.reapplies(s.index, objs)
			_, err = by.loop.Reapply(h.Context(), objs...)
		default:
			by.loop.ApproveResync()
		}
		if err != nil && !isEnd(err) && !errors.Is(err, inspect.ErrNotFound) {
			h.record.violate("a call of %d ends with %v", s.index, err)
		}
	}()
}

// longest returns how long an operation may take.
func (h *history) longest() time.Duration {
	for _, s := range h.slots {
		if s.refreshes {
			return time.Second
		}
	}
	return 70 * time.Second
}

// checkRefreshOfAll checks (f): a refresh of all objects applies every row that is Done once, and
// ends.
func (s *slot) checkRefreshOfAll() {
	r := s.h.record
	operations := func() map[uint64]int {
		n := map[uint64]int{}
		r.mu.Lock()
		defer r.mu.Unlock()
		for key, l := range r.ledgers[s.index] {
			n[key] = len(l.operations)
		}
		return n
	}
	before, passes := operations(), s.passes.count()
	_, err := s.running.loop.Refresh(s.h.Context())
	require.NoError(s.h, err)
	// After a batch the refresher pauses for as long as the batch took, up to a minute if an
	// operation was stuck.
	for range 40 {
		time.Sleep(3 * time.Second)
		after, done, missing := operations(), 0, 0
		txn := s.h.db.ReadTxn()
		for row := range s.h.table.All(txn) {
			if s.status(txn, row).Kind != reconciler.StatusKindDone {
				continue
			}
			done++
			switch n := after[row.ID] - before[row.ID]; {
			case n == 0:
				missing++
			case n > 1:
				r.violate("(f) a refresh of all applies key %d of reconciler %d %d times", row.ID, s.index, n)
				return
			}
		}
		// Prunes may run every 100 ms, and another reconciler writes the same rows.
		if n, most := s.passes.count()-passes, 8*done+120; n > most {
			r.violate("(e) reconciler %d makes %d passes for a refresh of %d rows", s.index, n, done)
			return
		}
		if missing == 0 {
			return
		}
		passes = s.passes.count()
	}
	r.violate("(f) a refresh of all by reconciler %d does not end", s.index)
}

// checkIdle checks (e): a loop without work makes no passes except for prunes.
func (h *history) checkIdle() {
	var before []int
	revision := h.table.Revision(h.db.ReadTxn())
	for _, s := range h.slots {
		before = append(before, s.passes.count())
	}
	time.Sleep(2 * time.Second)
	if now := h.table.Revision(h.db.ReadTxn()); now != revision {
		h.record.violate("(e) the table was written with nothing to do: from %d to %d", revision, now)
	}
	for i, s := range h.slots {
		most := 3
		if s.prunesOften {
			// Three for each prune or resync, whose interval is up to a tenth shorter.
			most = 69
		}
		if n := s.passes.count() - before[i]; n > most {
			h.record.violate("(e) reconciler %d makes %d passes in 2 s with nothing to do", i, n)
		}
	}
}
