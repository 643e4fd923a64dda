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

// Update reconciles a request. If the object does not exist, the loop treats the call as a deletion, unless it
// returned a terminal error, which ends the clean-up. The row is deleted when no work is left.
func (o operations[Req]) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, row *Row[Req]) error {
	if !row.asked {
		return nil
	}
	if err := o.held(txn); err != nil {
		return err
	}
	cleansUp, terminal := o.primary != "" && !row.present, false
	// Deferred, so that the loop is told after a panic too.
	defer func() {
		if cleansUp && !terminal {
			running.Deletion(ctx)
		}
	}()
	row.reminder.begin(o.now())
	res, failure := o.cfg.Reconciler.Reconcile(context.WithValue(ctx, callKey{}, call{o.log, row.key}), row.Request)
	terminal = reconciler.IsTerminal(failure)
	if failure == nil {
		res = row.reminder.end(res, o.now(), cleansUp)
	}
	err := outcome(res, failure)
	if !row.present && (err == nil || terminal) {
		o.drop(row, revision)
	}
	return err
}

// drop deletes a row, unless it was requested again meanwhile.
func (o operations[Req]) drop(row *Row[Req], revision statedb.Revision) {
	wtxn := o.cfg.DB.WriteTxn(o.table)
	defer wtxn.Commit()
	// The error is that of another revision: the table is locked.
	_, _, _ = o.table.CompareAndDelete(wtxn, revision, row)
}

// Delete does nothing: only rows of requests that were reconciled are deleted.
func (operations[Req]) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *Row[Req]) error {
	return nil
}
