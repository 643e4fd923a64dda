// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// wrote is a write of an object. Each has its own value, in rising order; a deletion has one, too.
type wrote struct {
	value    int
	revision statedb.Revision
	deleted  bool
}

// ended is an operation that has ended.
type ended struct {
	call
	ok    bool
	at    time.Time
	began time.Time
}

// crossing is a random sequence of features used against each other, with what was written and what ran.
type crossing struct {
	*env
	rng    *rand.Rand
	from   statedb.Revision // a loop does not see the deletions up to its start
	text   string
	ids    uint64
	beside bool
	cfg    reconciler.Config[*object]
	halt   func()
	mu     sync.Mutex
	last   int
	writes map[uint64][]wrote
	ops    map[uint64][]ended
	paused map[uint64]time.Time // when an object was last paused
	again  map[uint64]time.Time // when an object was last applied again
	fails  int                  // one in so many fails; 0: none
	takes  time.Duration
	faults []string
	waits  sync.WaitGroup
	open   int
	log    []string
}

func (c *crossing) one(n int) bool { return c.rng.IntN(n) == 0 }

func (c *crossing) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func (c *crossing) note(format string, args ...any) {
	c.log = append(c.log, time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).String()+" "+fmt.Sprintf(format, args...))
}

// covers reports whether an operation is on a version that is not older than a write.
func (c *crossing) covers(o *ended, w wrote) bool {
	if o.op == "update" {
		return o.value >= w.value
	}
	return o.revision >= w.revision
}

// latest returns the last write of an object up to a revision.
func (c *crossing) latest(id uint64, upTo statedb.Revision) (w wrote, ok bool) {
	for _, w := range slices.Backward(c.writes[id]) {
		if w.revision <= upTo {
			return w, true
		}
	}
	return w, false
}

// check checks a wait that has ended without an error, for a write that was the last one when it began.
func (c *crossing) check(what string, id uint64, w wrote, m reconciler.Milestone, rest inspect.Unapplied, began time.Time, revision bool) {
	applied, attempted, failed := false, false, false
	for i := range c.ops[id] {
		o := &c.ops[id][i]
		if c.covers(o, w) {
			attempted = true
			applied = applied || o.ok
		}
		failed = failed || !o.ok
	}
	after := 0
	for _, x := range c.writes[id] {
		if x.value > w.value {
			after++
		}
	}
	switch {
	case w.deleted && m == reconciler.Applied && !revision && slices.ContainsFunc(c.writes[id], func(x wrote) bool { return x.deleted && x.value < w.value }),
		w.deleted && after >= 2, !w.deleted && after > 0 && c.writes[id][len(c.writes[id])-1].deleted: // the known defect
		return
	case w.deleted && w.revision <= c.from:
		return
	case revision && (after > 0 || began.Before(c.again[id]) || began.Equal(c.again[id])): // it counts as the later change
		return
	}
	if m == reconciler.Applied && !applied {
		c.fault("%s, began %s: %d is not applied: %+v, writes %+v", what, began.Format("05.000000"), id, w, c.writes[id])
	}
	if m == reconciler.Attempted && !attempted && (c.paused[id].IsZero() || !revision && c.paused[id].Before(began)) && !(revision && failed) {
		c.fault("%s, began %s: %d is not attempted: %+v, writes %+v", what, began.Format("05.000000"), id, w, c.writes[id])
	}
	if m == reconciler.Attempted && !applied && !w.deleted && after == 0 {
		listed := rest.More > 0
		for _, u := range rest.Keys {
			listed = listed || string(u.Key) == string(keyOf(&object{ID: id}))
		}
		if !listed {
			c.fault("%s, began %s: %d is not listed: %+v", what, began.Format("05.000000"), id, w)
		}
	}
}

func (c *crossing) write(id uint64, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wtxn := c.db.WriteTxn(c.table)
	c.last++
	if deleted {
		if _, found, _ := c.table.Delete(wtxn, &object{ID: id}); !found {
			wtxn.Abort()
			return
		}
	} else {
		_, _, err := c.table.Insert(wtxn, &object{ID: id, Value: c.last, Status: reconciler.StatusPending(), Other: reconciler.StatusPending()})
		require.NoError(c, err)
	}
	rev := c.table.Revision(wtxn)
	wtxn.Commit()
	c.writes[id] = append(c.writes[id], wrote{c.last, rev, deleted})
	c.note("write %d deleted %t value %d revision %d", id, deleted, c.last, rev)
}

