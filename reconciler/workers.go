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

// batch is work that is run together: in line all of a round, on a worker one operation or
// one call for many. attempts[i] is that of tasks[i], and names its item.
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

// empty takes all out of the batch, so that it pins no object.
func (b *batch[Obj]) empty() {
	clear(b.tasks)
	clear(b.attempts)
	b.items, b.tasks, b.attempts = nil, b.tasks[:0], b.attempts[:0]
}

// workers run batches beside the rounds.
type workers[Obj comparable] struct {
	*execute.Pool[Obj, load[Obj]]
	// starting are the jobs of this round, finished those that were taken in it, and items the
	// items of these.
	starting, finished []*execute.Job[Obj, load[Obj]]
	items              []core.Item[Obj]
}

// load is what of a batch is not for the worker.
type load[Obj any] struct {
	items    []core.Item[Obj]
	attempts []ledger.Attempt[Obj]
	// snapshot is the number of the one that main was reading; other: some of it was not
	// from there.
	snapshot uint64
	other    bool
	// one is where the slices are of a job for one object.
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

// add adds the task of an item to what will be started: to the last job, or as a job of its own.
func (w *workers[Obj]) add(txn statedb.ReadTxn, snapshot uint64, batched bool, item *core.Item[Obj], t *execute.Task[Obj], a *ledger.Attempt[Obj]) {
	if !batched || len(w.starting) == 0 {
		j := execute.NewJob[Obj, load[Obj]](txn)
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

// start starts what was added.
func (w *workers[Obj]) start(ctx context.Context) {
	if len(w.starting) > 0 {
		w.Start(ctx, w.starting...)
	}
	clear(w.starting)
	w.starting = w.starting[:0]
}

// take adds what has finished to an empty batch. outrun: something of it was not from the given
// snapshot.
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

// forget forgets what was taken, so that it pins no object.
func (w *workers[Obj]) forget() {
	clear(w.finished)
	clear(w.items)
	w.finished, w.items = w.finished[:0], w.items[:0]
}
