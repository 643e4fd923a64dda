// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/signal"
)

// flight is what one worker runs at a time: one operation, or a batch. It is queued, then
// running, then landed.
type flight[Obj any] struct {
	batch[Obj]
	txn statedb.ReadTxn
	// snapshot is the number of the one that main was reading; other: some of it was not
	// from there.
	snapshot uint64
	other    bool

	// epoch is that in which it was given, ended when all of it was over.
	epoch time.Duration
	ended time.Duration

	// The rest is guarded by the pool's lock. A flight that has started is stuck at a time,
	// if it is still running: it ignores its deadline, or has none and runs long. left: it
	// was left behind, and another may run in its place. named: health names it. deadline: the
	// call that it is in has one, whatever the settings say by now.
	started, stuckAt             time.Duration
	stuck, left, named, deadline bool

	// one is where the slices are of a flight of one operation: there is one flight for
	// each object then, and it takes one piece of memory.
	one struct {
		item    [1]core.Item[Obj]
		task    [1]task[Obj]
		attempt [1]attempt[Obj]
	}
}

func newFlight[Obj any](txn statedb.ReadTxn, snapshot uint64) *flight[Obj] {
	f := &flight[Obj]{txn: txn, snapshot: snapshot}
	f.items, f.tasks, f.attempts = f.one.item[:0], f.one.task[:0], f.one.attempt[:0]
	return f
}

// pool runs flights on workers, which are started as they are needed. The queue is one for
// all, so that a slow operation holds up nothing but its own object.
type pool[Obj any] struct {
	now func() time.Duration
	// newExecutor makes what a worker runs operations with, and the context for them.
	newExecutor func(ctx context.Context) (context.Context, executor[Obj])
	// landing is signalled when one has landed.
	landing signal.Signal

	// inFlight counts what was given and not taken back. It belongs to the goroutine of
	// the loop, as does all up to mu: busy and size are the mean time that a flight takes
	// and the mean number of its objects.
	inFlight int
	busy     time.Duration
	size     float64
	// young counts the flights that were given in this epoch and in the one before, and
	// not taken back.
	epoch time.Duration
	young [2]int
	// everLeft counts those that were ever left behind.
	everLeft uint64

	mu      sync.Mutex
	work    sync.Cond
	queue   []*flight[Obj]
	running []*flight[Obj]
	landed  []*flight[Obj]
	// limit is how many workers there may be beside those that were left behind, of which
	// there are left, and may be maxLeft. deadline: calls have one. patience is how long
	// one may take before it is stuck.
	limit, left, maxLeft int
	deadline             bool
	patience             time.Duration
	workers, idle        int
	stopped              bool
	// named counts the flights that health names, changes how often those did.
	named, changes int
	wg             sync.WaitGroup
}

func newPool[Obj any](now func() time.Duration, newExecutor func(context.Context) (context.Context, executor[Obj])) *pool[Obj] {
	p := &pool[Obj]{now: now, newExecutor: newExecutor, landing: signal.New()}
	p.work.L = &p.mu
	return p
}

// configure changes how many workers there are. Those that are too many end when they
// have nothing to do.
func (p *pool[Obj]) configure(s *Settings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.maxLeft, p.deadline, p.patience = s.Concurrency, s.maxStuck(), s.Timeout > 0, s.patience()
	p.work.Broadcast()
}

const (
	// aheadTime is how much work is queued for each worker, so that it has some while
	// the loop is busy, and aheadMost the most objects that are, so that what comes next
	// is not decided long before its turn. At least one flight is queued.
	aheadTime = 2 * time.Millisecond
	aheadMost = 256
)

// free returns how many more flights the pool has use for.
func (p *pool[Obj]) free() int {
	p.mu.Lock()
	workers, left := p.limit, p.left
	p.mu.Unlock()
	ahead := 0
	if p.busy > 0 && p.busy < aheadTime {
		ahead = max(1, int(min(aheadMost/p.size, float64(aheadTime/p.busy))))
	}
	return max(0, workers*(1+ahead)-(p.inFlight-left))
}

