// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/metrics"
)

// Config is what executors are made from. Exactly one of Single, Batches and Rounds is used: the
// last one that is not nil.
type Config[Obj comparable] struct {
	Rows    *rows.Rows[Obj]
	Single  Operations[Obj]
	Batches BatchOperations[Obj]
	Rounds  RoundOperations[Obj]

	// Now is the clock. Timeout returns the time that a call has; 0 means no limit.
	Now     func() time.Duration
	Timeout func() time.Duration
	// Metrics returns a handle for one goroutine.
	Metrics func() metrics.Handle
	Log     *slog.Logger
	// Hook is called around each call; nil means none.
	Hook func(ctx context.Context, c Call) (context.Context, func(err error))
	// Class returns the class of an error whose text is too long to be kept.
	Class func(error) string
	// PanicPropagation: panics are not turned into errors.
	PanicPropagation bool
	// Tally counts what happens in all executors.
	Tally Tally
}

// Tally counts panics and calls that failed after their deadline. Any goroutine may read it.
type Tally struct{ Panics, Timeouts atomic.Uint64 }

// Call is a call that is about to be made.
type Call struct {
	// Operation is "update" or "delete", or "round" for both in one call.
	Operation string
	// Objects is how many objects the call is for: 1, unless it is for a batch.
	Objects int
	// Key is the text of the key of the object, or of the first of a batch; Revision and
	// Attempt are that one's.
	Key      string
	Revision statedb.Revision
	Attempt  int
}

// IsBatched reports whether operations come in batches.
func (c *Config[Obj]) IsBatched() bool { return c.Batches != nil || c.Rounds != nil }

// Executor runs tasks on the goroutine of its caller, of which there is one.
type Executor[Obj comparable] struct {
	*Config[Obj]
	// Scope is that of the calls.
	Scope   *Scope[Obj]
	metrics metrics.Handle

	// Admit reports whether another single operation may begin, and Turn is how long to go on
	// with those of one [Executor.Run]; at first all may, and for ever.
	Admit func() bool
	Turn  time.Duration
	// started is when the single operation began that is being run, began when the first did.
	started, began time.Duration
}

// New returns an executor, and the context for what it runs.
func New[Obj comparable](ctx context.Context, cfg *Config[Obj]) (context.Context, *Executor[Obj]) {
	s := &Scope[Obj]{rows: cfg.Rows}
	x := &Executor[Obj]{
		Config: cfg, Scope: s, metrics: cfg.Metrics(),
		Admit: func() bool { return true }, Turn: forEver,
	}
	return context.WithValue(ctx, running.Key{}, s), x
}

// forEver is longer than any turn.
const forEver = time.Duration(1) << 61

// Run runs tasks in order, each of which has [ErrNotRun] before. It starts nothing once ctx has
// ended, and may stop early for others to have their turn. further is called before each call for a
// batch but the first, and reports whether that may begin; nil: it may. If an operation ends the
// goroutine, the tasks say how far it came.
func (x *Executor[Obj]) Run(ctx context.Context, txn statedb.ReadTxn, tasks []Task[Obj], further func() bool) {
	if x.IsBatched() {
		x.runBatch(ctx, txn, tasks, further)
	} else {
		x.runSingle(ctx, txn, tasks)
	}
}
