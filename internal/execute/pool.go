// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"cmp"
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
type Job[Obj any] struct {
	// Ops are its operations. Readers may read Obj, Deleted and the lane of each, and no other field: the
	// worker writes these without the lock of the pool.
	Ops []core.Operation[Obj]
	// State is that of the job. Began is when a worker began it. From stuckAt on, its current call takes
	// too long.
	State          JobState
	Began, stuckAt time.Duration

	txn statedb.ReadTxn
	// one is the array of Ops in a job with one operation. Without batches there is a job for each
	// object, and this saves an allocation.
	one [1]core.Operation[Obj]
}

// JobState is the state of a job in a pool.
type JobState uint8

// The states. That of a running job which is stuck is Stuck, not Running.
const (
	Queued JobState = iota
	Running
	Stuck
)

// Pool runs jobs on workers, which it starts when they are needed. All workers share one queue, so
// that a slow operation delays only its own object.
//
// Readers on any goroutine may call Jobs, StuckJobs and NumStuck. The other methods are for the goroutine that starts jobs.
type Pool[Obj any] struct {
	cfg *Config[Obj]
	// SomeFinished delivers when jobs have finished: once, however many they are, until it is
	// received.
	SomeFinished signal.Signal

	// inFlight counts the jobs that were started and not taken back. free are jobs whose memory may be used
	// again. Both belong to the goroutine that starts jobs.
	inFlight int
	free     []*Job[Obj]

	// mu guards the rest. Workers wait for work.
	mu       sync.Mutex
	work     sync.Cond
	queue    []*Job[Obj]
	running  []*Job[Obj]
	finished []*Job[Obj]
	// maxWorkers bounds workers, the number of the workers. timeout is the time limit of a call; 0 means none.
	maxWorkers, workers int
	timeout             time.Duration
	// took is the moving average of the duration of a job, which forgets old jobs; 0 before the first.
	took time.Duration
	// stuck is the number of jobs that are stuck. changes counts the changes of that set.
	stuck, changes int
	wg             sync.WaitGroup
}

// NewPool returns a pool that starts no worker before [Pool.Configure].
func NewPool[Obj any](cfg *Config[Obj]) *Pool[Obj] {
	p := &Pool[Obj]{cfg: cfg, SomeFinished: signal.New()}
	p.work.L = &p.mu
	return p
}

// Configure changes how many workers there may be. Surplus workers end when they have nothing to do. If more are
// allowed, it starts them for the jobs that are queued; ctx is their context. A call is stuck some time after the timeout;
// 0 means that it has none.
func (p *Pool[Obj]) Configure(ctx context.Context, workers int, timeout time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.maxWorkers, p.timeout = workers, timeout
	p.work.Broadcast()
	p.hire(ctx)
}

// Start queues operations with their transaction, as one job if they are called in batches, else as a job
// each. It starts workers if the limits allow; ctx is their context.
func (p *Pool[Obj]) Start(ctx context.Context, txn statedb.ReadTxn, ops []core.Operation[Obj]) {
	if len(ops) == 0 {
		return
	}
	n, size := len(ops), 1
	if p.cfg.IsBatched() {
		n, size = 1, len(ops)
	}
	for len(p.free) < n {
		p.free = append(p.free, new(Job[Obj]))
	}
	jobs := p.free[len(p.free)-n:]
	for i, j := range jobs {
		j.txn, j.Ops = txn, append(j.one[:0], ops[i*size:(i+1)*size]...)
	}
	p.inFlight += n
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, jobs...)
	clear(jobs)
	p.free = p.free[:len(p.free)-n]
	p.hire(ctx)
}

// hire wakes workers for the queued jobs, and starts some if too few are free. The caller holds mu.
func (p *Pool[Obj]) hire(ctx context.Context) {
	free := p.workers - len(p.running)
	for range min(len(p.queue), free) {
		p.work.Signal()
	}
	for range min(len(p.queue)-free, p.maxWorkers-p.workers) {
		p.workers++
		p.wg.Go(func() { p.serve(ctx) })
	}
}

