// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// historyTarget is the target of one reconciler of a history. It holds the number of the applied
// wish of each key, and records its operations.
type historyTarget struct {
	s *slot
	// takes is how long an operation takes; in trouble of 16 operations something goes wrong.
	// Neither holds after the history is healed.
	takes    time.Duration
	trouble  int
	observes bool // batches end with their context
	// exits: some operations and prunes end their goroutine; sticks: some operations take very long.
	exits, sticks bool

	mu      sync.Mutex
	state   map[uint64]int
	tries   map[uint64]uint64     // by key: the number of the try determines the outcome
	running map[*operation]string // the group of each
	calls   map[*time.Time]bool   // the starts of the running calls
	pruning bool
	listing bool
	// stopIn stops the loop: in the operation that counts it down to 0 or, if it is stopBetween,
	// after the next DeleteBatch.
	stopIn int
}

const stopBetween = -1

func newHistoryTarget(s *slot) *historyTarget {
	return &historyTarget{
		s: s, state: map[uint64]int{}, tries: map[uint64]uint64{}, running: map[*operation]string{}, calls: map[*time.Time]bool{},
	}
}

func (x *historyTarget) holds() map[uint64]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.state)
}

// enter checks (d) at the start of a call: the call does not start after the stop. The caller calls
// leave at the end. A call that starts at the very moment of the stop passes, unless one goroutine
// makes both: a listing has a goroutine of its own.
func (x *historyTarget) enter(op string) (leave func()) {
	by := x.s.current()
	if by.stopped() && (x.s.inLine() && by.stoppedWithin && op != "List" || time.Now().After(by.stoppedAt())) {
		x.s.h.record.violate("(d) %s of %d starts after the stop at %s", op, x.s.index, clock(by.stoppedAt()))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pruning {
		x.s.h.record.violate("(d) %s of %d starts beside a prune", op, x.s.index)
	}
	if x.listing && op == "List" {
		x.s.h.record.violate("(d) a listing of %d starts beside another", x.s.index)
	}
	x.listing = x.listing || op == "List"
	if x.pruning = op == "Prune"; x.pruning {
		for began := range x.calls {
			if !x.s.timeout.Load() || time.Since(*began) < 2*historyTimeout {
				x.s.h.record.violate("(d) a prune of %d starts at %s beside a call that began at %s", x.s.index, clock(time.Now()), clock(*began))
			}
		}
	}
	began := time.Now()
	x.calls[&began] = true
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.pruning, x.listing = x.pruning && op != "Prune", x.listing && op != "List"
		delete(x.calls, &began)
	}
}

// busy reports whether a call is running.
func (x *historyTarget) busy() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.calls) > 0
}

