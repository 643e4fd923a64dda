// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"context"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
)

// operations reconciles the rows of a controller's table.
type operations[Req comparable] struct{ *Controller[Req] }

// Update reconciles a request. If the object does not exist, the loop treats the call as a
// deletion, unless it returned a terminal error, which ends the clean-up.
func (o operations[Req]) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, row *Row[Req]) (err error) {
	if err := o.held(txn); err != nil {
		return err
	}
	row.life.begin(o.now)
	succeeded, terminal := false, false
	// Deferred, so that the loop is told after a panic too.
	defer func() {
		exists, gone := row.life.end(revision, succeeded || terminal, succeeded && err != nil)
		if gone {
			o.leaving.add(row.life)
		}
		if o.primary != "" && !exists && !terminal {
			running.Deletion(ctx)
		}
	}()
	res, failure := o.cfg.Reconciler.Reconcile(context.WithValue(ctx, callKey{}, call{o.log, row.life.key}), row.Request)
	succeeded, terminal = failure == nil, reconciler.IsTerminal(failure)
	if succeeded {
		res = row.life.remind(res, o.now, o.primary != "")
	}
	return outcome(res, failure)
}

// Delete does nothing: only rows of requests that were reconciled are deleted.
func (operations[Req]) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *Row[Req]) error {
	return nil
}
