// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/ledger"
	"github.com/statekeel/statekeel/internal/observe"
	"github.com/statekeel/statekeel/internal/rows"
)

// oneHold is a core in which at most one change holds the mark.
type oneHold struct {
	revision uint64
	observed time.Duration
}

func (h *oneHold) TakeRecords(until time.Duration, _ func(core.Record[*row])) {
	if h.observed <= until {
		h.revision = 0
	}
}

func (h *oneHold) HoldsSince() (uint64, time.Duration, bool) {
	return h.revision, h.observed, h.revision > 0
}

// The mark would stop below what an interval has, or the interval would have a change that waits.
func TestNoChangeHoldsTheMarkWhileThereAreIntervals(t *testing.T) {
	db, held, now := statedb.New(), &oneHold{}, time.Second
	tables := open(t, db, "beside")
	l := ledger.NewBeside(rows.NewBeside(db, newTable(t, db, "rows")), tables, held, slog.New(slog.DiscardHandler),
		func() time.Duration { return now }, func(time.Duration) time.Time { return time.Time{} })
	pass := func(holds uint64, observed statedb.Revision, ahead ...observe.Range) *ledger.Mark {
		*held = oneHold{holds, now}
		l.Begin(now, observed)
		l.Publish(observed, ahead)
		return tables.Current(db.ReadTxn())
	}
	for _, test := range []struct {
		holds, observed, mark statedb.Revision
		ahead, intervals      []observe.Range
	}{
		{holds: 5, observed: 10, mark: 4},
		{holds: 5, observed: 10, mark: 10, ahead: []observe.Range{{After: 20, UpTo: 30}}, intervals: []observe.Range{{After: 20, UpTo: 30}}},
		{holds: 12, observed: 22, mark: 22, ahead: []observe.Range{{After: 20, UpTo: 30}}, intervals: []observe.Range{{After: 22, UpTo: 30}}},
		{holds: 25, observed: 40, mark: 40},
		{holds: 45, observed: 50, mark: 44},
	} {
		m := pass(test.holds, test.observed, test.ahead...)
		require.Equal(t, test.mark, m.Revision)
		require.Equal(t, test.intervals, m.Intervals)
	}
	at, ok := l.Next()
	require.True(t, ok)
	require.Equal(t, now+ledger.Patience, at)
	now = at
	l.Begin(now, 50)
	l.Publish(50, nil)
	require.Equal(t, statedb.Revision(50), tables.Current(db.ReadTxn()).Revision)
	_, ok = l.Next()
	require.False(t, ok)
}
