// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
)

// slot is one reconciler of a history; its loops follow one another.
type slot struct {
	h     *history
	index int
	// beside: outcomes are written beside the table, so that every write of a row is a wish.
	beside     bool
	target     *historyTarget
	text       string
	config     reconciler.Config[*historyRow]
	running    *instance
	now        atomic.Pointer[instance]
	size       int
	workers    int
	minBackoff time.Duration
	perSecond  float64 // the operation limit, 0 for none
	groups     bool
	// timeout: operations have a deadline, or had one for a while.
	timeout atomic.Bool
	// roundsLimited: rounds have a limiter that may allow few, or had one.
	roundsLimited atomic.Bool
	// prunesOften and refreshes describe the periodic work of the loop.
	prunesOften, refreshes bool
	// passes counts the passes of all its loops; back is how far their clock is behind.
	passes *passCounter
	back   atomic.Int64
	// shows: the statuses are those of the loop that runs, and are checked. The mutex of the record guards it.
	// mark is the last mark that was seen; the record guards it.
	shows bool
	mark  statedb.Revision
}

// historyHealth records the health of a loop with a name.
type historyHealth struct{ health }

func (h *historyHealth) NewScope(name string) cell.Health {
	if strings.HasPrefix(name, "reconcile") {
		return h
	}
	return &health{}
}

// instance is one loop.
type instance struct {
	loop   *reconciler.Loop[*historyRow]
	health *historyHealth
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan error
	// from is the table's revision after the start.
	from statedb.Revision
	at   atomic.Pointer[time.Time]
	// stoppedWithin: an operation stopped the loop.
	stoppedWithin bool
	waiting       atomic.Int64
	// pooled: workers have run operations. exits: one of its goroutines was ended.
	pooled, exits atomic.Bool
}

func (i *instance) stopped() bool        { return i.at.Load() != nil }
func (i *instance) stoppedAt() time.Time { return *i.at.Load() }

func (i *instance) stop(within bool) {
	now := time.Now()
	i.stoppedWithin = i.stoppedWithin || within && !i.stopped()
	i.at.CompareAndSwap(nil, &now)
	i.cancel()
}