// plan decides the outcome of an operation, and notes it.
func (c *crossing) plan(k call) error {
	if k.op == "prune" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	switch {
	case c.fails == 0:
	case c.one(c.fails):
		err = errors.New("no")
	case c.one(3 * c.fails):
		err = reconciler.Requeue(time.Duration(c.rng.IntN(50)) * time.Millisecond)
	case c.one(3*c.fails) && k.op == "update":
		w := make(chan struct{})
		time.AfterFunc(time.Duration(c.rng.IntN(100))*time.Millisecond, func() { close(w) })
		err = reconciler.Blocked("gate", w)
	}
	ok := err == nil || k.op == "update" && !failed(err)
	if ops := c.ops[k.id]; len(ops) > 0 {
		l := ops[len(ops)-1]
		if k.revision < l.revision {
			c.fault("%s of %d goes back from revision %d to %d", k.op, k.id, l.revision, k.revision)
		}
	}
	c.ops[k.id] = append(c.ops[k.id], ended{call: k, ok: ok, at: time.Now()})
	c.note("%s %d value %d revision %d: %v", k.op, k.id, k.value, k.revision, err)
	return err
}

func (c *crossing) startLoop() {
	loop, err := reconciler.New(c.cfg)
	require.NoError(c, err)
	c.loop = loop
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	synctest.Wait()
	c.from = c.table.Revision(c.db.ReadTxn())
	loop.Prune()
	c.halt = func() { cancel(); require.NoError(c, <-done) }
}

