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
)

// flight is what one worker runs at a time: one operation, or a batch.
type flight[Obj any] struct {
	txn      statedb.ReadTxn
	items    []core.Item[Obj]
	tasks    []task[Obj]
	attempts []attempt[Obj]

	// ran is how many of the tasks were run; ended is when that was over.
	ran   int
	ended time.Duration

	// The rest is guarded by the pool's lock. stuckAt is when the job is to be left
	// behind if it is still running; 0 if never, or not started.
	started, stuckAt time.Duration
	stuck            bool
}

// pool runs jobs on workers, which are started as they are needed. Its jobs are told
// apart by where they are: in the queue, running, or landed.
type pool[Obj any] struct {
	now func() time.Duration
	// newExecutor makes what a worker runs jobs with, and the context to do so in.
	newExecutor func(ctx context.Context) (context.Context, executor[Obj])
	// landing is signalled when a job has landed.
	landing signal

	// inFlight counts the jobs that were given and not taken back. It belongs to the
	// goroutine of the loop, as does busy, the mean time that a job takes.
	inFlight int
	busy     time.Duration

	mu      sync.Mutex
	work    sync.Cond
	queue   []*flight[Obj]
	running []*flight[Obj]
	landed  []*flight[Obj]
	// limit is how many workers there are to be, stuck how many of them count no
	// more, maxStuck how many may be. patience is after how long a job is stuck; 0
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
	if s.Timeout > 0 && s.MaxStuck > 0 {
		p.patience = s.Timeout + min(s.Timeout, maxGrace)
	}
	p.work.Broadcast()
}

const (
	// aheadTime is how much work is queued for each worker, so that it has some while
	// the loop is busy, and aheadMost the most jobs that is, so that what comes next is
	// not decided long before its turn.
	aheadTime = 2 * time.Millisecond
	aheadMost = 64
)

// free returns how many more jobs the pool has use for.
func (p *pool[Obj]) free() int {
	p.mu.Lock()
	workers, stuck := p.limit, p.stuck
	p.mu.Unlock()
	ahead := 0
	if p.busy > 0 && p.busy < aheadTime {
		ahead = int(min(aheadMost, aheadTime/p.busy))
	}
	return max(0, workers*(1+ahead)-(p.inFlight-stuck))
}

// give queues jobs.
func (p *pool[Obj]) give(ctx context.Context, jobs ...*flight[Obj]) {
	p.inFlight += len(jobs)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range jobs {
		p.queue = append(p.queue, j)
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
			// Whoever was meant to take a job and does not has to pass it on.
			p.work.Signal()
			return
		}
		j := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.start(j)
		p.mu.Unlock()
		j.ran = x.execute(ctx, j.txn, j.tasks, j.attempts)
		j.ended = p.now()
		p.mu.Lock()
		p.land(j)
	}
}

func (p *pool[Obj]) start(j *flight[Obj]) {
	j.started = p.now()
	if p.patience > 0 {
		j.stuckAt = j.started + p.patience
	}
	p.running = append(p.running, j)
}

func (p *pool[Obj]) land(j *flight[Obj]) {
	i := slices.Index(p.running, j)
	last := len(p.running) - 1
	p.running[i], p.running[last] = p.running[last], nil
	p.running = p.running[:last]
	if j.stuck {
		p.stuck--
	}
	p.landed = append(p.landed, j)
	p.landing.signal()
}

// take appends the jobs that have landed to the given ones.
func (p *pool[Obj]) take(jobs []*flight[Obj]) []*flight[Obj] {
	p.mu.Lock()
	landed := p.landed
	jobs = append(jobs, landed...)
	clear(landed)
	p.landed = landed[:0]
	p.mu.Unlock()
	p.inFlight -= len(jobs)
	for _, j := range jobs {
		// An eighth of the latest: what was long ago says little.
		p.busy += (max(1, j.ended-j.started) - p.busy) / 8
	}
	return jobs
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

// nextStuck returns when the next job that is running will have ignored its deadline for
// too long, if one may be left behind.
func (p *pool[Obj]) nextStuck() (at time.Duration, ok bool) {
	if p.inFlight == 0 {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck >= p.maxStuck {
		return 0, false
	}
	for _, j := range p.running {
		if j.stuckAt > 0 && !j.stuck && (!ok || j.stuckAt < at) {
			at, ok = j.stuckAt, true
		}
	}
	return at, ok
}

// leaveBehind makes the jobs that have ignored their deadline for too long not count any
// more, as many as may be, and lets others run in their place.
func (p *pool[Obj]) leaveBehind(ctx context.Context) (left bool) {
	if p.inFlight == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for _, j := range p.running {
		if j.stuckAt == 0 || j.stuck || now < j.stuckAt || p.stuck >= p.maxStuck {
			continue
		}
		j.stuck, left = true, true
		p.stuck++
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

// stuckFlights returns the first object of each job that was left behind, the longest first.
func (p *pool[Obj]) stuckFlights() []stuckFlight[Obj] {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck == 0 {
		return nil
	}
	var stuck []stuckFlight[Obj]
	for _, j := range p.running {
		if j.stuck {
			stuck = append(stuck, stuckFlight[Obj]{j.items[0].Obj, j.items[0].Deleted, j.started})
		}
	}
	slices.SortFunc(stuck, func(a, b stuckFlight[Obj]) int { return int(a.since - b.since) })
	return stuck
}

// stop drops what was not started, and waits for the workers to end.
func (p *pool[Obj]) stop() {
	p.mu.Lock()
	p.stopped = true
	p.inFlight -= len(p.queue)
	p.queue = nil
	p.work.Broadcast()
	p.mu.Unlock()
	p.wg.Wait()
}
