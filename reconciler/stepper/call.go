// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
)

// Call is what an engine was called for: what [reconciler.Operations] are handed, and the
// results of that. It is part of the engines, and good for one reconciliation.
type Call[Obj any] struct {
	// Results are what the hook adds to.
	*Results

	// ctx is that of the call, for the hook, which has no argument for it.
	ctx      context.Context
	txn      statedb.ReadTxn
	revision statedb.Revision
	object   Obj
	deleted  bool
}

// Context returns the context of the operation, which ends when the reconciler stops or at
// the deadline; never nil.
func (c *Call[Obj]) Context() context.Context {
	if c.ctx == nil {
		return context.Background()
	}
	return c.ctx
}

// Txn returns the snapshot to look up other rows in. It must not be kept. It is nil if the
// engine was not called by a reconciler.
func (c *Call[Obj]) Txn() statedb.ReadTxn { return c.txn }

// Revision returns that of the row, or of its deletion.
func (c *Call[Obj]) Revision() statedb.Revision { return c.revision }

// Object returns the row. It is a clone, and may be changed, unless it was deleted: what is
// changed is written with the outcome.
func (c *Call[Obj]) Object() Obj { return c.object }

// Deleted reports whether the row was deleted from the table.
func (c *Call[Obj]) Deleted() bool { return c.deleted }

// SetResults makes the hook add to other results than those that the engine has of its own,
// until the end of the reconciliation if the engine is called by a reconciler. Results that are
// not those of the engine already are emptied, so that one reconciliation does not see what
// another has left in them. nil means new ones. With several workers, each reconciliation needs
// results of its own.
func (c *Call[Obj]) SetResults(results *Results) {
	switch {
	case results == nil:
		results = &Results{}
	case results != c.Results:
		results.ResetAllResults()
	}
	c.Results = results
}

// begin prepares for a reconciliation.
func (c *Call[Obj]) begin(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Obj, deleted bool) {
	c.ResetAllResults()
	c.ctx, c.txn, c.revision, c.object, c.deleted = ctx, txn, revision, obj, deleted
	if deleted {
		c.AddOpSuccess("", OperationCRIsFinalizing)
	}
}

// finalizing reports whether nothing of the row shall be left: also of a deleted one of
// which the hook has reset the results.
func (c *Call[Obj]) finalizing() bool {
	return c.deleted || c.OpsCount(OperationCRIsFinalizing) > 0
}

// markDeletion tells the loop that the row is being finalized, however far that came.
func (c *Call[Obj]) markDeletion() {
	if c.finalizing() {
		running.Deletion(c.Context())
	}
}

// forget lets go of what it was called for. own are the results to begin with next time.
func (c *Call[Obj]) forget(own *Results) {
	own.ResetAllResults()
	*c = Call[Obj]{Results: own}
}