// give queues flights.
func (p *pool[Obj]) give(ctx context.Context, flights ...*flight[Obj]) {
	p.inFlight += len(flights)
	p.age()
	p.young[0] += len(flights)
	for _, f := range flights {
		f.epoch = p.epoch
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range flights {
		p.queue = append(p.queue, f)
		if len(p.queue) <= p.idle {
			p.work.Signal()
		} else {
			p.hire(ctx)
		}
	}
}

// epochTime is how long an epoch is. What is in flight for longer than two is slow: it makes for
// no load that others could gather in.
const epochTime = 10 * time.Millisecond

// age goes on to the epoch of this moment.
func (p *pool[Obj]) age() {
	switch now := p.now() / epochTime; now - p.epoch {
	case 0:
	case 1:
		p.epoch, p.young = now, [2]int{0, p.young[0]}
	default:
		p.epoch, p.young = now, [2]int{}
	}
}

// back notes that a flight is not in flight any more.
func (p *pool[Obj]) back(f *flight[Obj]) {
	p.inFlight--
	if d := p.epoch - f.epoch; d < 2 {
		p.young[d]--
	}
}

// moving returns how many flights are in flight that are not slow.
func (p *pool[Obj]) moving() int {
	if p.inFlight == 0 {
		return 0
	}
	p.age()
	return p.young[0] + p.young[1]
}

// hire starts a worker if there may be another.
func (p *pool[Obj]) hire(ctx context.Context) {
	if p.workers-p.left < p.limit {
		p.workers++
		p.wg.Go(func() { p.serve(ctx) })
	}
}

// serve is what a worker does. One that ends while there is work, as an operation that calls
// runtime.Goexit makes it, is replaced.
func (p *pool[Obj]) serve(ctx context.Context) {
	operations, x := p.newExecutor(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		p.workers--
		if len(p.queue) > 0 {
			p.hire(ctx)
		}
	}()
	for {
		for len(p.queue) == 0 && !p.stopped && p.workers-p.left <= p.limit {
			p.idle++
			p.work.Wait()
			p.idle--
		}
		if len(p.queue) == 0 || p.workers-p.left > p.limit {
			// A worker that was woken for a flight and does not take it passes it on.
			p.work.Signal()
			return
		}
		f := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.start(f)
		p.run(operations, x, f)
	}
}

// run is called with the lock, and gives it back meanwhile. The flight lands also if its
// operation ends the goroutine.
func (p *pool[Obj]) run(ctx context.Context, x executor[Obj], f *flight[Obj]) {
	txn := f.txn
	// A flight that is stuck does not keep a snapshot of all tables, unless its operation does.
	f.txn = nil
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.land(f)
	}()
	var further func() bool
	if len(f.tasks) > 1 {
		further = func() bool { return p.further(f) }
	}
	x.execute(ctx, txn, f.tasks, f.attempts, further)
}

func (p *pool[Obj]) start(f *flight[Obj]) {
	f.started = p.now()
	f.stuckAt, f.deadline = f.started+p.patience, p.deadline
	p.running = append(p.running, f)
}

// further begins another call of a flight, which has a deadline of its own. It returns false if
// the flight is stuck: others may run in its place, and a prune.
func (p *pool[Obj]) further(f *flight[Obj]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.stuck {
		return false
	}
	f.stuckAt, f.deadline = p.now()+p.patience, p.deadline
	return true
}

func (p *pool[Obj]) land(f *flight[Obj]) {
	f.ended = p.now()
	i := slices.Index(p.running, f)
	last := len(p.running) - 1
	p.running[i], p.running[last] = p.running[last], nil
	p.running = p.running[:last]
	if f.left {
		p.left--
	}
	if f.named {
		p.named--
		p.changes++
	}
	p.landed = append(p.landed, f)
	p.landing.Send()
}

// take appends what has landed to the given slice, which is empty.
func (p *pool[Obj]) take(flights []*flight[Obj]) []*flight[Obj] {
	p.mu.Lock()
	landed := p.landed
	flights = append(flights, landed...)
	clear(landed)
	p.landed = landed[:0]
	p.mu.Unlock()
	for _, f := range flights {
		p.back(f)
		// What was long ago says little.
		took := max(1, f.ended-f.started)
		size := float64(len(f.items))
		if p.busy == 0 {
			p.busy, p.size = took, size
		}
		p.busy += (took - p.busy) / 8
		p.size += (size - p.size) / 8
	}
	return flights
}

// any reports whether anything is in flight.
func (p *pool[Obj]) any() bool { return p.inFlight > 0 }

// flightOf says where in the pool the operation is on an object for which is returns true.
// Safe from any goroutine.
func (p *pool[Obj]) flightOf(is func(Obj) bool) (where flightState, since time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.running {
		if f.has(is) {
			if f.left {
				return flightLeft, f.started
			}
			return flightRunning, f.started
		}
	}
	for _, f := range p.queue {
		if f.has(is) {
			return flightQueued, 0
		}
	}
	return flightNone, 0
}

// flightState is where an operation is in the pool.
type flightState uint8

const (
	flightNone flightState = iota
	flightQueued
	flightRunning
	flightLeft
)

func (f *flight[Obj]) has(is func(Obj) bool) bool {
	for i := range f.items {
		if is(f.items[i].Obj) {
			return true
		}
	}
	return false
}

// recall takes out what was given and not started.
func (p *pool[Obj]) recall() []*flight[Obj] {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := p.queue
	p.queue = nil
	for _, f := range queue {
		p.back(f)
	}
	return queue
}

// stop drops what was not started, and lets the workers end that have nothing to do.
func (p *pool[Obj]) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.inFlight -= len(p.queue)
	p.queue = nil
	p.work.Broadcast()
}
