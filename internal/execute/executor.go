// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/needs"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Config configures executors, and is shared by them. Exactly one of Single, Batches and Rounds is
// used: the last one that is not nil.
type Config[Obj any] struct {
	Rows    *rows.Rows[Obj]
	Single  Operations[Obj]
	Batches BatchOperations[Obj]
	Rounds  RoundOperations[Obj]

	// Now is the clock. Timeout returns the time limit of a call; 0 means no limit.
	Now     func() time.Duration
	Timeout func() time.Duration
	// Metrics returns a metrics handle for one goroutine.
	Metrics func() metrics.Handle
	Log     *slog.Logger
	// Hook is called before each call, and the function that it returns after the call; nil means no
	// hook. ID is what it is told of the reconciler.
	ID   inspect.ID
	Hook func(ctx context.Context, c Call) (context.Context, func(err error))
	// Needs has what others need of the objects of the loop.
	Needs *needs.Needs[Obj]
	// Look looks at an object in the target, and compares it with a row of the table, or with a deletion. nil means that no
	// operation looks.
	Look func(ctx context.Context, txn statedb.ReadTxn, row Obj, deleted bool) (core.Sight, error)
	// PanicPropagation disables the recovery of panics.
	PanicPropagation bool
	// Tally has the counters of all executors with this Config.
	Tally Tally
}

// Tally counts panics, and calls that failed after their deadline. Any goroutine may read it.
type Tally struct{ Panics, Timeouts atomic.Uint64 }

// Call describes a call that is about to be made.
type Call struct {
	Reconciler inspect.ID
	// Operation is "update" or "delete", or "round" for a call with both.
	Operation string
	// Objects is the number of objects of the call: 1 except for a batch.
	Objects int
	// Key is the text of the key of the object, or of the first object of a batch. Revision and
	// Attempt are those of the same object.
	Key      string
	Revision statedb.Revision
	Attempt  int
}

// IsBatched reports whether operations are called with batches.
func (c *Config[Obj]) IsBatched() bool { return c.Batches != nil || c.Rounds != nil }

// Executor runs operations on the goroutine of its caller. It is not safe for concurrent use.
type Executor[Obj any] struct {
	cfg *Config[Obj]
	// Scope is the scope of the calls.
	Scope   *Scope[Obj]
	metrics metrics.Handle

	// began is when the turn began. at is when its last operation ended, or the caller did something else.
	began, at time.Duration
	// late is the timeout of the last call if that ended after its deadline; else 0.
	late time.Duration
}

// New returns an executor, and the context for its calls.
func New[Obj any](ctx context.Context, cfg *Config[Obj]) (context.Context, *Executor[Obj]) {
	s := &Scope[Obj]{rows: cfg.Rows, Needs: cfg.Needs}
	return context.WithValue(ctx, running.Key{}, s), &Executor[Obj]{cfg: cfg, Scope: s, metrics: cfg.Metrics()}
}

// Run runs a batch, or a turn of one single operation; the Err of each operation is [ErrNotRun] before. It starts
// no call after ctx has ended. further is called before the second call and each later one, looks included, and reports
// whether that call may begin; nil means that it may. If an operation ends the goroutine, their errors show which have run.
func (x *Executor[Obj]) Run(ctx context.Context, txn statedb.ReadTxn, ops []core.Operation[Obj], further func() bool) {
	switch {
	case ctx.Err() != nil:
	case x.cfg.IsBatched():
		x.runBatch(ctx, txn, ops, further)
	default:
		x.BeginTurn()
		defer x.EndTurn()
		x.RunNext(ctx, txn, &ops[0], further)
	}
}

// BeginTurn begins a turn: single operations run one after the other on the goroutine of the caller, which ends it
// with [Executor.EndTurn].
func (x *Executor[Obj]) BeginTurn() {
	x.began = x.cfg.Now()
	x.at = x.began
	x.Leave()
}

// EndTurn ends a turn.
func (x *Executor[Obj]) EndTurn() { x.Scope.Set(Calling[Obj]{}) }

// Leave is called before the operations of a turn move to other memory: a goroutine that an operation has left
// behind may still write its note.
func (x *Executor[Obj]) Leave() { x.Scope.Set(Calling[Obj]{Since: x.began}) }

// Took returns how long the turn has taken, up to the end of its last operation.
func (x *Executor[Obj]) Took() time.Duration { return x.at - x.began }

// Resume is called before the next operation of a turn if something else took time since the last one: otherwise
// that counts as time of the operation.
func (x *Executor[Obj]) Resume() { x.at = x.cfg.Now() }

// RunNext runs the next operation of a turn; its Err is [ErrNotRun] before. further is that of [Executor.Run].
func (x *Executor[Obj]) RunNext(ctx context.Context, txn statedb.ReadTxn, op *core.Operation[Obj], further func() bool) {
	looks := op.Turn.Looks
	if !x.ready(ctx, txn, op) || looks && (ctx.Err() != nil || further != nil && !further()) {
		x.Resume()
		return
	}
	x.Scope.one.Store(op)
	op.Run.Err = ErrGoexit
	if !op.Deleted {
		op.Outcome.Object = clone(x.cfg.Rows, op)
	}
	name := NameOf(op.Deleted)
	x.keep(op, x.call(ctx, name, name, op, 1, func(ctx context.Context) error {
		if op.Deleted {
			return x.cfg.Single.Delete(ctx, txn, op.RowRevision, op.Outcome.Object)
		}
		return x.cfg.Single.Update(ctx, txn, op.RowRevision, op.Outcome.Object)
	}))
	// The clock is read once an operation: the end of one is the start of the next.
	ended := x.cfg.Now()
	op.Run.Took = ended - x.at
	x.at = ended
	x.measure(op, op.Run.Took)
	if looks {
		x.lookAgain(ctx, op, further)
	}
}

// keep stores the error of an operation.
func (x *Executor[Obj]) keep(op *core.Operation[Obj], err error) {
	// The Error method is the user's, and may end the goroutine, too.
	op.Run.Err = ErrGoexit
	op.Run.Err = outcome.Keep(err)
	op.Run.Polls = op.Run.Err != nil && !op.Deleted && !op.Run.Deletion && outcome.Is(op.Run.Err, core.DoneAgain)
}

// measure counts a part of the time of a call for the operations of one kind, of which op is the first.
func (x *Executor[Obj]) measure(op *core.Operation[Obj], share time.Duration) {
	op.Run.FirstOfCall, op.Run.Share = true, share
	if op.Deleted {
		x.metrics.DeleteDuration(share)
	} else {
		x.metrics.UpdateDuration(share)
	}
}
