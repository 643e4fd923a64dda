// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/signal"
)

// Load is what the caller of a [Pool] keeps with a job: the pool asks it only for the objects.
type Load[Obj any] interface {
	// Objects calls yield with the object of each task, and whether it is deleted, until it
	// returns false. It is called from any goroutine, at any time, with the lock of the pool.
	Objects(yield func(obj Obj, deleted bool) bool)
}

// Job is what one worker runs at a time: the task of one operation, or those of a batch. It is
// queued, then running, then finished.
type Job[Obj comparable, L Load[Obj]] struct {
	// Load is the caller's, and so are Tasks before [Pool.Start] and after [Pool.Finished].
	Load  L
	Tasks []Task[Obj]

	txn statedb.ReadTxn
	// epoch is that in which it was started, ended when all of it was over.
	epoch time.Duration
	ended time.Duration

	// The rest is guarded by the pool's lock. A job that is running is stuck from a time on: it
	// ignores its deadline, or has none and runs long. left: it was left behind, and another may
	// run in its place. named: health names it. deadline: the call that it is in has one,
	// whatever the settings say by now.
	started, stuckAt             time.Duration
	stuck, left, named, deadline bool

	// one is where the task is of a job that has one: then there is a job for each object, and
	// it takes one piece of memory.
	one [1]Task[Obj]
}

// NewJob returns a job without tasks, whose operations get the given transaction.
func NewJob[Obj comparable, L Load[Obj]](txn statedb.ReadTxn) *Job[Obj, L] {
	j := &Job[Obj, L]{txn: txn}
	j.Tasks = j.one[:0]
	return j
}

// first returns the first object, and how many others there are.
func (j *Job[Obj, L]) first() (obj Obj, deleted bool, others int) {
	others = -1
	for o, d := range j.Load.Objects {
		if others++; others == 0 {
			obj, deleted = o, d
		}
	}
	return obj, deleted, others
}

// has reports whether is returns true for an object of the job.
func (j *Job[Obj, L]) has(is func(Obj) bool) bool {
	for obj := range j.Load.Objects {
		if is(obj) {
			return true
		}
	}
	return false
}

// Pool runs jobs on workers, which are started as they are needed. The queue is one for
// all, so that a slow operation holds up nothing but its own object.
type Pool[Obj comparable, L Load[Obj]] struct {
	now         func() time.Duration
	newExecutor func(ctx context.Context) (context.Context, *Executor[Obj])
	// SomeFinished delivers when a job has finished: once, however many that was before it was looked at.
	SomeFinished signal.Signal

	// What follows, up to mu, belongs to the goroutine that starts jobs. inFlight counts those
	// that were started and not taken back; took and size are the mean time of a job and the mean
	// number of its objects.
	inFlight int
	took     time.Duration
	size     float64
	// young counts the jobs that were started in this epoch and in the one before, and
	// not taken back.
	epoch time.Duration
	young [2]int
	// everLeft counts those that were ever left behind.
	everLeft uint64

	mu       sync.Mutex
	work     sync.Cond
	queue    []*Job[Obj, L]
	running  []*Job[Obj, L]
	finished []*Job[Obj, L]
	// limit is how many workers there may be beside those that were left behind, of which
	// there are left, and may be maxLeft. deadline: calls have one. patience is how long
	// one may take before it is stuck.
	limit, left, maxLeft int
	deadline             bool
	patience             time.Duration
	workers, idle        int
	stopped              bool
	// named counts the jobs that health names, changes how often those did.
	named, changes int
	wg             sync.WaitGroup
}

// NewPool returns a pool without workers: see [Pool.Configure]. now is its clock. newExecutor makes
// what a worker runs tasks with, and the context for them.
func NewPool[Obj comparable, L Load[Obj]](now func() time.Duration, newExecutor func(context.Context) (context.Context, *Executor[Obj])) *Pool[Obj, L] {
	p := &Pool[Obj, L]{now: now, newExecutor: newExecutor, SomeFinished: signal.New()}
	p.work.L = &p.mu
	return p
}

// Limits bound the workers of a pool.
type Limits struct {
	// Workers is how many there may be, beside those that were left behind, of which there
	// may be MaxStuck.
	Workers, MaxStuck int
	// Timeout is the time that a call has; 0 means no limit.
	Timeout time.Duration
}

// Configure changes the limits. Workers that are too many end when they have nothing to do.
func (p *Pool[Obj, L]) Configure(l Limits) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.maxLeft, p.deadline, p.patience = l.Workers, l.MaxStuck, l.Timeout > 0, Patience(l.Timeout)
	p.work.Broadcast()
}

const (
	// aheadTime is how much work is queued for each worker, so that it has some while
	// the loop is busy, and aheadMost the most objects that are, so that what comes next
	// is not decided long before its turn. At least one job is queued.
	aheadTime = 2 * time.Millisecond
	aheadMost = 256
)

// Free returns how many more jobs the pool has use for.
func (p *Pool[Obj, L]) Free() int {
	p.mu.Lock()
	workers, left := p.limit, p.left
	p.mu.Unlock()
	ahead := 0
	if p.took > 0 && p.took < aheadTime {
		ahead = max(1, int(min(aheadMost/p.size, float64(aheadTime/p.took))))
	}
	return max(0, workers*(1+ahead)-(p.inFlight-left))
}

