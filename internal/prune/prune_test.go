// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prune

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/resync"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

type row struct{ id uint64 }

func (row) TableHeader() []string { return []string{"ID"} }
func (row) TableRow() []string    { return []string{""} }

var rowID = statedb.Index[row, uint64]{
	Name:       "id",
	FromObject: func(r row) index.KeySet { return index.NewKeySet(index.Uint64(r.id)) },
	FromKey:    index.Uint64,
	Unique:     true,
}

var hourly = Settings{Interval: time.Hour, MinBackoff: time.Second, MaxBackoff: time.Minute}

// world is a table and its Pruner. The test plays the loop.
type world struct {
	*testing.T
	*Pruner[row]
	rows  *rows.Rows[row]
	ready func(statedb.WriteTxn)
}

func play(t *testing.T, lists bool) *world {
	db := statedb.New()
	table, err := statedb.NewTable(db, "rows", rowID)
	require.NoError(t, err)
	w := &world{T: t, rows: rows.New(db, table, rows.Functions[row]{
		Clone:     func(r row) row { return r },
		GetStatus: func(row) status.Status { return status.Status{} },
		SetStatus: func(r row, _ status.Status) row { return r },
	})}
	w.write(func(txn statedb.WriteTxn) { w.ready = table.RegisterInitializer(txn, "test") })
	w.Pruner = New(Config[row]{Rows: w.rows, Lists: lists})
	return w
}

func (w *world) write(f func(statedb.WriteTxn)) {
	txn := w.rows.DB.WriteTxn(w.rows.Table)
	f(txn)
	txn.Commit()
}

func (w *world) insert(ids ...uint64) {
	w.write(func(txn statedb.WriteTxn) {
		for _, id := range ids {
			_, _, err := w.rows.Writable.Table.Insert(txn, row{id})
			require.NoError(w, err)
		}
	})
}

// Due and Next are for what is not early.
func (w *world) Due(now time.Duration) bool  { return w.Pruner.Due(now, false) }
func (w *world) Next() (time.Duration, bool) { return w.Pruner.Next(false) }
func (w *world) look(set Settings)           { w.Look(w.rows.DB.ReadTxn(), set) }

func TestNothingIsPrunedBeforeTheTableIsInitialised(t *testing.T) {
	w := play(t, false)
	require.Nil(t, w.Initialized())
	w.look(hourly)
	w.Request(false)
	require.False(t, w.Due(math.MaxInt64))
	_, ok := w.Next()
	require.False(t, ok)
	initialized := w.Initialized()
	w.write(w.ready)
	<-initialized
	w.look(Settings{})
	require.Nil(t, w.Initialized())
	require.True(t, w.Due(0), "it was requested")
	require.False(t, w.Gated(), "only resyncs are gated")
}

func TestResyncWaitsForTheInitialRowsOfTheTable(t *testing.T) {
	w := play(t, true)
	w.insert(1, 2)
	w.write(w.ready)
	w.look(hourly)
	gate := w.rows.Revision()
	w.insert(3)
	require.False(t, w.Due(0))
	w.NoteAttempted(gate - 1)
	require.True(t, w.Gated())
	w.NoteAttempted(gate)
	require.False(t, w.Gated())
	require.True(t, w.Due(0))
}

func TestFailedPruneIsRetriedWithBackoff(t *testing.T) {
	w := play(t, false)
	w.write(w.ready)
	w.look(hourly)
	require.True(t, w.Due(0), "the first prune is due at once")
	require.False(t, w.Start(0, false, false))
	require.True(t, w.Draining() && w.Due(0), "operations are held back")
	w.StopDraining()
	require.False(t, w.Draining())
	require.True(t, w.Start(0, true, false))
	require.False(t, w.Due(math.MaxInt64), "the prune is running")
	for i, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		failures, after := w.NoteEnd(0, errors.New("prune: down"), hourly)
		require.Equal(t, i+1, failures)
		require.Equal(t, wait*time.Second, after)
	}
	text, awaits := w.Failure()
	require.Equal(t, "prune: down", text)
	require.False(t, awaits)
	w.Reschedule(0, time.Second)
	require.False(t, w.Due(time.Minute-1), "the retry keeps its time when the interval changes")
	require.True(t, w.Due(time.Minute))
	failures, after := w.NoteEnd(time.Minute, nil, hourly)
	require.Zero(t, failures)
	require.Equal(t, time.Hour, after)
	text, _ = w.Failure()
	require.Empty(t, text)
	at, ok := w.Next()
	require.True(t, ok)
	require.Equal(t, time.Minute+time.Hour, at)
	w.Reschedule(0, time.Second)
	require.True(t, w.Due(time.Second))
	w.Reschedule(0, 0)
	require.False(t, w.Due(math.MaxInt64))
	w.Reschedule(time.Hour, math.MaxInt64)
	require.True(t, w.Due(math.MaxInt64), "the time does not overflow")
	require.False(t, w.Due(time.Hour))
}