// newSlot draws the configuration of a reconciler.
func (h *history) newSlot(i int) *slot {
	rng := h.rng
	s := &slot{h: h, index: i, minBackoff: 10 * time.Millisecond}
	x := newHistoryTarget(s)
	s.target, s.beside = x, h.one(3)
	x.takes = pick(rng, 0, 40*time.Microsecond, 100*time.Microsecond, time.Millisecond, 5*time.Millisecond)
	x.trouble = pick(rng, 0, 0, 2, 8)
	x.observes = h.one(2)
	x.exits, x.sticks = h.one(4), h.one(6)
	s.size, s.workers = 1+rng.IntN(12), pick(rng, 1, 2, 8)
	if h.one(25) {
		s.size = 1000
	}
	name := "r" + strconv.Itoa(i)
	options := []reconciler.Option{
		reconciler.WithName(name),
		reconciler.WithRoundLimits(s.size, nil),
		reconciler.WithSettings(func(set *reconciler.Settings) { set.Concurrency, set.BlockedRecheck = s.workers, 500*time.Millisecond }),
		reconciler.WithRetry(s.minBackoff, 200*time.Millisecond),
		reconciler.WithRefreshing(0, nil),
	}
	var words []string
	add := func(what string, option reconciler.Option) {
		words = append(words, what)
		options = append(options, option)
	}
	if h.one(4) {
		s.groups = true
		words = append(words, "groups")
	}
	if h.one(4) {
		add("breaker", breaksAfter(3))
	}
	if h.one(4) {
		s.refreshes = true
		add("refreshing", reconciler.WithRefreshing(s.refreshInterval(pick(rng, 5*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond)), nil))
	}
	if h.one(4) {
		s.timeout.Store(true)
		add("timeout", reconciler.WithSettings(func(s *reconciler.Settings) { s.Timeout = historyTimeout }))
	}
	if h.one(8) {
		s.perSecond = pick(rng, 500.0, 3000)
		add("limit", reconciler.WithSettings(func(set *reconciler.Settings) {
			set.OperationLimiter = rate.NewLimiter(rate.Limit(s.perSecond), 1+rng.IntN(4))
		}))
	}
	if h.one(12) {
		s.perSecond = 200
		add("rounds", reconciler.WithRoundLimits(s.size, rate.NewLimiter(200, 1)))
	}
	add(pick[func() (string, reconciler.Option)](rng,
		func() (string, reconciler.Option) { return "no pruning", s.lookEach(0) },
		func() (string, reconciler.Option) { return "pruning", s.lookEach(time.Hour) },
		func() (string, reconciler.Option) {
			s.prunesOften = true
			return "pruning often", s.lookEach(100 * time.Millisecond)
		},
	)())
	s.passes = &passCounter{RWTable: h.table, s: s}
	s.config = reconciler.Config[*historyRow]{DB: h.db, Table: s.passes}
	if s.beside {
		words = append(words, "beside")
	} else {
		s.config.Clone, s.config.SetStatus, s.config.GetStatus = (*historyRow).Clone, s.setStatus, s.get
	}
	if s.groups {
		s.config.SerialBy = func(r *historyRow) string { return s.groupOf(r.ID) }
	}
	switch rng.IntN(3) {
	case 0:
		words = append(words, "batches")
		s.config.BatchOperations = historyBatches{x}
	case 1:
		words = append(words, "rounds")
		s.config.RoundOperations = historyRounds{historyBatches{x}}
	default:
		s.config.Operations = x
	}
	if h.one(3) {
		words = append(words, "orphans only")
		s.config.Lister, s.config.OrphansOnly = x, true
		if h.one(2) {
			add("budget", reconciler.WithOrphanBudget(pick(rng, 0, 1, 3), pick(rng, 0, 0.2)))
		}
	} else if s.config.Operations == nil {
		s.config.Pruner = x
	}
	s.config.Options = options
	s.text = fmt.Sprintf("reconciler %d: rounds of %d, %d workers, %s an operation, trouble %d, %s",
		i, s.size, s.workers, x.takes, x.trouble, strings.Join(words, ", "))
	return s
}

// inLine reports whether the goroutine of the loop runs the operations.
func (s *slot) inLine() bool { return s.workers == 1 && !s.running.pooled.Load() }

func (s *slot) current() *instance { return s.now.Load() }

func (s *slot) groupOf(key uint64) string {
	if !s.groups {
		return ""
	}
	return strconv.FormatUint(key%3, 10)
}

// status returns the status of a row that a transaction holds.
func (s *slot) status(txn statedb.ReadTxn, r *historyRow) reconciler.Status {
	if s.beside {
		st, _ := s.running.loop.Status(txn, r)
		return st
	}
	return s.get(r)
}

// get returns the status that a row carries.
func (s *slot) get(r *historyRow) reconciler.Status {
	if s.h.sets {
		return r.Set.Get(strconv.Itoa(s.index))
	}
	return r.Statuses[s.index]
}

func (s *slot) set(r *historyRow, st reconciler.Status) *historyRow {
	if s.h.sets {
		r.Set = r.Set.Set(strconv.Itoa(s.index), st)
	} else {
		r.Statuses[s.index] = st
	}
	return r
}

// start starts a new loop.
func (s *slot) start() {
	i := &instance{health: &historyHealth{}, ended: make(chan error, 1)}
	cfg := s.config
	cfg.Health = i.health
	var err error
	i.loop, err = reconciler.New(cfg)
	require.NoError(s.h, err)
	i.ctx, i.cancel = context.WithCancel(s.h.Context())
	i.from = ^statedb.Revision(0)
	s.running = i
	s.now.Store(i)
	s.show(true)
	go func() { i.ended <- i.loop.Run(i.ctx) }()
	synctest.Wait()
	i.from = s.h.table.Revision(s.h.db.ReadTxn())
	s.h.record.event("reconciler %d has started", s.index)
}