// serve is the goroutine of a worker. If it ends while jobs are queued, because the limits were changed or an
// operation called runtime.Goexit, another worker gets them.
func (p *Pool[Obj]) serve(ctx context.Context) {
	operations, x := New(ctx, p.cfg)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() {
		p.workers--
		p.hire(ctx)
	}()
	for p.workers <= p.maxWorkers {
		if len(p.queue) == 0 {
			p.work.Wait()
			continue
		}
		j := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.run(operations, x, j)
	}
}

// run runs a job. It is called with mu held, and releases it during the operations. The job finishes
// even if an operation ends the goroutine.
func (p *Pool[Obj]) run(ctx context.Context, x *Executor[Obj], j *Job[Obj]) {
	j.State, j.Began = Running, p.cfg.Now()
	j.stuckAt = j.Began + StuckAfter(p.timeout)
	p.running = append(p.running, j)
	txn := j.txn
	// A stuck job must not keep a snapshot of all tables in memory; its operation still may.
	j.txn = nil
	p.mu.Unlock()
	defer func() {
		// The wait for the lock is no part of the job: the loop holds it just before it asks for room.
		took := max(1, p.cfg.Now()-j.Began)
		p.mu.Lock()
		p.took = cmp.Or(p.took, took)
		p.took += (took - p.took) / 8
		i := slices.Index(p.running, j)
		p.running = slices.Delete(p.running, i, i+1)
		if j.State == Stuck {
			p.stuck--
			p.changes++
		}
		p.finished = append(p.finished, j)
		p.SomeFinished.Send()
	}()
	var further func() bool
	if len(j.Ops) > 1 || j.Ops[0].Turn.Looks {
		further = func() bool { return p.further(j) }
	}
	x.Run(ctx, txn, j.Ops, further)
}

// Finished appends to ops the operations of the jobs that have finished since its last call.
func (p *Pool[Obj]) Finished(ops []core.Operation[Obj]) []core.Operation[Obj] {
	return p.take(&p.finished, ops)
}

// Recall takes back the jobs that no worker has begun, and returns their operations.
func (p *Pool[Obj]) Recall() []core.Operation[Obj] { return p.take(&p.queue, nil) }

// maxFree bounds the jobs whose memory is kept for others.
const maxFree = 2048

// take empties a list of jobs, and appends their operations to ops.
func (p *Pool[Obj]) take(list *[]*Job[Obj], ops []core.Operation[Obj]) []core.Operation[Obj] {
	rest := len(p.free)
	p.mu.Lock()
	p.free = append(p.free, *list...)
	clear(*list)
	*list = (*list)[:0]
	p.mu.Unlock()
	for _, j := range p.free[rest:] {
		ops = append(ops, j.Ops...)
		*j = Job[Obj]{}
		p.inFlight--
	}
	p.free = slices.Delete(p.free, min(len(p.free), maxFree), len(p.free))
	return ops
}

// Forget drops the memory that is kept for other jobs if none is in flight.
func (p *Pool[Obj]) Forget() {
	if p.inFlight == 0 {
		p.free = nil
	}
}

// IsBusy reports whether any job is in flight.
func (p *Pool[Obj]) IsBusy() bool { return p.inFlight > 0 }

// AwaitsSome reports whether any job is in flight that is not stuck.
func (p *Pool[Obj]) AwaitsSome() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight > p.stuck
}

const (
	// aheadTime is how much work is queued for each worker, so that it has some while the loop is
	// busy. aheadMost bounds the queued objects of a worker, so that the loop does not decide long
	// before what is run. If the mean job is shorter than aheadTime, at least one job is queued for
	// each worker, and no more if it is a batch.
	aheadTime = 2 * time.Millisecond
	aheadMost = 256
)

