// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/signal"
)

// Job is the unit of work of a worker: one operation, or a batch of them. It is queued, then running, then
// finished.
type Job[Obj comparable] struct {
	// Ops belong to the caller before [Pool.Start], and again once [Pool.Finished] has returned the job.
	// In between, any goroutine may read Obj and Deleted of each with the lock of the pool held.
	Ops []core.Operation[Obj]

	txn statedb.ReadTxn
	// ended is when its last call ended.
	ended time.Duration

	// The pool's lock guards the rest. started is when a worker began the job. From stuckAt on, its
	// current call takes too long; stuck: [Pool.Overdue] has seen that.
	started, stuckAt time.Duration
	stuck            bool

	// one is the array of Ops in a job with one operation. Without batches there is a job for each
	// object, and this saves an allocation.
	one [1]core.Operation[Obj]
}

// maxFree bounds the jobs whose memory is kept for others.
const maxFree = 2048

// NewJob returns a job without operations. They get the transaction txn. Like [Pool.Start], it
// belongs to the goroutine that starts jobs.
func (p *Pool[Obj]) NewJob(txn statedb.ReadTxn) *Job[Obj] {
	var j *Job[Obj]
	if last := len(p.free) - 1; last >= 0 {
		j = p.free[last]
		p.free[last], p.free = nil, p.free[:last]
	} else {
		j = new(Job[Obj])
	}
	j.txn, j.Ops = txn, j.one[:0]
	return j
}

// Recycle keeps the memory of jobs that [Pool.Finished] has returned for others, and clears the slice. An
// idle pool keeps none.
func (p *Pool[Obj]) Recycle(jobs []*Job[Obj]) {
	for _, j := range jobs {
		if len(p.free) == maxFree {
			break
		}
		*j = Job[Obj]{}
		p.free = append(p.free, j)
	}
	if p.inFlight == 0 {
		p.free = nil
	}
	clear(jobs)
}

// has reports whether is returns true for an object of the job.
func (j *Job[Obj]) has(is func(Obj) bool) bool {
	for i := range j.Ops {
		if is(j.Ops[i].Obj) {
			return true
		}
	}
	return false
}

// Pool runs jobs on workers, which it starts when they are needed. All workers share one queue, so
// that a slow operation delays only its own object.
type Pool[Obj comparable] struct {
	now         func() time.Duration
	newExecutor func(ctx context.Context) (context.Context, *Executor[Obj])
	// SomeFinished delivers when jobs have finished: once, however many they are, until it is
	// received.
	SomeFinished signal.Signal

	// The fields up to mu belong to the goroutine that starts jobs. inFlight counts the jobs that
	// were started and not returned by Finished or Recall. free are the jobs whose memory may be used
	// again. took and size are the moving averages of the duration of a job and of its number of objects.
	inFlight int
	free     []*Job[Obj]
	took     time.Duration
	size     float64

	mu       sync.Mutex
	work     sync.Cond
	queue    []*Job[Obj]
	running  []*Job[Obj]
	finished []*Job[Obj]
	// limit bounds the workers. patience is how long a call may take before it is stuck.
	limit         int
	patience      time.Duration
	workers, idle int
	stopped       bool
	// stuck is the number of jobs that are stuck. changes counts the changes of that set.
	stuck, changes int
	wg             sync.WaitGroup
}

// NewPool returns a pool without limits: no worker starts before [Pool.Configure]. now is its clock.
// newExecutor returns the executor of a worker, and the context for its calls.
func NewPool[Obj comparable](now func() time.Duration, newExecutor func(context.Context) (context.Context, *Executor[Obj])) *Pool[Obj] {
	p := &Pool[Obj]{now: now, newExecutor: newExecutor, SomeFinished: signal.New()}
	p.work.L = &p.mu
	return p
}

// Limits bound the workers of a pool.
type Limits struct {
	// Workers bounds the workers.
	Workers int
	// Timeout is the time limit of a call; 0 means none.
	Timeout time.Duration
}

// Configure changes the limits. Surplus workers end when they have nothing to do. If the limits allow
// more workers, it starts them for the jobs that are queued; ctx is their context. It is safe from any
// goroutine.
func (p *Pool[Obj]) Configure(ctx context.Context, l Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.patience = l.Workers, Patience(l.Timeout)
	p.work.Broadcast()
	for range len(p.queue) - p.idle {
		p.hire(ctx)
	}
}

const (
	// aheadTime is how much work is queued for each worker, so that it has some while the loop is
	// busy. aheadMost bounds the queued objects of a worker, so that the loop does not decide long
	// before what is run. If the mean job is shorter than aheadTime, at least one job is queued for
	// each worker.
	aheadTime = 2 * time.Millisecond
	aheadMost = 256
)

// Room returns how many more jobs may be started; 0 if all workers are stuck. Like all methods that
// use inFlight, it belongs to the goroutine that starts jobs.
func (p *Pool[Obj]) Room() int {
	p.mu.Lock()
	workers, stuck := p.limit-p.stuck, p.stuck
	p.mu.Unlock()
	ahead := 0
	if p.took > 0 && p.took < aheadTime {
		ahead = max(1, int(min(aheadMost/p.size, float64(aheadTime/p.took))))
	}
	return max(0, workers*(1+ahead)-(p.inFlight-stuck))
}

