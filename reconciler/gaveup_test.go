// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"iter"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// waitRow is a row that a test waits for.
type waitRow struct {
	id     uint64
	status Status
}

func (*waitRow) TableHeader() []string { return []string{"ID"} }

func (*waitRow) TableRow() []string { return []string{""} }

var waitRowID = statedb.Index[*waitRow, uint64]{
	Name:       "id",
	FromObject: func(r *waitRow) index.KeySet { return index.NewKeySet(index.Uint64(r.id)) },
	FromKey:    index.Uint64,
	Unique:     true,
}

// stuckTarget is a target whose operations last until the reconciler stops.
type stuckTarget struct{}

func (stuckTarget) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, _ *waitRow) error {
	<-ctx.Done()
	return ctx.Err()
}

func (t stuckTarget) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, r *waitRow) error {
	return t.Update(ctx, txn, revision, r)
}

func (stuckTarget) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*waitRow, statedb.Revision]) error {
	return nil
}

// refusingTarget is a target whose operations fail.
type refusingTarget struct{ stuckTarget }

func (refusingTarget) Update(context.Context, statedb.ReadTxn, statedb.Revision, *waitRow) error {
	return errors.New("refused")
}
