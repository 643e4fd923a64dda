// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	ledgers "github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// besideTarget is the target of one loop with the ledger beside the table, and the model of what
// [reconciler.Loop.Status] may say: it remembers what became of each attempt.
type besideTarget struct {
	name     string
	violate  func(format string, args ...any)
	healed   *atomic.Bool
	batched  bool
	parallel bool

	mu  sync.Mutex
	rng *rand.Rand
	// takes is how long an operation takes. Of a thousand operations, the first number fail somehow,
	// and the second number take very long.
	takes         time.Duration
	failing, slow int
	// gate is the channel of blocked operations. It is closed and replaced at random.
	gate  chan struct{}
	state map[uint64]int
	keys  map[uint64]*attempted
	// calls counts the running calls. lastCall is when the last call began, lastEnd when one ended last.
	calls             int
	lastCall, lastEnd time.Time

	// loop is the loop that runs; nil while it is replaced. stops: it is being stopped. mark is the last mark that was seen.
	loop      *reconciler.Loop[*object]
	stops     bool
	marks     statedb.Table[*ledgers.Mark]
	mark      statedb.Revision
	shownMark *ledgers.Mark
	// checks counts the statuses that were checked, doneAhead those that were Done above the mark.
	checks, doneAhead int
}

// attempted is what became of the attempts of one key.
type attempted struct {
	running bool
	// versions has the results of updates by revision, since the loop was started.
	versions map[statedb.Revision]*results
	// started is the highest revision of an operation that has begun. done is the highest revision of
	// one that succeeded.
	started, done statedb.Revision
	// last is the result of the last update that has ended, at a revision, as part of a call.
	last   reconciler.StatusKind
	lastAt statedb.Revision
	call   *besideCall
	// shown is the last status of a row that was seen.
	shown   reconciler.StatusKind
	shownAt statedb.Revision
}

// results are the results that an update of one version has had.
type results struct{ done, failed, blocked bool }

func (x *besideTarget) key(id uint64) *attempted {
	k := x.keys[id]
	if k == nil {
		k = &attempted{versions: map[statedb.Revision]*results{}}
		x.keys[id] = k
	}
	return k
}

// stopping is called before a loop is stopped: it waits for the calls that run, and then writes what has
// ended.
func (x *besideTarget) stopping() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stops = true
}

// forget is called between two loops: the next one has to apply everything.
func (x *besideTarget) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.loop, x.stops, x.mark = nil, false, 0
	x.keys = map[uint64]*attempted{}
}

// use begins the checks of a loop.
func (x *besideTarget) use(loop *reconciler.Loop[*object], marks statedb.Table[*ledgers.Mark]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.loop, x.marks = loop, marks
}

// besideCall is one call, for one object or for many. ended is zero while it runs.
type besideCall struct{ ended time.Time }

// call begins a call, for one object or for many.
func (x *besideTarget) call() (c *besideCall, end func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls++
	x.lastCall = time.Now()
	c = &besideCall{}
	return c, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.calls--
		c.ended = time.Now()
		x.lastEnd = c.ended
	}
}

// do is one operation on one object.
func (x *besideTarget) do(ctx context.Context, call *besideCall, id uint64, value int, revision statedb.Revision, deleted bool) (err error) {
	x.mu.Lock()
	k := x.key(id)
	if k.running {
		x.violate("2: %s: two operations on %d at a time", x.name, id)
	}
	if revision < k.started {
		x.violate("2: %s: operation on %d at %d after one at %d", x.name, id, revision, k.started)
	}
	k.running, k.started = true, revision
	wait, r := x.decide(ctx)
	x.mu.Unlock()

	wait()

	x.mu.Lock()
	defer x.mu.Unlock()
	if r.deadline {
		r.err = ctx.Err()
	}
	k.running = false
	if errors.Is(r.err, context.Canceled) {
		// The end of the loop has cancelled it: that is no outcome of the object.
		k.lastAt = 0
		return r.err
	}
	if r.kind == reconciler.StatusKindDone {
		if k.done = revision; deleted {
			delete(x.state, id)
		} else {
			x.state[id] = value
		}
	}
	if deleted {
		k.lastAt = 0
	} else {
		k.last, k.lastAt, k.call = r.kind, revision, call
		v := k.versions[revision]
		if v == nil {
			v = &results{}
			k.versions[revision] = v
		}
		v.done = v.done || r.kind == reconciler.StatusKindDone
		v.failed = v.failed || r.kind == reconciler.StatusKindError
		v.blocked = v.blocked || r.kind == reconciler.StatusKindBlocked
	}
	if r.panics && !x.batched {
		panic("out of cheese")
	}
	return r.err
}