// Start queues jobs, and starts workers if the limits allow. ctx is the context of the new workers.
func (p *Pool[Obj]) Start(ctx context.Context, jobs ...*Job[Obj]) {
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

// slow is how long a job may run before it is slow.
const slow = 20 * time.Millisecond

// Moving returns how many jobs in flight are not slow. A load of slow jobs alone is no reason for the
// loop to gather work before its next pass.
func (p *Pool[Obj]) Moving() int {
	if p.inFlight == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	moving, now := p.inFlight, p.now()
	for _, j := range p.running {
		if now-j.started >= slow {
			moving--
		}
	}
	return moving
}

// hire starts a worker unless the limit is reached. The caller holds mu.
func (p *Pool[Obj]) hire(ctx context.Context) {
	if p.workers < p.limit {
		p.workers++
		p.wg.Go(func() { p.serve(ctx) })
	}
}

// serve is the goroutine of a worker. If it ends while jobs are queued, because an operation called
// runtime.Goexit, another worker replaces it.
func (p *Pool[Obj]) serve(ctx context.Context) {
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
		for len(p.queue) == 0 && !p.stopped && p.workers <= p.limit {
			p.idle++
			p.work.Wait()
			p.idle--
		}
		if len(p.queue) == 0 || p.workers > p.limit {
			// The worker may have been woken for a job: wake another one for it.
			p.work.Signal()
			return
		}
		j := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.begin(j)
		p.run(operations, x, j)
	}
}

// run runs a job. It is called with mu held, and releases it during the operations. The job finishes
// even if an operation ends the goroutine.
func (p *Pool[Obj]) run(ctx context.Context, x *Executor[Obj], j *Job[Obj]) {
	txn := j.txn
	// A stuck job must not keep a snapshot of all tables in memory; its operation still may.
	j.txn = nil
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.finish(j)
	}()
	var further func() bool
	if len(j.Ops) > 1 {
		further = func() bool { return p.further(j) }
	}
	x.Run(ctx, txn, j.Ops, further)
}

func (p *Pool[Obj]) begin(j *Job[Obj]) {
	j.started = p.now()
	j.stuckAt = j.started + p.patience
	p.running = append(p.running, j)
}

// further prepares another call of a job, which has a deadline of its own. It returns false if the job
// was stuck: then the job ends, so that its outcomes are written, and the rest of it is run again.
func (p *Pool[Obj]) further(j *Job[Obj]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.stuck {
		return false
	}
	j.stuckAt = p.now() + p.patience
	return true
}

func (p *Pool[Obj]) finish(j *Job[Obj]) {
	j.ended = p.now()
	i := slices.Index(p.running, j)
	last := len(p.running) - 1
	p.running[i], p.running[last] = p.running[last], nil
	p.running = p.running[:last]
	if j.stuck {
		p.stuck--
		p.changes++
	}
	p.finished = append(p.finished, j)
	p.SomeFinished.Send()
}

// Finished appends the jobs that have finished since its last call to jobs, which must be empty.
func (p *Pool[Obj]) Finished(jobs []*Job[Obj]) []*Job[Obj] {
	p.mu.Lock()
	finished := p.finished
	jobs = append(jobs, finished...)
	clear(finished)
	p.finished = finished[:0]
	p.mu.Unlock()
	p.inFlight -= len(jobs)
	for _, j := range jobs {
		// The average forgets old jobs.
		took := max(1, j.ended-j.started)
		size := float64(len(j.Ops))
		if p.took == 0 {
			p.took, p.size = took, size
		}
		p.took += (took - p.took) / 8
		p.size += (size - p.size) / 8
	}
	return jobs
}

// IsBusy reports whether any job is in flight.
func (p *Pool[Obj]) IsBusy() bool { return p.inFlight > 0 }

// Where returns the place of the operation on an object for which is returns true. since is when its
// job began to run; 0 if it does not run. It is safe from any goroutine.
func (p *Pool[Obj]) Where(is func(Obj) bool) (where Place, since time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.running {
		if j.has(is) {
			if j.stuck {
				return Stuck, j.started
			}
			return Running, j.started
		}
	}
	for _, j := range p.queue {
		if j.has(is) {
			return Queued, 0
		}
	}
	return Nowhere, 0
}

// Place is where an operation is in a pool.
type Place uint8

// The places. A running operation that is stuck has the place Stuck, not Running.
const (
	Nowhere Place = iota
	Queued
	Running
	Stuck
)

// Wait blocks until all workers have ended. Call [Pool.Stop] first.
func (p *Pool[Obj]) Wait() { p.wg.Wait() }

// Recall takes back and returns the jobs that no worker has begun.
func (p *Pool[Obj]) Recall() []*Job[Obj] {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := p.queue
	p.queue = nil
	p.inFlight -= len(queue)
	return queue
}

// Stop drops the jobs that no worker has begun. Workers end when they have nothing to do.
func (p *Pool[Obj]) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.inFlight -= len(p.queue)
	p.queue = nil
	p.work.Broadcast()
}