// The first listing of a loop that adopts waits for nothing. Until it has worked, its failures have the backoff.
func TestFirstListingBeginsBeforeTheTableIsInitialised(t *testing.T) {
	w := play(t, true)
	w.look(Settings{Once: true})
	w.Request(false)
	require.True(t, w.Pruner.Due(0, true))
	require.True(t, w.Start(0, true, false))
	w.NoteEnd(0, errors.New("resync: down"), hourly)
	require.False(t, w.Pruner.Due(time.Second-1, true))
	require.True(t, w.Pruner.Due(time.Second, true))
	at, ok := w.Pruner.Next(true)
	require.True(t, ok)
	require.Equal(t, time.Second, at)
	require.True(t, w.Start(time.Second, true, false))
	w.NoteEnd(time.Second, nil, Settings{})
	w.RaiseGate(w.rows.Revision())
	w.Request(false)
	require.False(t, w.Due(math.MaxInt64), "the next one waits for the table")
	w.write(w.ready)
	w.look(Settings{Once: true})
	w.NoteAttempted(w.rows.Revision())
	require.True(t, w.Ready() && w.Due(time.Second))
	w.insert(1)
	w.RaiseGate(w.rows.Revision())
	require.False(t, w.Due(time.Second), "the row that came meanwhile was not attempted")
}

// Another listing would have them, too.
func TestObjectsThatAreLeftAloneAreNoReasonToListAgain(t *testing.T) {
	w := play(t, true)
	left := fmt.Errorf("1 of 2 %w", resync.ErrLeftAlone)
	failures, after := w.NoteEnd(0, left, Settings{MinBackoff: time.Second, MaxBackoff: time.Minute})
	require.Zero(t, failures)
	require.Zero(t, after)
	_, planned := w.Next()
	require.False(t, planned)
	text, awaits := w.Failure()
	require.Equal(t, left.Error(), text)
	require.False(t, awaits)
	failures, after = w.NoteEnd(0, fmt.Errorf("%w; %w", resync.ErrAwaits, left), hourly)
	require.Equal(t, 1, failures)
	require.Equal(t, time.Second, after, "a resync that awaits approval is tried again")
}

func TestApprovalNeedsARefusedResync(t *testing.T) {
	w := play(t, true)
	w.Request(true)
	require.False(t, w.IsApproved())
	w.NoteEnd(0, fmt.Errorf("resync: %w", resync.ErrAwaits), hourly)
	require.True(t, w.Refused())
	w.Request(true)
	require.True(t, w.IsApproved())
	w.EndApproval()
	require.False(t, w.IsApproved())
	w.NoteEnd(0, nil, hourly)
	require.False(t, w.Refused())
}

// Work is held back for longer each time, and never for more than a tenth of the time.
func TestPruneHoldsWorkBackATenthOfTheTime(t *testing.T) {
	var d drain
	now := time.Hour
	for hold := minHold; hold < time.Minute; hold *= 2 {
		require.False(t, d.wait(now, false, false))
		require.True(t, d.holding)
		at, ok := d.next()
		require.True(t, ok)
		require.Equal(t, now+hold, at)
		require.False(t, d.wait(at-1, false, false))
		require.True(t, d.holding)
		require.False(t, d.wait(at, false, false))
		require.False(t, d.holding)
		again, ok := d.next()
		require.True(t, ok)
		require.Equal(t, at+9*hold, again)
		require.False(t, d.wait(again-1, false, false))
		require.False(t, d.holding)
		now = again
	}
	require.True(t, d.wait(now, true, false))
	require.Equal(t, drain{}, d)
}

func TestWorkIsNotHeldBackForAStuckOperation(t *testing.T) {
	var d drain
	d.wait(time.Hour, false, false)
	require.False(t, d.wait(time.Hour, false, true))
	require.False(t, d.holding)
	at, ok := d.next()
	require.True(t, ok)
	require.Equal(t, time.Hour+time.Minute, at)
	require.True(t, d.wait(time.Hour+1, true, false), "the stuck operation has returned")
	_, ok = d.next()
	require.False(t, ok)
}