// Room returns how many more jobs may be started; 0 if all workers are stuck.
func (p *Pool[Obj]) Room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	ahead := 0
	switch {
	case p.took == 0 || p.took >= aheadTime:
	case p.cfg.IsBatched():
		ahead = 1
	default:
		ahead = int(min(aheadMost, aheadTime/p.took))
	}
	return max(0, (p.maxWorkers-p.stuck)*(1+ahead)-(p.inFlight-p.stuck))
}

// slow is how long a job may run before it is slow.
const slow = 20 * time.Millisecond

// IsLate reports whether more jobs are queued than there are free workers, and jobs are slow: these were queued when jobs were
// quicker, and others should have their turn first.
func (p *Pool[Obj]) IsLate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.took >= slow && len(p.queue) > max(0, p.maxWorkers-len(p.running))
}

// Moving returns how many jobs in flight are not slow. A load of slow jobs alone is no reason for the
// loop to gather work before its next pass.
func (p *Pool[Obj]) Moving(now time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	moving := p.inFlight
	for _, j := range p.running {
		if now-j.Began >= slow {
			moving--
		}
	}
	return moving
}

// Jobs yields the jobs that run, the longest first, then those that are queued, with the lock of the pool held.
func (p *Pool[Obj]) Jobs(yield func(*Job[Obj]) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, jobs := range [...][]*Job[Obj]{p.running, p.queue} {
		for _, j := range jobs {
			if !yield(j) {
				return
			}
		}
	}
}

// StuckJobs yields the stuck jobs, the longest first, with the lock of the pool held. It visits no queued job.
func (p *Pool[Obj]) StuckJobs(yield func(*Job[Obj]) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck == 0 {
		return
	}
	for _, j := range p.running {
		if j.State == Stuck && !yield(j) {
			return
		}
	}
}

// Stop drops the jobs that no worker has begun, and blocks until all workers have ended.
func (p *Pool[Obj]) Stop() {
	p.Recall()
	p.Configure(context.Background(), 0, 0)
	p.wg.Wait()
}

const (
	// maxGrace bounds how long an operation may run beyond its deadline before it is stuck.
	maxGrace = time.Second
	// Long is how long a call without a deadline may take before it is stuck.
	Long = time.Minute
	// forEver is a time that a timer never reaches.
	forEver = time.Duration(1) << 61
)

// StuckAfter returns how long a call with a timeout may take before it is stuck: twice the timeout, or
// a second more if that is less. Without a timeout (0), it returns [Long].
func StuckAfter(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return Long
	}
	return min(timeout, forEver) + min(timeout, maxGrace)
}

// NextStuck returns when the next job may be stuck; false if there is none. It includes queued jobs,
// which may begin at once: nothing else would wake the loop for them.
func (p *Pool[Obj]) NextStuck(now time.Duration) (at time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at = now + StuckAfter(p.timeout)
	for _, j := range p.running {
		if j.State == Running {
			at = min(at, j.stuckAt)
		}
	}
	return at, len(p.queue)+len(p.running) > p.stuck
}

// Overdue marks the jobs that have become stuck.
func (p *Pool[Obj]) Overdue(now time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.running {
		if j.State == Running && now >= j.stuckAt {
			j.State = Stuck
			p.stuck++
			p.changes++
		}
	}
}

// further prepares another call of a job, which has a deadline of its own. It returns false if the job
// was stuck: then the job ends, so that its outcomes are written, and the rest of it is run again. A job that has only
// looked goes on: it would be stuck again.
func (p *Pool[Obj]) further(j *Job[Obj]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	j.stuckAt = p.cfg.Now() + StuckAfter(p.timeout)
	if j.State == Stuck && !slices.ContainsFunc(j.Ops, func(op core.Operation[Obj]) bool { return op.Run.FirstOfCall }) {
		j.State = Running
		p.stuck--
		p.changes++
	}
	return j.State != Stuck
}

// NumStuck returns how many jobs are stuck, and a number that changes whenever that set changes. all:
// every worker that the limits allow is stuck.
func (p *Pool[Obj]) NumStuck() (n, changes int, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stuck, p.changes, p.stuck > 0 && p.stuck >= p.maxWorkers
}
