// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/execute"
)

// workers run jobs beside the rounds.
type workers[Obj comparable] struct {
	*execute.Pool[Obj]
	// starting are the jobs that this round starts, finished those that it completes, and ops the
	// operations of the finished ones.
	starting, finished []*execute.Job[Obj]
	ops                []core.Operation[Obj]
}

func newWorkers[Obj comparable](now func() time.Duration, cfg *execute.Config[Obj]) *workers[Obj] {
	return &workers[Obj]{Pool: execute.NewPool(now,
		func(ctx context.Context) (context.Context, *execute.Executor[Obj]) { return execute.New(ctx, cfg) })}
}

// add adds an operation to the jobs that will be started: to the last job of a batch, or as a job of its
// own.
func (w *workers[Obj]) add(txn statedb.ReadTxn, batched bool, op *core.Operation[Obj]) {
	if !batched || len(w.starting) == 0 {
		w.starting = append(w.starting, w.NewJob(txn))
	}
	j := w.starting[len(w.starting)-1]
	j.Ops = append(j.Ops, *op)
}

// start starts the jobs that were added.
func (w *workers[Obj]) start(ctx context.Context) {
	if len(w.starting) > 0 {
		w.Start(ctx, w.starting...)
	}
	clear(w.starting)
	w.starting = w.starting[:0]
}

// take returns the operations of the finished jobs.
func (w *workers[Obj]) take() []core.Operation[Obj] {
	w.finished = w.Finished(w.finished[:0])
	for _, j := range w.finished {
		w.ops = append(w.ops, j.Ops...)
	}
	return w.ops
}

// stuckRefreshes returns how many refreshes are stuck.
func (w *workers[Obj]) stuckRefreshes() (n int) {
	w.EachStuck(func(ops []core.Operation[Obj]) {
		for i := range ops {
			if ops[i].Lane() == core.Refresh {
				n++
			}
		}
	})
	return n
}

// forget drops the finished jobs, so that they keep no object in memory.
func (w *workers[Obj]) forget() {
	w.Recycle(w.finished)
	clear(w.ops)
	w.finished, w.ops = w.finished[:0], w.ops[:0]
}