// result is what becomes of an operation. deadline: it waits for its deadline.
type result struct {
	err              error
	kind             reconciler.StatusKind
	panics, deadline bool
}

// decide draws how long an operation takes and what becomes of it.
func (x *besideTarget) decide(ctx context.Context) (wait func(), r result) {
	takes := x.takes
	if takes > 0 {
		takes = time.Duration(x.rng.Int64N(2 * int64(takes)))
	}
	if x.rng.IntN(1000) < x.slow {
		takes += pick(x.rng, 5*time.Millisecond, 15*time.Millisecond, 60*time.Millisecond)
	}
	wait = func() {
		if takes > 0 {
			time.Sleep(takes)
		}
	}
	done, failed := reconciler.StatusKindDone, reconciler.StatusKindError
	if x.healed.Load() || x.rng.IntN(1000) >= x.failing {
		return wait, result{kind: done}
	}
	switch x.rng.IntN(12) {
	case 0:
		return wait, result{err: reconciler.RetryAfter(errors.New("later"), 20*time.Millisecond), kind: failed}
	case 1, 2:
		return wait, result{err: reconciler.Blocked("gate", x.gate), kind: reconciler.StatusKindBlocked}
	case 3:
		return wait, result{err: reconciler.Requeue(pick(x.rng, 0, 15*time.Millisecond)), kind: done}
	case 4:
		return wait, result{err: errors.New("panicked"), kind: failed, panics: true}
	case 5:
		return func() { <-ctx.Done() }, result{kind: failed, deadline: true}
	case 6:
		// The operation ignores its deadline for so long that it is stuck.
		takes = 5 * patience
		return wait, result{kind: done}
	case 7:
		return wait, result{err: reconciler.TerminalError(errors.New("never")), kind: failed}
	case 8:
		return wait, result{err: fmt.Errorf("no %d", x.rng.IntN(100)), kind: failed}
	default:
		return wait, result{err: errors.New("no"), kind: failed}
	}
}

// open releases the blocked operations.
func (x *besideTarget) open() {
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.gate)
	x.gate = make(chan struct{})
}

// check compares the status of each row with the model. It is called after each commit of any table.
func (x *besideTarget) check(db *statedb.DB, table statedb.Table[*object]) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.loop == nil {
		return
	}
	// The transaction begins under the lock, so that checks are in the order of commits.
	txn, now := db.ReadTxn(), time.Now()
	for m := range x.marks.All(txn) {
		if m.Revision < x.mark {
			x.violate("%s: the mark goes back from %d to %d", x.name, x.mark, m.Revision)
		}
		x.mark, x.shownMark = m.Revision, m
	}
	for row, revision := range table.All(txn) {
		s, found := x.loop.Status(txn, row)
		if !found {
			x.violate("%s: the row of %d is not found", x.name, row.ID)
		}
		if s.Kind == reconciler.StatusKindDone && revision > x.mark {
			x.doneAhead++
		}
		x.checkOne(txn, row.ID, revision, s, now)
		x.checks++
	}
}

