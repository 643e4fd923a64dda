// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"iter"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// operations reconciles the rows of a controller's table.
type operations[Req comparable] struct{ *Controller[Req] }

// Update reconciles a request. If the object does not exist, the loop treats the call as a
// deletion, unless it returned a terminal error, which ends the clean-up.
func (o operations[Req]) Update(ctx context.Context, txn statedb.ReadTxn, _ statedb.Revision, row *Row[Req]) error {
	if err := o.held(txn); err != nil {
		return err
	}
	terminal := false
	if o.primary != "" && !row.present {
		// Deferred, so that the loop is told after a panic too.
		defer func() {
			if !terminal {
				running.Deletion(ctx)
			}
		}()
	}
	was := row.settled
	row.settled = false
	err := outcome(o.cfg.Reconciler.Reconcile(o.withLogger(ctx, row), row.Request))
	terminal = reconciler.IsTerminal(err)
	if row.settled = err == nil || terminal; row.settled != was {
		running.Changed(ctx)
	}
	if row.gone() {
		o.leaving.add(row.keys)
	}
	return err
}

// Delete does nothing: only rows of requests that were reconciled are deleted.
func (operations[Req]) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *Row[Req]) error {
	return nil
}

// Prune does nothing: the controller does not know what the target has.
func (operations[Req]) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*Row[Req], statedb.Revision]) error {
	return nil
}
