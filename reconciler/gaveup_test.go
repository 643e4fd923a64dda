// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/keywaits"
)

// waitRow is a row that a test waits for.
type waitRow struct {
	id     uint64
	status Status
}

func (*waitRow) TableHeader() []string { return []string{"ID"} }
func (*waitRow) TableRow() []string    { return []string{""} }

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

// The loop looks at a few of the objects in each pass, so that other work goes on in between.
func TestWaitForManyObjectsAsksTheLoopAboutFewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 3*keywaits.Limit + 1
		var mu sync.Mutex
		// keys is how many keys were made for the question that is answered; 0 if none is.
		var keys, questions int
		counted := waitRowID
		counted.FromObject = func(r *waitRow) index.KeySet {
			mu.Lock()
			defer mu.Unlock()
			if !isCalledBy("takeCalls") {
				keys = 0
				return waitRowID.FromObject(r)
			}
			if keys++; keys == 1 {
				questions++
			}
			require.LessOrEqual(t, keys, keywaits.Limit)
			return waitRowID.FromObject(r)
		}
		db := statedb.New()
		table, err := statedb.NewTable(db, "rows", counted)
		require.NoError(t, err)
		l, err := New(Config[*waitRow]{DB: db, Table: table, Operations: refusingTarget{}, Options: []Option{
			WithoutPruning(), WithSettings(func(s *Settings) { s.MinBackoff, s.MaxBackoff = 1<<50, 1<<50 }),
		}})
		require.NoError(t, err)
		wtxn := db.WriteTxn(table)
		var objs []*waitRow
		for id := range uint64(many) {
			objs = append(objs, &waitRow{id: id})
			_, _, err = table.Insert(wtxn, objs[id])
			require.NoError(t, err)
		}
		wtxn.Commit()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		over, cancel := context.WithTimeout(t.Context(), time.Minute)
		for _, m := range []Milestone{Attempted, Applied} {
			rest, err := l.WaitFor(over, m, objs...)
			if m == Attempted {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			require.Len(t, rest.Keys, many)
			for _, u := range rest.Keys {
				require.Equal(t, 1, u.Attempts)
			}
		}
		cancel()
		require.Equal(t, 2*4, questions)
		stop()
		require.NoError(t, <-ended)
	})
}

// isCalledBy reports whether a function with a name is on the stack.
func isCalledBy(name string) bool {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for f, more := frames.Next(); ; f, more = frames.Next() {
		if strings.HasSuffix(f.Function, "."+name) {
			return true
		} else if !more {
			return false
		}
	}
}
