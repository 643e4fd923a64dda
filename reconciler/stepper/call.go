// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package stepper

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// Call is the current reconciliation of an engine: the arguments of the operation, and the results
// of the hook. Engines embed it. It is valid until the reconciliation ends.
type Call[Obj any] struct {
	// Results are the results that the hook adds to.
	*Results

	// ctx is a field because the hook has no argument for it.
	ctx      context.Context
	txn      statedb.ReadTxn
	revision statedb.Revision
	object   Obj
	deleted  bool
}

// Context returns the context of the operation, never nil. It ends when the reconciler stops or at
// the deadline.
func (c *Call[Obj]) Context() context.Context {
	if c.ctx == nil {
		return context.Background()
	}
	return c.ctx
}

// Txn returns the snapshot for reading other rows. It must not be kept. It is nil if the engine was
// not called by a reconciler.
func (c *Call[Obj]) Txn() statedb.ReadTxn { return c.txn }

// Revision returns the revision of the row, or of its deletion.
func (c *Call[Obj]) Revision() statedb.Revision { return c.revision }

// Object returns the row. It is a clone that the hook may change, unless the row was deleted.
// Changes are written with the outcome.
func (c *Call[Obj]) Object() Obj { return c.object }

// Deleted reports whether the row was deleted from the table.
func (c *Call[Obj]) Deleted() bool { return c.deleted }

// SetResults replaces the results that the hook adds to. If a reconciler called the engine, they
// are replaced until the reconciliation ends. Results other than the current ones are emptied
// first, so that a reconciliation does not see the results of another. nil means new results. With
// several workers each reconciliation needs its own results.
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

// reconcile runs an engine, notes its text, and returns the outcome.
func (c *Call[Obj]) reconcile(run func(), note func() string) error {
	// Deferred, so that both hold after a panic too.
	defer func() {
		if text := note(); text != "" {
			reconciler.Note(c.Context(), text)
		}
	}()
	defer c.markDeletion()
	run()
	return c.Outcome()
}

// markDeletion tells the loop that the operation is a deletion if the row is being finalized, in
// whatever state the walk ended.
func (c *Call[Obj]) markDeletion() {
	if c.finalizing() {
		running.Deletion(c.Context())
	}
}

// finalizing reports whether the row is being finalized. It holds for a deleted row even if the
// hook has reset the results.
func (c *Call[Obj]) finalizing() bool {
	return c.deleted || c.OpsCount(OperationCRIsFinalizing) > 0
}
