// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
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

// A loop that is stuck, or does not run at all, keeps nothing of waits that have ended with their
// context.
func TestAbandonedWaitsLeaveNothingBehind(t *testing.T) {
	for _, runs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db := statedb.New()
			table, err := statedb.NewTable(db, "rows", waitRowID)
			require.NoError(t, err)
			l, err := New(Config[*waitRow]{
				DB: db, Table: table, Operations: stuckTarget{},
				Clone:     func(r *waitRow) *waitRow { c := *r; return &c },
				GetStatus: func(r *waitRow) Status { return r.status },
				SetStatus: func(r *waitRow, s Status) *waitRow { r.status = s; return r },
			})
			require.NoError(t, err)
			wtxn := db.WriteTxn(table)
			_, _, err = table.Insert(wtxn, &waitRow{1, StatusPending()})
			require.NoError(t, err)
			wtxn.Commit()
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			if runs {
				go func() { ended <- l.Run(ctx) }()
				synctest.Wait()
			}

			for range 100 {
				for _, m := range []Milestone{Attempted, Applied} {
					brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					_, err := l.Wait(brief, 10, m)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					_, err = l.WaitFor(brief, m, &waitRow{id: 1}, &waitRow{id: 2})
					require.ErrorIs(t, err, context.DeadlineExceeded)
					_, err = l.WaitFor(brief, m, &waitRow{id: 2})
					require.ErrorIs(t, err, context.DeadlineExceeded)
					cancel()
				}
			}
			require.Empty(t, l.calls.asked.questions)
			require.Zero(t, l.keyWaits.Waiting())
			require.Zero(t, l.progress.Waiting())
			stop()
			if runs {
				require.NoError(t, <-ended)
			}
		})
	}
}

// refusingTarget is a target whose operations fail.
type refusingTarget struct{ stuckTarget }

func (refusingTarget) Update(context.Context, statedb.ReadTxn, statedb.Revision, *waitRow) error {
	return errors.New("refused")
}