// checkOne checks the status of one row.
func (x *besideTarget) checkOne(txn statedb.ReadTxn, id uint64, revision statedb.Revision, s reconciler.Status, now time.Time) {
	k := x.key(id)
	var was results
	if v := k.versions[revision]; v != nil {
		was = *v
	}
	wrong := func(why string) {
		x.violate("%s: the status of %d at %d is %s, but %s (mark %v, started %d, last %s at %d, running %t, outcome %+v)",
			x.name, id, revision, s, why, x.shownMark.TableRow(), k.started, k.last, k.lastAt, k.running, x.outcome(txn, id))
	}
	switch {
	case s.Kind == reconciler.StatusKindDone && !was.done:
		wrong("no update of this version has succeeded")
	case s.Kind == reconciler.StatusKindError && !was.failed:
		wrong("no update of this version has failed")
	case s.Kind == reconciler.StatusKindBlocked && !was.blocked:
		wrong("no update of this version was blocked")
	case s.Kind == reconciler.StatusKindPending && k.shownAt == revision && k.shown != reconciler.StatusKindPending &&
		// The row of a failure goes as soon as an update succeeds; the mark may follow later.
		(k.shown == reconciler.StatusKindDone || k.last != reconciler.StatusKindDone):
		wrong("it was " + k.shown.String() + " before")
	case k.lastAt == revision && !k.running && k.last != reconciler.StatusKindDone && s.Kind != k.last && x.published(k, now):
		wrong("the last attempt ended so " + now.Sub(k.call.ended).String() + " ago")
	}
	k.shown, k.shownAt = s.Kind, revision
}

// outcome returns the row of outcomes of a key; nil if there is none.
func (x *besideTarget) outcome(txn statedb.ReadTxn, id uint64) (row inspect.Outcome) {
	for o := range x.loop.Outcomes().All(txn) {
		if bytes.Equal(o.ID, idIndex.FromKey(id)) {
			row = *o
		}
	}
	return row
}

// published reports whether the loop must have written by now what the last attempt of a key was.
func (x *besideTarget) published(k *attempted, now time.Time) bool {
	ended := k.call.ended
	switch {
	case x.stops, ended.IsZero(), now.Sub(ended) < 20*time.Millisecond:
		return false
	case x.parallel:
		return true
	case x.calls == 0:
		// At the moment at which the last call of a turn ends, the loop has not written its results yet.
		return now.After(x.lastEnd)
	case x.batched:
		return x.lastCall.After(ended)
	}
	// A turn may have many calls.
	return x.lastCall.Sub(ended) > 10*time.Millisecond
}

// besideOperations are the operations of a besideTarget.
type besideOperations struct{ *besideTarget }

func (x besideOperations) Update(ctx context.Context, _ statedb.ReadTxn, revision statedb.Revision, o *object) error {
	call, end := x.call()
	defer end()
	return x.do(ctx, call, o.ID, o.Value, revision, false)
}

func (x besideOperations) Delete(ctx context.Context, _ statedb.ReadTxn, revision statedb.Revision, o *object) error {
	call, end := x.call()
	defer end()
	return x.do(ctx, call, o.ID, 0, revision, true)
}

func (x besideOperations) Prune(_ context.Context, _ statedb.ReadTxn, objects iter.Seq2[*object, statedb.Revision]) error {
	wanted := map[uint64]bool{}
	for o := range objects {
		wanted[o.ID] = true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for id := range x.state {
		if !wanted[id] {
			delete(x.state, id)
		}
	}
	return nil
}

// besideBatches has the operations in batches, and besideRounds in rounds.
type besideBatches struct{ *besideTarget }

func (x besideBatches) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	call, end := x.call()
	defer end()
	for i, e := range batch {
		batch[i].Result = x.do(ctx, call, e.Object.ID, e.Object.Value, e.Revision, false)
	}
}

func (x besideBatches) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object]) {
	call, end := x.call()
	defer end()
	for i, e := range batch {
		batch[i].Result = x.do(ctx, call, e.Object.ID, 0, e.Revision, true)
	}
}

type besideRounds struct{ *besideTarget }

func (x besideRounds) ProcessRound(ctx context.Context, _ statedb.ReadTxn, deletes, updates []reconciler.BatchEntry[*object]) {
	call, end := x.call()
	defer end()
	for i, e := range deletes {
		deletes[i].Result = x.do(ctx, call, e.Object.ID, 0, e.Revision, true)
	}
	for i, e := range updates {
		updates[i].Result = x.do(ctx, call, e.Object.ID, e.Object.Value, e.Revision, false)
	}
}