// sleep waits for the time of an operation. If observes is set, it ends with the context and
// returns its error.
func sleep(ctx context.Context, d time.Duration, observes bool) error {
	if d == 0 {
		return nil
	}
	if !observes {
		time.Sleep(d)
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do runs one operation on one key, which start has recorded. The result is recorded when the call
// that contains the operation ends.
func (x *historyTarget) do(ctx context.Context, o *operation, row *historyRow, observes bool) (err error) {
	x.begin(o, row.ID)
	err = errPanic
	defer func() { x.end(o, row, err) }()
	err = x.try(ctx, o, row.ID, observes)
	return err
}

var errPanic = errors.New("panic")

func (x *historyTarget) start(row *historyRow, revision statedb.Revision, deletes bool) *operation {
	return x.s.h.record.start(x.s.index, x.s.current(), row.ID, row.Wishes[x.s.index], deletes, revision)
}

// try waits for the time of an operation, and returns its drawn outcome.
func (x *historyTarget) try(ctx context.Context, o *operation, key uint64, observes bool) error {
	h := x.s.h
	if h.healed.Load() {
		return nil
	}
	x.mu.Lock()
	x.tries[key]++
	rng := rand.New(rand.NewPCG(h.seed, key<<20|x.tries[key]<<1|uint64(x.s.index)))
	x.mu.Unlock()
	if err := sleep(ctx, x.takes, observes); err != nil {
		return err
	}
	if h.calm.Load() || rng.IntN(16) >= x.trouble {
		return nil
	}
	switch rng.IntN(8) {
	case 0:
		running.Deletion(ctx)
	case 1:
		running.Changed(ctx)
	}
	switch rng.IntN(18) {
	case 0:
		panic("out of cheese")
	case 1, 2:
		return reconciler.Requeue(30 * time.Millisecond)
	case 3:
		return reconciler.Requeue(0)
	case 4, 5:
		return reconciler.Blocked("gate", h.gateNow())
	case 6:
		return reconciler.RetryAfter(errors.New("later"), 20*time.Millisecond)
	case 7:
		return sleep(ctx, 3*x.takes, observes)
	case 8:
		// The operation ignores its deadline.
		time.Sleep(5 * historyTimeout)
	case 9:
		if _, has := ctx.Deadline(); has {
			<-ctx.Done()
			return ctx.Err()
		}
	case 10:
		return reconciler.TerminalError(errors.New("never"))
	case 11:
		return fmt.Errorf("no %d", rng.IntN(3))
	case 12:
		x.exit(rng)
		return errors.New("no")
	case 13:
		if x.sticks && rng.IntN(4) == 0 {
			// Without a deadline it is reported as stuck after a minute. With frequent refreshes it
			// would delay the history.
			time.Sleep(pick(rng, 200*time.Millisecond, x.s.h.longest()))
		}
	default:
		return errors.New("no")
	}
	return nil
}

// exit ends the goroutine in half of the calls, if the target does so at all.
func (x *historyTarget) exit(rng *rand.Rand) {
	if x.exits && rng.IntN(2) == 0 {
		x.s.current().exits.Store(true)
		runtime.Goexit()
	}
}

func (x *historyTarget) begin(o *operation, key uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	group := x.s.groupOf(key)
	x.running[o] = group
	if group != "" {
		for other, g := range x.running {
			if other != o && g == group {
				x.s.h.record.violate("(d) an operation of key %d at %d starts beside another of its group", key, x.s.index)
			}
		}
	}
	if x.stopIn > 0 {
		if x.stopIn--; x.stopIn == 0 {
			x.s.current().stop(true)
		}
	}
}

// end changes the content of the target.
func (x *historyTarget) end(o *operation, row *historyRow, err error) {
	x.mu.Lock()
	delete(x.running, o)
	if err == nil || !failed(err) {
		if o.deletes {
			delete(x.state, row.ID)
		} else {
			x.state[row.ID] = row.Wishes[x.s.index]
		}
	}
	x.mu.Unlock()
}

// single is a call for one key.
func (x *historyTarget) single(ctx context.Context, row *historyRow, revision statedb.Revision, deletes bool) error {
	o, err := x.start(row, revision, deletes), errPanic
	defer func() { x.s.h.record.end(o, err) }()
	err = x.do(ctx, o, row, true)
	return err
}

func (x *historyTarget) Update(ctx context.Context, _ statedb.ReadTxn, revision statedb.Revision, row *historyRow) error {
	defer x.enter("Update")()
	return x.single(ctx, row, revision, false)
}

func (x *historyTarget) Delete(ctx context.Context, _ statedb.ReadTxn, revision statedb.Revision, row *historyRow) error {
	defer x.enter("Delete")()
	return x.single(ctx, row, revision, true)
}

// prunes waits for the time of a prune, or of a listing, and returns its drawn outcome.
func (x *historyTarget) prunes() error {
	h := x.s.h
	if h.healed.Load() {
		return nil
	}
	time.Sleep(x.takes)
	if h.calm.Load() {
		return nil
	}
	x.mu.Lock()
	x.tries[0]++
	rng := rand.New(rand.NewPCG(h.seed, x.tries[0]<<1|uint64(x.s.index)))
	x.mu.Unlock()
	switch {
	case rng.IntN(32) >= x.trouble:
		return nil
	case rng.IntN(2) == 0:
		return errors.New("no prune")
	}
	x.exit(rng)
	return nil
}

// Prune checks (d): its rows include each row for which an operation has started.
func (x *historyTarget) Prune(_ context.Context, _ statedb.ReadTxn, rows iter.Seq2[*historyRow, statedb.Revision]) error {
	defer x.enter("Prune")()
	given := map[uint64]bool{}
	for row := range rows {
		given[row.ID] = true
	}
	began := time.Now()
	if err := x.prunes(); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.s.h.record
	r.mu.Lock()
	defer r.mu.Unlock()
	if !x.s.h.initialized.Load() {
		r.violateLocked("(d) prune before the table is initialised")
	}
	for key, l := range r.ledgers[x.s.index] {
		if n := len(l.operations); n > 0 && !given[key] {
			if o := l.operations[n-1]; !o.deletes && l.latest().number == o.wish {
				r.violateLocked("(d) a prune at %s does not get key %d\n%s", clock(began), key, l)
			}
		}
		for _, w := range l.wishes {
			if !given[key] && w.kind == deleted && !w.at.After(began) {
				l.pruned = max(l.pruned, w.number)
			}
		}
	}
	for key := range x.state {
		if !given[key] {
			delete(x.state, key)
		}
	}
	return nil
}

// List implements reconciler.Lister.
func (x *historyTarget) List(_ context.Context, _ statedb.ReadTxn, yield func(*historyRow) bool) error {
	defer x.enter("List")()
	if !x.s.h.initialized.Load() {
		x.s.h.record.violate("(d) listing before the table is initialised")
	}
	for key := range x.holds() {
		if !yield(&historyRow{ID: key}) {
			break
		}
	}
	return x.prunes()
}

// historyBatches implements the batch operations.
type historyBatches struct{ *historyTarget }

// work runs the operations of a call. If it panics, the entries without a result have failed. If it
// ends its goroutine, all entries have failed.
func (b historyBatches) work(ctx context.Context, deletes, updates []reconciler.BatchEntry[*historyRow]) {
	var operations []*operation
	each := func(f func(i int, e *reconciler.BatchEntry[*historyRow], deletes bool)) {
		for i := range updates {
			f(i, &updates[i], false)
		}
		for i := range deletes {
			f(len(updates)+i, &deletes[i], true)
		}
	}
	panics := errPanic
	defer func() {
		panicked := recover()
		exited := panics != nil && panicked == nil
		each(func(i int, e *reconciler.BatchEntry[*historyRow], deletes bool) {
			if i == len(operations) {
				operations = append(operations, b.start(e.Object, e.Revision, deletes))
			}
			err := e.Result
			if err == nil || exited {
				err = panics
			}
			b.s.h.record.end(operations[i], err)
		})
		if panicked != nil {
			panic(panicked)
		}
	}()
	each(func(i int, e *reconciler.BatchEntry[*historyRow], deletes bool) {
		operations = append(operations, b.start(e.Object, e.Revision, deletes))
		e.Result = b.do(ctx, operations[i], e.Object, b.observes)
	})
	panics = nil
}

func (b historyBatches) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*historyRow]) {
	defer b.enter("UpdateBatch")()
	b.work(ctx, nil, batch)
}

func (b historyBatches) DeleteBatch(ctx context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*historyRow]) {
	defer b.enter("DeleteBatch")()
	b.work(ctx, batch, nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopIn == stopBetween {
		b.stopIn = 0
		b.s.current().stop(true)
	}
}

// historyRounds implements the round operations.
type historyRounds struct{ historyBatches }

func (r historyRounds) ProcessRound(ctx context.Context, _ statedb.ReadTxn, deletes, updates []reconciler.BatchEntry[*historyRow]) {
	defer r.enter("ProcessRound")()
	r.work(ctx, deletes, updates)
}