// stop ends the loop, and checks the rows that it leaves.
func (s *slot) stop() {
	i := s.running
	i.stop(false)
	defer s.show(false)
	defer s.h.record.event("reconciler %d has stopped", s.index)
	err := <-i.ended
	if err != nil && !(i.exits.Load() && strings.Contains(err.Error(), goexitText)) {
		s.h.record.violate("Run: %v", err)
	}
	s.resumed(anyPause)
	synctest.Wait()
	if n := i.waiting.Load(); n > 0 {
		s.h.record.violate("(a) %d wait(s) of %d outlive their loop, which ended at %s", n, s.index, clock(time.Now()))
	}
	if err == nil {
		s.checkStopped(i)
	}
}

// checkEmpty checks that the loop has no work and no waits.
func (s *slot) checkEmpty() {
	r := s.h.record
	if level, message, err := s.running.health.Now(); level != cell.StatusOK {
		r.violate("(d) health of %d is %s: %s, %v", s.index, level, message, err)
	}
	x := s.running.loop.Snapshot(s.h.Context())
	for _, c := range append(x.States, x.Lanes...) {
		if c.Count != 0 {
			r.violate("(d) reconciler %d holds %+v, %+v", s.index, x.States, x.Lanes)
			break
		}
	}
	s.checkTables()
	if len(x.Stuck) > 0 || x.Breaker != "" {
		r.violate("(d) reconciler %d has stuck operations %v, breaker %q", s.index, x.Stuck, x.Breaker)
	}
	if n := s.running.waiting.Load(); n > 0 {
		r.violate("(a) %d wait(s) of %d do not end", n, s.index)
	}
	ctx, cancel := context.WithTimeout(s.h.Context(), time.Second)
	defer cancel()
	if _, err := s.running.loop.WaitAll(ctx, reconciler.Applied); err != nil {
		r.violate("(a) WaitAll at the end: %v", err)
	}
}

// pace returns the time per operation that the target needs, with all its workers.
func (s *slot) pace() time.Duration {
	every := s.target.takes / time.Duration(s.workers)
	if s.perSecond > 0 {
		every = max(every, time.Duration(float64(time.Second)/s.perSecond))
	}
	return max(every, 20*time.Microsecond)
}

func (s *slot) resume() {
	s.running.loop.Resume()
	s.resumed(anyPause)
}

// pause records that objects are paused.
func (s *slot) pause(p pausedSpan) {
	r := s.h.record
	r.mu.Lock()
	defer r.mu.Unlock()
	p.from = time.Now()
	r.pauses[s.index] = append(r.pauses[s.index], p)
}

func anyPause(pausedSpan) bool { return true }

// resumed records the end of pauses.
func (s *slot) resumed(which func(p pausedSpan) bool) {
	r := s.h.record
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.pauses[s.index] {
		if p := &r.pauses[s.index][i]; p.to.IsZero() && which(*p) {
			p.to = time.Now()
		}
	}
}

// askAgain makes a new wish for each failed row.
func (s *slot) askAgain(wtxn statedb.WriteTxn) {
	for row := range s.h.table.All(wtxn) {
		if k := s.status(wtxn, row).Kind; k == reconciler.StatusKindError || k == reconciler.StatusKindBlocked {
			var kinds [2]wishKind
			kinds[s.index] = wanted
			s.h.put(wtxn, row.ID, kinds)
		}
	}
}

// lookEach returns the option that sets the interval of prunes, or of resyncs.
func (s *slot) lookEach(interval time.Duration) reconciler.Option {
	return reconciler.WithSettings(func(set *reconciler.Settings) {
		if s.config.Lister != nil {
			set.ResyncInterval = interval
		} else {
			set.PruneInterval = interval
		}
	})
}
