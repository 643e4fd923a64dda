// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"
	"iter"

	"github.com/cilium/statedb"
)

// operations reconcile the rows of a controller's table.
type operations[Req comparable] struct {
	reconciler Reconciler[Req]
	leaving    *leaving
}

// Update reconciles a request. A row without an object has served its purpose when
// nothing is left to be done.
func (o operations[Req]) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, row *Row[Req]) error {
	o.leaving.stay(row.keys)
	err := outcome(o.reconciler.Reconcile(ctx, row.Request))
	if err == nil && !row.present {
		o.leaving.leave(row.keys)
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