// waitSome starts a wait.
func (c *crossing) waitSome() {
	m := reconciler.Milestone(c.rng.IntN(2))
	loop, began := c.loop, time.Now()
	kind := c.rng.IntN(4)
	if kind == 0 && !c.beside {
		kind = 1 // a row that another writer has written again before the call has a later revision
	}
	c.mu.Lock()
	now := map[uint64]wrote{}
	for id := range c.writes {
		if w, ok := c.latest(id, 1<<60); ok {
			now[id] = w
		}
	}
	until := c.table.Revision(c.db.ReadTxn())
	c.open++
	c.note("wait kind %d until %d", kind, until)
	c.mu.Unlock()
	some := []uint64{1 + c.rng.Uint64N(c.ids), 1 + c.rng.Uint64N(c.ids)}
	if c.one(2) && c.paused[some[0]].IsZero() {
		some = some[:1]
	}
	some = slices.DeleteFunc(some, func(id uint64) bool { _, ok := now[id]; return !ok })
	c.waits.Go(func() {
		defer func() { c.mu.Lock(); c.open--; c.mu.Unlock() }()
		var rest inspect.Unapplied
		var err error
		ctx := context.Background()
		switch kind {
		case 0:
			rest, err = loop.Wait(ctx, until, m)
		case 1:
			rest, err = loop.WaitAll(ctx, m)
		default:
			rest, err = loop.WaitFor(ctx, m, objects(some...)...)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.note("wait kind %d %v until %d %s, begun %s, is over: %v", kind, some, until, m, began.Format("05.000000"), err)
		if err != nil {
			return
		}
		if kind > 1 {
			for _, id := range some {
				c.check(fmt.Sprintf("WaitFor %s %v", m, some), id, now[id], m, rest, began, false)
			}
			return
		}
		for id, w := range now {
			c.check(fmt.Sprintf("Wait(%d) %s", until, m), id, w, m, rest, began, true)
		}
	})
}

// look compares what the loop tells about each object.
func (c *crossing) look() {
	synctest.Wait()
	now := time.Now()
	page, err := c.loop.Objects(c.Context(), inspect.ObjectQuery{Limit: 1000})
	require.NoError(c, err)
	for _, line := range page.Objects {
		x := c.loop.Explain(c.Context(), line.Key)
		if !time.Now().Equal(now) || x.Revision != line.Revision {
			return
		}
		if x.State != line.State && !(x.State == inspect.StatePaused && (line.Status == "Pending" || line.Status == "Refreshing")) {
			if again, _ := c.loop.Objects(c.Context(), inspect.ObjectQuery{Limit: 1000}); fmt.Sprint(again) != fmt.Sprint(page) {
				return
			}
			c.fault("%s: Explain says %s, Objects %s (%s)", line.Key, x.State, line.State, line.Status)
		}
	}
}

func (c *crossing) run() {
	rng := c.rng
	for range 40 + rng.IntN(80) {
		id := 1 + rng.Uint64N(c.ids)
		switch rng.IntN(20) {
		case 0, 1, 2, 3:
			for range 1 + rng.IntN(6) {
				c.write(1+rng.Uint64N(c.ids), c.one(4))
			}
		case 4:
			c.write(id, true)
			if c.one(2) {
				c.write(id, false)
			}
		case 5, 6, 7:
			c.waitSome()
		case 8:
			n := rng.Uint64N(3)
			c.mu.Lock()
			for id := range c.ids + 1 {
				if id%3 == n {
					c.paused[id] = time.Now().Add(time.Hour)
				}
			}
			c.mu.Unlock()
			c.note("pause %d", n)
			c.loop.PauseObjects(func(o *object) bool { return o.ID%3 == n })
		case 9:
			c.note("resume")
			c.loop.Resume()
			synctest.Wait()
			c.mu.Lock()
			for id := range c.paused {
				c.paused[id] = time.Now()
			}
			c.mu.Unlock()
		case 18:
			if c.beside {
				continue
			}
			c.note("touching %d", id)
			every, n := pick(rng, 100*time.Microsecond, 2*time.Millisecond, 15*time.Millisecond), rng.IntN(30)
			c.waits.Go(func() {
				for i := range n {
					wtxn := c.db.WriteTxn(c.table)
					if o, _, found := c.table.Get(wtxn, idIndex.Query(id)); found {
						o = o.Clone()
						o.Note = strconv.Itoa(i)
						_, _, _ = c.table.Insert(wtxn, o)
					}
					wtxn.Commit()
					time.Sleep(every)
				}
			})
		case 10:
			c.note("refresh")
			_, _ = c.loop.Refresh(c.Context())
			c.loop.Prune()
		case 11:
			ctx, cancel := context.WithTimeout(c.Context(), time.Second)
			c.note("reapply %d", id)
			c.mu.Lock()
			c.again[id] = time.Now().Add(time.Second)
			c.mu.Unlock()
			_, _ = c.loop.Reapply(ctx, &object{ID: id})
			cancel()
		case 12:
			ctx, cancel := context.WithTimeout(c.Context(), time.Second)
			_, _ = c.loop.Retry(ctx)
			cancel()
		case 13:
			if c.one(3) {
				c.note("restart")
				c.halt()
				c.startLoop()
				c.mu.Lock()
				for id := range c.paused {
					c.paused[id] = time.Now()
				}
				c.mu.Unlock()
			}
		case 14:
			c.mu.Lock()
			c.fails, c.takes = pick(rng, 0, 2, 5), pick(rng, 0, 60*time.Microsecond, time.Millisecond, 20*time.Millisecond)
			c.mu.Unlock()
		case 15:
			n := pick(rng, 1, 1, 4)
			c.note("workers %d", n)
			require.NoError(c, c.loop.Reconfigure(func(s *reconciler.Settings) { s.Concurrency = n }))
		case 16:
			if c.one(4) {
				c.note("pause of all")
				c.loop.Pause()
				time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
				c.loop.Resume()
			} else {
				c.look()
			}
		default:
			time.Sleep(pick(rng, 100*time.Microsecond, time.Millisecond, 12*time.Millisecond, 40*time.Millisecond, 300*time.Millisecond))
		}
		if c.one(2) {
			synctest.Wait()
		}
		if len(c.faults) > 0 {
			break
		}
	}
	// The end: everything works.
	c.mu.Lock()
	c.fails, c.takes = 0, 0
	c.mu.Unlock()
	require.NoError(c, c.loop.Reconfigure(func(s *reconciler.Settings) { s.OperationLimiter, s.RefreshInterval = nil, 0 }))
	c.loop.Resume()
	time.Sleep(3 * time.Minute)
	for id := range c.ids {
		c.write(1+id, false) // what failed for good
	}
	time.Sleep(3 * time.Minute)
	synctest.Wait()
	c.mu.Lock()
	if c.open > 0 {
		c.fault("%d waits do not end", c.open)
	}
	c.mu.Unlock()
	c.look()
	want := map[uint64]int{}
	for o := range c.table.All(c.db.ReadTxn()) {
		want[o.ID] = o.Value
		if s, _ := c.loop.Status(c.db.ReadTxn(), o); s.Kind != reconciler.StatusKindDone {
			c.fault("%d ends as %s", o.ID, s)
		}
	}
	if fmt.Sprint(want) != fmt.Sprint(c.target.holds()) {
		c.fault("target %v, want %v", c.target.holds(), want)
	}
	if c.target.overlap {
		c.fault("operations overlap")
	}
	c.halt()
	c.waits.Wait()
}

func runCrossing(t *testing.T, seed uint64) bool {
	rng := rand.New(rand.NewPCG(seed, 7))
	c := &crossing{rng: rng, writes: map[uint64][]wrote{}, ops: map[uint64][]ended{}, paused: map[uint64]time.Time{}, again: map[uint64]time.Time{}}
	if f := os.Getenv("SEEDFILE"); f != "" {
		_ = os.WriteFile(f, []byte(strconv.FormatUint(seed, 10)), 0o644)
	}
	hung := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("crossing %d hangs", seed)) })
	defer hung.Stop()
	synctest.Test(t, func(t *testing.T) {
		c.env = newEnv(t)
		c.ids = pick(rng, uint64(6), 30, 200)
		c.fails, c.takes = pick(rng, 0, 3, 6), pick(rng, 0, 60*time.Microsecond, time.Millisecond, 20*time.Millisecond)
		kind, workers := pick(rng, "single", "single", "batches", "rounds"), pick(rng, 1, 4)
		c.beside = c.one(2)
		opts := []reconciler.Option{
			reconciler.WithRetry(10*time.Millisecond, 200*time.Millisecond), reconciler.WithoutPruning(),
			reconciler.WithRoundLimits(pick(rng, 3, 20, 1000), nil),
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = workers; s.MaxRetries = pick(rng, 0, 0, 2) }),
		}
		c.text = fmt.Sprintf("%s, %d workers, beside %t, %d ids", kind, workers, c.beside, c.ids)
		if c.one(4) {
			opts = append(opts, reconciler.WithBreaker(reconciler.Breaker{Failures: 3, MaxInterval: 200 * time.Millisecond}))
			c.text += ", breaker"
		}
		if c.one(4) {
			opts = append(opts, reconciler.WithSettings(func(s *reconciler.Settings) { s.OperationLimiter = rate.NewLimiter(300, 2) }))
			c.text += ", limit"
		}
		if c.one(4) {
			opts = append(opts, reconciler.WithRefreshing(50*time.Millisecond, nil))
			c.text += ", refreshing"
		}
		c.cfg = c.config(opts...)
		operate(kind)(c.env, &c.cfg)
		if c.beside {
			beside(c.env, &c.cfg)
		}
		if c.one(3) {
			c.text += ", groups"
			c.cfg.SerialBy = func(o *object) string { return strconv.FormatUint(o.ID%3, 10) }
		}
		c.target.deciding(c.plan)
		c.target.before = func(context.Context, call) {
			c.mu.Lock()
			d := c.takes
			c.mu.Unlock()
			time.Sleep(d)
		}
		haltOther := func() {}
		if !c.beside && c.one(3) {
			c.text += ", another loop"
			x, cfg := newTarget(), c.config(reconciler.WithoutPruning(), reconciler.WithName("other"), reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency = pick(rng, 1, 4) }))
			d := pick(rng, 0, 100*time.Microsecond, 3*time.Millisecond)
			x.before = func(context.Context, call) { time.Sleep(d) }
			cfg.Operations, cfg.SetStatus, cfg.GetStatus = x, (*object).SetOther, (*object).GetOther
			loop, err := reconciler.New(cfg)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- loop.Run(ctx) }()
			haltOther = func() { cancel(); <-done }
		}
		c.startLoop()
		c.run()
		haltOther()
	})
	if len(c.faults) > 0 {
		t.Errorf("STATEKEEL_CROSSING=%d: %s\n%s", seed, c.text, c.faults[0])
		if os.Getenv("STATEKEEL_CROSSING") != "" {
			for _, l := range c.log {
				fmt.Println(l)
			}
		}
		return false
	}
	return true
}

// Features are used against each other in random sequences. Waits must not end too early nor go on, operations
// must not go back, and everything converges.
func TestFeaturesHoldAgainstEachOther(t *testing.T) {
	if one := os.Getenv("STATEKEEL_CROSSING"); one != "" {
		seed, err := strconv.ParseUint(one, 10, 64)
		require.NoError(t, err)
		runCrossing(t, seed)
		return
	}
	n := 100
	if text := os.Getenv("STATEKEEL_CROSSINGS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	first, failed := rand.Uint64()>>1, 0
	for i := range n {
		if !runCrossing(t, first+uint64(i)) {
			if failed++; failed == 8 {
				return
			}
		}
	}
}
