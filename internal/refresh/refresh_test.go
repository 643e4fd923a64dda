// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

type row struct {
	id     uint64
	status status.Status
}

func (row) TableHeader() []string { return []string{"ID"} }
func (row) TableRow() []string    { return []string{""} }

var rowID = statedb.Index[row, uint64]{
	Name:       "id",
	FromObject: func(r row) index.KeySet { return index.NewKeySet(index.Uint64(r.id)) },
	FromKey:    index.Uint64,
	Unique:     true,
}

func newTable(t *testing.T) (*statedb.DB, statedb.RWTable[row]) {
	db := statedb.New()
	table, err := statedb.NewTable(db, "rows", rowID)
	require.NoError(t, err)
	return db, table
}

// health keeps the last report, and counts them.
type health struct {
	cell.Health
	said    string
	reports int
}

func (h *health) OK(said string) { h.said, h.reports = said, h.reports+1 }

// world is a table whose rows carry a status, and its Refresher. The test plays the loop.
type world struct {
	*testing.T
	refresher *refresh.Refresher[row]
	rows      *rows.Rows[row]
	health    health
	set       refresh.Settings
	// deal, if it is set, is called before each step: it plays the loop.
	deal func()
}

func play(t *testing.T, set refresh.Settings, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		db, table := newTable(t)
		w := &world{T: t, set: set, rows: rows.New(db, table, rows.Functions[row]{
			Clone:     func(r row) row { return r },
			GetStatus: func(r row) status.Status { return r.status },
			SetStatus: func(r row, s status.Status) row { r.status = s; return r },
		})}
		w.refresher = refresh.New(refresh.Config[row]{Rows: w.rows, Give: w.mark})
		w.refresher.Health = &w.health
		w.step()
		test(w)
	})
}

// mark marks rows as the loop does.
func (w *world) mark(batch []refresh.Row[row]) (after, upTo statedb.Revision) {
	var ids []uint64
	for _, r := range batch {
		ids = append(ids, r.Object.id)
	}
	after = w.rows.Revision()
	w.write(status.Refreshing(), ids...)
	return after, w.rows.Revision()
}

func (w *world) write(s status.Status, ids ...uint64) {
	wtxn := w.rows.DB.WriteTxn(w.rows.Table)
	for _, id := range ids {
		_, _, err := w.rows.Table.(statedb.RWTable[row]).Insert(wtxn, row{id, s})
		require.NoError(w, err)
	}
	wtxn.Commit()
}

func (w *world) step() { w.refresher.Step(w.set) }

// sleep lets time pass, with steps when they are due.
func (w *world) sleep(d time.Duration) {
	for end := time.Now().Add(d); ; w.step() {
		if w.deal != nil {
			w.deal()
		}
		at, ok := w.refresher.Next()
		if !ok || at.After(end) {
			time.Sleep(time.Until(end))
			return
		}
		time.Sleep(time.Until(at))
	}
}

