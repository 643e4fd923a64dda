// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prune

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

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
	rows *rows.Rows[row]
	// tracked has the keys that have an entry in the core.
	tracked map[uint64]bool
	ready   func(statedb.WriteTxn)
	// during is called at the end of a listing.
	during func()
}

func play(t *testing.T, sweeps bool, budget Budget) *world {
	db := statedb.New()
	table, err := statedb.NewTable(db, "rows", rowID)
	require.NoError(t, err)
	w := &world{T: t, tracked: map[uint64]bool{}, during: func() {}, rows: rows.New(db, table, rows.Functions[row]{
		Clone:     func(r row) row { return r },
		GetStatus: func(row) status.Status { return status.Status{} },
		SetStatus: func(r row, _ status.Status) row { return r },
	})}
	w.write(func(txn statedb.WriteTxn) { w.ready = table.RegisterInitializer(txn, "test") })
	w.Pruner = New(Config[row]{
		Rows: w.rows, Sweeps: sweeps, Budget: budget, Tracks: func(r row) bool { return w.tracked[r.id] },
	})
	return w
}

// ready returns a world that sweeps, whose table is initialised and attempted.
func ready(t *testing.T, budget Budget) *world {
	w := play(t, true, budget)
	w.write(w.ready)
	w.look(Settings{})
	w.NoteAttempted(w.rows.Revision())
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

func (w *world) look(set Settings) { w.Look(w.rows.DB.ReadTxn(), set) }

// list begins a sweep of a target that has the given objects.
func (w *world) list(ids ...uint64) error {
	w.Request(false)
	require.True(w, w.Due(0))
	require.True(w, w.Start(0, true, false))
	return w.List(w.Context(), w.rows.DB.ReadTxn(), func(_ context.Context, _ statedb.ReadTxn, yield func(row) bool) error {
		for _, id := range ids {
			yield(row{id})
		}
		w.during()
		return nil
	})
}

// orphans ends the sweep and returns its orphans.
func (w *world) orphans() []uint64 {
	_, sweeping := w.NoteListed(time.Second)
	require.True(w, sweeping)
	require.False(w, w.Due(math.MaxInt64), "the sweep is not over")
	found, ok := w.Finish(w.rows.Revision())
	require.True(w, ok)
	require.NoError(w, found.Err)
	require.Equal(w, time.Second, found.Took)
	var ids []uint64
	for _, o := range found.Orphans {
		ids = append(ids, o.id)
	}
	return ids
}

func TestNothingIsPrunedBeforeTheTableIsInitialised(t *testing.T) {
	w := play(t, false, Budget{})
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
	require.False(t, w.Gated(), "only sweeps are gated")
}

func TestSweepWaitsForTheInitialRowsOfTheTable(t *testing.T) {
	w := play(t, true, Budget{})
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
	w := play(t, false, Budget{})
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

func TestOrphanIsInNeitherTheTableNorTheLoop(t *testing.T) {
	for name, c := range map[string]struct {
		during, after func(w *world)
		want          []uint64
	}{
		"in the table":                   {nil, nil, []uint64{7, 8}},
		"inserted during the listing":    {func(w *world) { w.insert(7) }, nil, []uint64{8}},
		"inserted after the listing":     {nil, func(w *world) { w.insert(8) }, []uint64{7}},
		"tracked during the listing":     {func(w *world) { w.tracked[7] = true }, nil, []uint64{8}},
		"tracked after the listing":      {nil, func(w *world) { w.tracked[8] = true }, []uint64{7}},
		"main has passed their deletion": {nil, func(w *world) { w.NoteDeletion(row{7}); w.NoteDeletion(row{9}) }, []uint64{8}},
	} {
		t.Run(name, func(t *testing.T) {
			w := ready(t, Budget{})
			w.insert(1)
			if c.during != nil {
				w.during = func() { c.during(w) }
			}
			require.NoError(t, w.list(7, 1, 8, 7))
			if c.after != nil {
				c.after(w)
			}
			require.Equal(t, c.want, w.orphans())
		})
	}
}

func TestSweepEndsWhenMainHasPassedTheListing(t *testing.T) {
	w := ready(t, Budget{})
	w.insert(1)
	require.NoError(t, w.list(1, 2))
	n, sweeping := w.NoteListed(0)
	require.Equal(t, 2, n)
	require.True(t, sweeping)
	upTo := w.rows.Revision()
	w.insert(3)
	_, ok := w.Finish(upTo - 1)
	require.False(t, ok)
	found, ok := w.Finish(upTo)
	require.True(t, ok)
	require.Equal(t, Found[row]{Listed: 2, Orphans: []row{{2}}, Revision: upTo + 1}, found)
	_, ok = w.Finish(upTo)
	require.False(t, ok, "a sweep ends once")
}

func TestFailedListingIsNoSweep(t *testing.T) {
	down := errors.New("down")
	w := ready(t, Budget{})
	w.Start(0, true, false)
	err := w.List(t.Context(), w.rows.DB.ReadTxn(), func(_ context.Context, _ statedb.ReadTxn, yield func(row) bool) error {
		yield(row{1})
		return down
	})
	require.ErrorIs(t, err, down)
	n, sweeping := w.NoteListed(0)
	require.Equal(t, 1, n)
	require.False(t, sweeping)
	ctx, stop := context.WithCancel(t.Context())
	err = w.List(ctx, w.rows.DB.ReadTxn(), func(_ context.Context, _ statedb.ReadTxn, yield func(row) bool) error {
		stop()
		require.False(t, yield(row{1}))
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
}

// An approval is valid for one sweep, and only after a refused one.
func TestApprovalIsForOneRefusedSweep(t *testing.T) {
	w := ready(t, Budget{Objects: 1})
	w.Request(true)
	sweep := func() Found[row] {
		require.NoError(t, w.list(1, 2))
		found, ok := w.Finish(w.rows.Revision())
		require.True(t, ok)
		w.NoteEnd(0, found.Err, hourly)
		return found
	}
	found := sweep()
	require.Error(t, found.Err)
	require.Empty(t, found.Orphans)
	require.Equal(t, 2, found.Listed)
	require.True(t, w.Refused())
	w.Request(true)
	require.Len(t, sweep().Orphans, 2)
	require.False(t, w.Refused())
	require.Error(t, sweep().Err)
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

func TestSweepOfMoreThanItsBudgetIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		budget          Budget
		orphans, listed int
		refused         string
	}{
		"no budget":                {Budget{}, 10, 10, ""},
		"at the budget":            {Budget{Objects: 3}, 3, 10, ""},
		"one too many":             {Budget{Objects: 3}, 4, 10, "the table has no row for 4 of the 10 objects in the target, more than the budget of 3 objects: "},
		"at the fraction":          {Budget{Fraction: 0.25}, 3, 12, ""},
		"above the fraction":       {Budget{Fraction: 0.25}, 3, 11, "the table has no row for 3 of the 11 objects in the target, more than the budget of 25 % of them: "},
		"both, too many objects":   {Budget{Objects: 3, Fraction: 0.9}, 4, 10, "the budget of 3 objects: "},
		"both, above the fraction": {Budget{Objects: 30, Fraction: 0.1}, 4, 10, "the budget of 10 % of them: "},
		"nothing was listed":       {Budget{Objects: 1, Fraction: 0.1}, 0, 0, ""},
	} {
		err := c.budget.check(c.orphans, c.listed)
		if c.refused == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.refused, name)
		}
	}
}
