// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/ledger"
)

// batch is work that is run together: in line all of a round, on a worker one operation or one call
// for several objects. attempts[i] belongs to tasks[i], and has the index of its item.
type batch[Obj any] struct {
	items    []core.Item[Obj]
	tasks    []execute.Task[Obj]
	attempts []ledger.Attempt[Obj]
}

// add adds the task of an item.
func (b *batch[Obj]) add(item int, t *execute.Task[Obj], a *ledger.Attempt[Obj]) {
	a.Item = int32(item)
	b.tasks, b.attempts = append(b.tasks, *t), append(b.attempts, *a)
}

// empty removes everything from the batch, so that it keeps no object in memory.
func (b *batch[Obj]) empty() {
	clear(b.tasks)
	clear(b.attempts)
	b.items, b.tasks, b.attempts = nil, b.tasks[:0], b.attempts[:0]
}

// workers run jobs beside the rounds.
type workers[Obj comparable] struct {
	*execute.Pool[Obj, load[Obj]]
	// starting are the jobs that this round starts, finished those that it completes, and items the
	// items of the finished ones.
	starting, finished []*execute.Job[Obj, load[Obj]]
	items              []core.Item[Obj]
}

// load is the part of a job that the worker does not use.
type load[Obj any] struct {
	items    []core.Item[Obj]
	attempts []ledger.Attempt[Obj]
	// snapshot is the number of the snapshot that the main cursor was reading; other: an item is not
	// from that snapshot.
	snapshot uint64
	other    bool
	// one is the memory of the slices of a job for one object.
	one struct {
		item    [1]core.Item[Obj]
		attempt [1]ledger.Attempt[Obj]
	}
}

// Objects implements [execute.Load].
func (d load[Obj]) Objects(yield func(obj Obj, deleted bool) bool) {
	for i := range d.items {
		if !yield(d.items[i].Obj, d.items[i].Deleted) {
			return
		}
	}
}

func newWorkers[Obj comparable](now func() time.Duration, cfg *execute.Config[Obj]) *workers[Obj] {
	return &workers[Obj]{Pool: execute.NewPool[Obj, load[Obj]](now,
		func(ctx context.Context) (context.Context, *execute.Executor[Obj]) { return execute.New(ctx, cfg) })}
}

// add adds the task of an item to the jobs that will be started: to the last job of a batch, or as a
// job of its own.
func (w *workers[Obj]) add(txn statedb.ReadTxn, snapshot uint64, batched bool, item *core.Item[Obj], t *execute.Task[Obj], a *ledger.Attempt[Obj]) {
	if !batched || len(w.starting) == 0 {
		j := w.NewJob(txn)
		j.Load.snapshot = snapshot
		j.Load.items, j.Load.attempts = j.Load.one.item[:0], j.Load.one.attempt[:0]
		w.starting = append(w.starting, j)
	}
	j := w.starting[len(w.starting)-1]
	j.Load.other = j.Load.other || item.HasEntry()
	a.Item = int32(len(j.Load.items))
	j.Load.items, j.Load.attempts = append(j.Load.items, *item), append(j.Load.attempts, *a)
	j.Tasks = append(j.Tasks, *t)
}

// start starts the jobs that were added.
func (w *workers[Obj]) start(ctx context.Context) {
	if len(w.starting) > 0 {
		w.Start(ctx, w.starting...)
	}
	clear(w.starting)
	w.starting = w.starting[:0]
}

// take adds the finished jobs to an empty batch. outrun: some item is not from the given snapshot.
func (w *workers[Obj]) take(b *batch[Obj], snapshot uint64) (outrun bool) {
	w.finished = w.Finished(w.finished[:0])
	b.items = w.items[:0]
	for _, j := range w.finished {
		outrun = outrun || j.Load.other || j.Load.snapshot != snapshot
		for i := range j.Load.attempts {
			j.Load.attempts[i].Item += int32(len(b.items))
		}
		b.items = append(b.items, j.Load.items...)
		b.tasks, b.attempts = append(b.tasks, j.Tasks...), append(b.attempts, j.Load.attempts...)
	}
	w.items = b.items
	return outrun
}

// stuckRefreshes returns how many refreshes are stuck.
func (w *workers[Obj]) stuckRefreshes() (n int) {
	w.EachStuck(func(d *load[Obj]) {
		for i := range d.items {
			if d.items[i].Lane() == core.Refresh {
				n++
			}
		}
	})
	return n
}

// forget drops the finished jobs, so that they keep no object in memory.
func (w *workers[Obj]) forget() {
	w.Recycle(w.finished)
	clear(w.items)
	w.finished, w.items = w.finished[:0], w.items[:0]
}