// marked returns the rows that are marked now.
func (w *world) marked() (ids []uint64) {
	for r := range w.rows.Table.All(w.rows.DB.ReadTxn()) {
		if r.status.Kind == status.KindRefreshing {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// through makes the marked rows Done, and reports that to the Refresher.
func (w *world) through() {
	w.write(status.Done(), w.marked()...)
	w.refresher.NotePass(refresh.Pass{Seen: w.rows.Revision()})
}

func TestRowIsMarkedWhenItIsOldEnough(t *testing.T) {
	play(t, refresh.Settings{Interval: time.Hour}, func(w *world) {
		w.write(status.Done(), 1)
		w.write(status.Blocked(""), 2)
		w.sleep(20 * time.Minute)
		w.write(status.Done(), 3)
		require.Regexp(w, "^Next refresh in 1h0m0s, at .*Z$", w.health.said)
		w.sleep(40*time.Minute - 1)
		require.Empty(w, w.marked())
		w.sleep(time.Nanosecond)
		require.Equal(w, []uint64{1}, w.marked())
		require.True(w, w.refresher.Waiting())
		w.through()
		require.False(w, w.refresher.Waiting())
		w.sleep(0)
		require.Regexp(w, "^Next refresh in 20m0s, at .*Z$", w.health.said)
		w.sleep(20 * time.Minute)
		require.Equal(w, []uint64{3}, w.marked())
	})
}

// A step reads a part of the table only, and the next ones continue there.
func TestRowsThatAreNotDoneAreSkippedStepByStep(t *testing.T) {
	play(t, refresh.Settings{Interval: time.Hour}, func(w *world) {
		w.write(status.Blocked(""), upTo(5000)...)
		w.write(status.Done(), 5000)
		time.Sleep(time.Hour)
		steps := 0
		for ; !w.refresher.Waiting(); steps++ {
			w.step()
		}
		require.InDelta(w, 5, steps, 1)
		require.Equal(w, []uint64{5000}, w.marked())
		w.through()

		w.write(status.Done(), 6000)
		w.refresher.Walk(w.refresher.WalkAll())
		for steps = 0; !w.refresher.Waiting(); steps++ {
			w.step()
		}
		require.InDelta(w, 5, steps, 1)
		require.Equal(w, []uint64{5000, 6000}, w.marked())
	})
}

// Rows that wait for their permits are given when the limiter is replaced. The permits are free again.
func TestWalkContinuesWhenSettingsAreReplaced(t *testing.T) {
	hourly := rate.NewLimiter(rate.Every(time.Hour), 1)
	hourly.Allow()
	play(t, refresh.Settings{Limiter: hourly}, func(w *world) {
		w.write(status.Done(), 1, 2, 3)
		w.refresher.Walk(w.refresher.WalkAll())
		w.sleep(time.Minute)
		require.Empty(w, w.marked(), "there is no permit yet")
		w.set = refresh.Settings{}
		w.step()
		require.Equal(w, []uint64{1, 2, 3}, w.marked())
		w.through()
		require.True(w, hourly.AllowN(time.Now().Add(time.Hour), 1))
	})
}

// A change of another setting, or another walk, does not cost the permits that are waited for.
func TestPermitsAreReservedOnce(t *testing.T) {
	hourly := rate.NewLimiter(rate.Every(time.Hour), 1)
	hourly.Allow()
	play(t, refresh.Settings{Limiter: hourly}, func(w *world) {
		w.write(status.Done(), 1, 2, 3)
		for i := range time.Duration(6) {
			w.refresher.Walk(w.refresher.WalkAll())
			w.set.RoundSize++
			w.step()
			w.sleep(10*time.Minute - i%2)
		}
		require.Empty(w, w.marked())
		w.sleep(3)
		require.Equal(w, []uint64{1}, w.marked())
	})
}

func TestBatchEndsWhenReadAndNoRefreshIsInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		pass refresh.Pass
		want bool
	}{
		"not read yet":                       {refresh.Pass{Seen: 8}, false},
		"read":                               {refresh.Pass{Seen: 9}, true},
		"read, one in flight":                {refresh.Pass{Seen: 9, Refreshing: 1}, false},
		"read by the catch-up cursor":        {refresh.Pass{Seen: 2, CaughtUpFrom: 5, CaughtUpTo: 9}, true},
		"partly read by the catch-up cursor": {refresh.Pass{Seen: 2, CaughtUpFrom: 5, CaughtUpTo: 8}, false},
		"the catch-up cursor began too late": {refresh.Pass{Seen: 2, CaughtUpFrom: 6, CaughtUpTo: 9}, false},
		"read by both, two in flight":        {refresh.Pass{Seen: 9, CaughtUpFrom: 5, CaughtUpTo: 9, Refreshing: 2}, false},
	} {
		play(t, refresh.Settings{}, func(w *world) {
			w.write(status.Done(), 1, 2, 3, 4)
			w.write(status.Blocked(""), 5)
			w.refresher.Walk(w.refresher.WalkAll())
			w.step()
			require.EqualValues(w, 9, w.rows.Revision(), "the marks are 6 to 9")
			w.refresher.NotePass(c.pass)
			require.Equal(w, !c.want, w.refresher.Waiting(), name)
		})
	}
}

// The loop may take long to read a batch, and a pause may last for hours. Only calls are followed by
// a pause of their length, and another 100 ms.
func TestPauseAfterABatchIsAsLongAsItsCalls(t *testing.T) {
	for called, pause := range map[time.Duration]time.Duration{
		0: 100 * time.Millisecond, 3 * time.Second: 3100 * time.Millisecond, 2 * time.Hour: time.Hour,
	} {
		play(t, refresh.Settings{Interval: time.Minute}, func(w *world) {
			w.write(status.Done(), 1)
			w.sleep(time.Minute)
			require.True(w, w.refresher.Waiting())
			time.Sleep(time.Hour)
			w.refresher.NoteCall(called, called/2, false)
			w.refresher.NoteCall(called, called/2, true)
			w.refresher.NotePass(refresh.Pass{Seen: w.rows.Revision()})
			at, ok := w.refresher.Next()
			require.True(w, ok)
			require.Equal(w, pause, time.Until(at))
		})
	}
}

// The rows are marked in batches, in the order of keys. Each batch is marked when the one before is
// done.
func TestWalkMarksEachRowDoneBeforeTheCallOnce(t *testing.T) {
	play(t, refresh.Settings{}, func(w *world) {
		w.write(status.Done(), upTo(300)...)
		w.refresher.Walk(w.refresher.WalkAll())
		time.Sleep(time.Second)
		w.write(status.Done(), 299)
		var seen []uint64
		for w.sleep(time.Second); w.refresher.Waiting(); w.sleep(time.Second) {
			seen = append(seen, w.marked()...)
			w.through()
		}
		require.Equal(w, upTo(299), seen)
	})
}