// Start queues jobs.
func (p *Pool[Obj, L]) Start(ctx context.Context, jobs ...*Job[Obj, L]) {
	p.inFlight += len(jobs)
	p.age()
	p.young[0] += len(jobs)
	for _, j := range jobs {
		j.epoch = p.epoch
	}
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

// epochTime is how long an epoch is. What is in flight for longer than two is slow: it makes for
// no load that others could gather in.
const epochTime = 10 * time.Millisecond

// age goes on to the epoch of this moment.
func (p *Pool[Obj, L]) age() {
	switch now := p.now() / epochTime; now - p.epoch {
	case 0:
	case 1:
		p.epoch, p.young = now, [2]int{0, p.young[0]}
	default:
		p.epoch, p.young = now, [2]int{}
	}
}

// back notes that a job is not in flight any more.
func (p *Pool[Obj, L]) back(j *Job[Obj, L]) {
	p.inFlight--
	if d := p.epoch - j.epoch; d < 2 {
		p.young[d]--
	}
}

// Moving returns how many jobs are in flight that are not slow.
func (p *Pool[Obj, L]) Moving() int {
	if p.inFlight == 0 {
		return 0
	}
	p.age()
	return p.young[0] + p.young[1]
}

// hire starts a worker if there may be another.
func (p *Pool[Obj, L]) hire(ctx context.Context) {
	if p.workers-p.left < p.limit {
		p.workers++
		p.wg.Go(func() { p.serve(ctx) })
	}
}

// serve is what a worker does. One that ends while there is work, as an operation that calls
// runtime.Goexit makes it, is replaced.
func (p *Pool[Obj, L]) serve(ctx context.Context) {
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
			// A worker that was woken for a job and does not take it passes it on.
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

// run is called with the lock, and gives it back meanwhile. The job finishes also if its
// operation ends the goroutine.
func (p *Pool[Obj, L]) run(ctx context.Context, x *Executor[Obj], j *Job[Obj, L]) {
	txn := j.txn
	// A job that is stuck does not keep a snapshot of all tables, unless its operation does.
	j.txn = nil
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.finish(j)
	}()
	var further func() bool
	if len(j.Tasks) > 1 {
		further = func() bool { return p.further(j) }
	}
	x.Run(ctx, txn, j.Tasks, further)
}

func (p *Pool[Obj, L]) begin(j *Job[Obj, L]) {
	j.started = p.now()
	j.stuckAt, j.deadline = j.started+p.patience, p.deadline
	p.running = append(p.running, j)
}

// further begins another call of a job, which has a deadline of its own. It returns false if
// the job is stuck: others may run in its place, and a prune.
func (p *Pool[Obj, L]) further(j *Job[Obj, L]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j.stuck {
		return false
	}
	j.stuckAt, j.deadline = p.now()+p.patience, p.deadline
	return true
}

func (p *Pool[Obj, L]) finish(j *Job[Obj, L]) {
	j.ended = p.now()
	i := slices.Index(p.running, j)
	last := len(p.running) - 1
	p.running[i], p.running[last] = p.running[last], nil
	p.running = p.running[:last]
	if j.left {
		p.left--
	}
	if j.named {
		p.named--
		p.changes++
	}
	p.finished = append(p.finished, j)
	p.SomeFinished.Send()
}

// Finished appends what has finished since the last call of it to the given slice, which is empty.
func (p *Pool[Obj, L]) Finished(jobs []*Job[Obj, L]) []*Job[Obj, L] {
	p.mu.Lock()
	finished := p.finished
	jobs = append(jobs, finished...)
	clear(finished)
	p.finished = finished[:0]
	p.mu.Unlock()
	for _, j := range jobs {
		p.back(j)
		// What was long ago says little.
		took := max(1, j.ended-j.started)
		size := float64(len(j.Tasks))
		if p.took == 0 {
			p.took, p.size = took, size
		}
		p.took += (took - p.took) / 8
		p.size += (size - p.size) / 8
	}
	return jobs
}

// IsBusy reports whether anything is in flight.
func (p *Pool[Obj, L]) IsBusy() bool { return p.inFlight > 0 }

// Where returns where in the pool the operation is on an object for which is returns true, and since
// when it runs. Safe from any goroutine.
func (p *Pool[Obj, L]) Where(is func(Obj) bool) (where Place, since time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.running {
		if j.has(is) {
			if j.left {
				return LeftBehind, j.started
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

// The places: an operation that runs and was left behind is LeftBehind.
const (
	Nowhere Place = iota
	Queued
	Running
	LeftBehind
)

// EverLeft returns how many jobs were left behind since the start.
func (p *Pool[Obj, L]) EverLeft() uint64 { return p.everLeft }

// Wait blocks until all workers have ended; see [Pool.Stop].
func (p *Pool[Obj, L]) Wait() { p.wg.Wait() }

// Recall takes back what no worker has begun.
func (p *Pool[Obj, L]) Recall() []*Job[Obj, L] {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := p.queue
	p.queue = nil
	for _, j := range queue {
		p.back(j)
	}
	return queue
}

// Stop drops what no worker has begun, and lets the workers end that have nothing to do.
func (p *Pool[Obj, L]) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.inFlight -= len(p.queue)
	p.queue = nil
	p.work.Broadcast()
}
