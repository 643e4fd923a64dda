// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
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

	// ran is how many of the tasks were run; ended is when that was over.
	ran   int
	ended time.Duration

	// The rest is guarded by the pool's lock. stuckAt is when the flight is to be left
	// behind if it is still running; 0 if never, or not started. stuck: it was.
	started, stuckAt time.Duration
	stuck            bool

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
	landing signal

	// inFlight counts what was given and not taken back. It belongs to the goroutine of
	// the loop, as do busy and size, the mean time that a flight takes and the mean
	// number of its objects.
	inFlight int
	busy     time.Duration
	size     float64
	// leftBehind counts those that were ever left behind; it is the loop's too.
	leftBehind uint64

	mu      sync.Mutex
	work    sync.Cond
	queue   []*flight[Obj]
	running []*flight[Obj]
	landed  []*flight[Obj]
	// limit is how many workers there are to be, stuck how many of them count no
	// more, maxStuck how many may be. patience is after how long a flight is stuck; 0
	// means never.
	limit, stuck, maxStuck int
	patience               time.Duration
	workers, idle          int
	stopped                bool
	wg                     sync.WaitGroup
}

func newPool[Obj any](now func() time.Duration, newExecutor func(context.Context) (context.Context, executor[Obj])) *pool[Obj] {
	p := &pool[Obj]{now: now, newExecutor: newExecutor, landing: newSignal()}
	p.work.L = &p.mu
	return p
}

// maxGrace bounds how long beyond its deadline an operation has before it is stuck.
const maxGrace = time.Second

// configure changes how many workers there are. Those that are too many end when they
// have nothing to do.
func (p *pool[Obj]) configure(s *Settings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.maxStuck, p.patience = s.Concurrency, s.MaxStuck, 0
	if s.Timeout > 0 {
		p.patience = s.Timeout + min(s.Timeout, maxGrace)
	}
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
	workers, stuck := p.limit, p.stuck
	p.mu.Unlock()
	ahead := 0
	if p.busy > 0 && p.busy < aheadTime {
		ahead = max(1, int(min(aheadMost/p.size, float64(aheadTime/p.busy))))
	}
	return max(0, workers*(1+ahead)-(p.inFlight-stuck))
}

// give queues flights.
func (p *pool[Obj]) give(ctx context.Context, flights ...*flight[Obj]) {
	p.inFlight += len(flights)
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

// hire starts a worker if there may be another.
func (p *pool[Obj]) hire(ctx context.Context) {
	if p.workers-p.stuck < p.limit {
		p.workers++
		p.wg.Go(func() { p.serve(ctx) })
	}
}

// serve is what a worker does.
func (p *pool[Obj]) serve(ctx context.Context) {
	ctx, x := p.newExecutor(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.workers-- }()
	for {
		for len(p.queue) == 0 && !p.stopped && p.workers-p.stuck <= p.limit {
			p.idle++
			p.work.Wait()
			p.idle--
		}
		if len(p.queue) == 0 || p.workers-p.stuck > p.limit {
			// Whoever was meant to take one and does not has to pass it on.
			p.work.Signal()
			return
		}
		f := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.start(f)
		p.run(ctx, x, f)
		p.land(f)
	}
}

// run is called with the lock, and gives it back meanwhile: also if a panic is to end the
// program, which unlocks it on its way.
func (p *pool[Obj]) run(ctx context.Context, x executor[Obj], f *flight[Obj]) {
	p.mu.Unlock()
	defer p.mu.Lock()
	var further func()
	if len(f.tasks) > 1 {
		further = func() { p.further(f) }
	}
	f.ran = x.execute(ctx, f.txn, f.tasks, f.attempts, further)
	f.ended = p.now()
}

func (p *pool[Obj]) start(f *flight[Obj]) {
	f.started = p.now()
	if p.patience > 0 {
		f.stuckAt = f.started + p.patience
	}
	p.running = append(p.running, f)
}

// further notes that a flight begins another call, which has a deadline of its own.
func (p *pool[Obj]) further(f *flight[Obj]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.patience > 0 {
		f.stuckAt = p.now() + p.patience
	}
}

func (p *pool[Obj]) land(f *flight[Obj]) {
	i := slices.Index(p.running, f)
	last := len(p.running) - 1
	p.running[i], p.running[last] = p.running[last], nil
	p.running = p.running[:last]
	if f.stuck {
		p.stuck--
	}
	p.landed = append(p.landed, f)
	p.landing.signal()
}

// take appends what has landed to the given slice, which is empty.
func (p *pool[Obj]) take(flights []*flight[Obj]) []*flight[Obj] {
	p.mu.Lock()
	landed := p.landed
	flights = append(flights, landed...)
	clear(landed)
	p.landed = landed[:0]
	p.mu.Unlock()
	p.inFlight -= len(flights)
	for _, f := range flights {
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

// onlyStuck reports whether nothing is in flight but what was left behind.
func (p *pool[Obj]) onlyStuck() bool {
	if p.inFlight == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight == p.stuck
}

// nextStuck returns when the next flight will have ignored its deadline for too long, if
// one may be left behind. One that has not begun may by then: nothing else would wake the
// loop for it.
func (p *pool[Obj]) nextStuck() (at time.Duration, ok bool) {
	if p.inFlight == 0 {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck >= p.maxStuck {
		return 0, false
	}
	for _, f := range p.running {
		if f.stuckAt > 0 && !f.stuck && (!ok || f.stuckAt < at) {
			at, ok = f.stuckAt, true
		}
	}
	if !ok && p.patience > 0 && len(p.queue) > 0 {
		return p.now() + p.patience, true
	}
	return at, ok
}

// leaveBehind makes those that have ignored their deadline for too long not count any
// more, as many as may be, and lets others run in their place.
func (p *pool[Obj]) leaveBehind(ctx context.Context) (left bool) {
	if p.inFlight == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, f := range p.running {
		if f.stuckAt == 0 || f.stuck || now < f.stuckAt || p.stuck >= p.maxStuck {
			continue
		}
		f.stuck, left = true, true
		p.stuck++
		p.leftBehind++
		if len(p.queue) > 0 && p.idle == 0 {
			p.hire(ctx)
		}
	}
	return left
}

// stuckFlight is an operation that was left behind.
type stuckFlight[Obj any] struct {
	object  Obj
	deleted bool
	since   time.Duration
}

// stuckFlights returns the first object of each that was left behind, the longest first.
func (p *pool[Obj]) stuckFlights() []stuckFlight[Obj] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck == 0 {
		return nil
	}
	var stuck []stuckFlight[Obj]
	for _, f := range p.running {
		if f.stuck {
			stuck = append(stuck, stuckFlight[Obj]{f.items[0].Obj, f.items[0].Deleted, f.started})
		}
	}
	slices.SortFunc(stuck, func(a, b stuckFlight[Obj]) int { return cmp.Compare(a.since, b.since) })
	return stuck
}

// numStuck returns how many of those that were left behind are still running.
func (p *pool[Obj]) numStuck() int {
	if p.inFlight == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stuck
}

// flightOf says where in the pool the operation is on an object for which is returns true.
// Safe from any goroutine.
func (p *pool[Obj]) flightOf(is func(Obj) bool) (where flightState, since time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.running {
		if f.has(is) {
			if f.stuck {
				return flightStuck, f.started
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
	flightStuck
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
	p.inFlight -= len(queue)
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
