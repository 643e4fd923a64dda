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

// operations reconcile the rows of a controller's table.
type operations[Req comparable] struct{ *Controller[Req] }

// Update reconciles a request. One without an object is a deletion, unless it came to a terminal
// error: that says that there is no use in going on.
func (o operations[Req]) Update(ctx context.Context, txn statedb.ReadTxn, _ statedb.Revision, row *Row[Req]) error {
	if err := o.held(txn); err != nil {
		return err
	}
	terminal := false
	if o.primary != "" && !row.present {
		// It is told last, and also of a panic.
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

// Delete has nothing to do: only rows of requests that were reconciled are deleted.
func (operations[Req]) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *Row[Req]) error {
	return nil
}

// Prune has nothing to do: what the target has is the user's business.
func (operations[Req]) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*Row[Req], statedb.Revision]) error {
	return nil
}
