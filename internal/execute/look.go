// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package execute

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/outcome"
)

// ready prepares the call of an operation, and reports whether it is to be made. It looks at the target first if the
// operation is to look. The call is not made if the target is right, even if somebody else has looked, if the operation only
// looks, or if the first look at an object that was applied fails: then the operation has failed. A retry whose look fails
// is called.
func (x *Executor[Obj]) ready(ctx context.Context, txn statedb.ReadTxn, op *core.Operation[Obj]) bool {
	if op.Turn.Cause == core.CauseAdopted || op.FoundRight() {
		op.Run.Err = ErrGoexit
		op.Outcome.Object = clone(x.cfg.Rows, op)
		op.Run.Err = nil
		return false
	}
	if !op.Turn.Looks {
		return true
	}
	op.Run.Err = ErrGoexit
	sight, err := x.look(ctx, txn, op)
	op.Run.Look = &core.Look{Before: sight}
	op.Run.Err = ErrNotRun
	switch {
	case sight.Right:
		return x.ready(ctx, txn, op)
	case op.OnlyLooks():
		op.Run.Err = nil
		return false
	case err != nil && op.Turn.Cause == core.CauseVerify:
		op.Outcome.Object = clone(x.cfg.Rows, op)
		x.keep(op, err)
		return false
	}
	return true
}

// look looks at the object of an operation in the target, within a deadline of its own.
func (x *Executor[Obj]) look(ctx context.Context, txn statedb.ReadTxn, op *core.Operation[Obj]) (core.Sight, error) {
	var sight core.Sight
	x.Scope.Set(Calling[Obj]{Operation: "get", Object: op.Row, Single: true, Since: x.cfg.Now()})
	err := x.bounded(ctx, "get", func(ctx context.Context) (err error) {
		sight, err = x.cfg.Look(ctx, txn, op.Row, op.Deleted)
		return err
	})
	// A call that follows begins now.
	x.Resume()
	x.Scope.Set(Calling[Obj]{Since: x.at})
	if outcome.Of(err) != nil {
		// An outcome means nothing here.
		err = errors.New(outcome.TextOf(err))
	}
	if err != nil {
		return core.Sight{}, fmt.Errorf("looking at the object in the target: %w", err)
	}
	sight.Seen = true
	return sight, nil
}

// lookAgain looks at the target after an operation that has looked before, and whose call succeeded. further is that of
// [Executor.Run].
func (x *Executor[Obj]) lookAgain(ctx context.Context, op *core.Operation[Obj], further func() bool) {
	l := op.Run.Look
	if l == nil || !l.Before.Seen || l.Before.Right || op.OnlyLooks() || op.Run.Err != nil && !op.Run.Polls || ctx.Err() != nil {
		return
	}
	if further == nil || further() {
		// A look that fails shows nothing. A call that is stuck must not keep the snapshot of the operation in memory.
		l.After, _ = x.look(ctx, x.cfg.Rows.DB.ReadTxn(), op)
	}
}
