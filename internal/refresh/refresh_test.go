// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// health keeps the last report. It has a mutex because reading in the test does not order a later
// report after it.
type health struct {
	cell.Health
	mu    sync.Mutex
	last  string
	times int
}

func (h *health) OK(said string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.times = said, h.times+1
}

// said returns the last report.
func (h *health) said() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// reports returns the number of reports.
func (h *health) reports() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.times
}

// world is a table and its Refresher. The test plays the loop.
type world struct {
	*testing.T
	refresher *refresh.Refresher[row]
	rows      *rows.Rows[row]
	health    health
	settings  refresh.Settings
	replace   context.CancelFunc
}

func play(t *testing.T, set refresh.Settings, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		table, err := statedb.NewTable(db, "rows", rowID)
		require.NoError(t, err)
		w := &world{T: t, rows: rows.New(db, table, rows.Functions[row]{
			Clone:     func(r row) row { return r },
			GetStatus: func(r row) status.Status { return r.status },
			SetStatus: func(r row, s status.Status) row { r.status = s; return r },
		})}
		w.set(set)
		w.refresher = refresh.New(refresh.Config[row]{
			Rows: w.rows, Settings: func() refresh.Settings { return w.settings }, Stopped: make(chan struct{}),
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { w.refresher.Run(ctx, &w.health); close(ended) }()
		synctest.Wait()
		test(w)
		stop()
		<-ended
	})
}

// set replaces the settings.
func (w *world) set(set refresh.Settings) {
	replace := w.replace
	w.settings = set
	w.settings.Replaced, w.replace = context.WithCancel(context.Background())
	if replace != nil {
		replace()
	}
}

func (w *world) write(s status.Status, ids ...uint64) {
	wtxn := w.rows.DB.WriteTxn(w.rows.Table)
	for _, id := range ids {
		_, _, err := w.rows.Table.(statedb.RWTable[row]).Insert(wtxn, row{id, s})
		require.NoError(w, err)
	}
	wtxn.Commit()
}

// marked returns the rows that are marked now.
func (w *world) marked() (ids []uint64) {
	synctest.Wait()
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
	synctest.Wait()
}

func TestRowIsMarkedWhenItIsOldEnough(t *testing.T) {
	play(t, refresh.Settings{Interval: time.Hour}, func(w *world) {
		w.write(status.Done(), 1)
		w.write(status.Blocked(""), 2)
		time.Sleep(20 * time.Minute)
		w.write(status.Done(), 3)
		require.Equal(w, "Next refresh in 1h0m0s", w.health.said())
		time.Sleep(40*time.Minute - 1)
		require.Empty(w, w.marked())
		time.Sleep(time.Nanosecond)
		require.Equal(w, []uint64{1}, w.marked())
		require.True(w, w.refresher.Waiting())
		w.through()
		require.False(w, w.refresher.Waiting())
		require.Equal(w, "Next refresh in 20m0s", w.health.said())
		time.Sleep(20 * time.Minute)
		require.Equal(w, []uint64{3}, w.marked())
	})
}

// The rows are marked in batches, in the order of keys. Each batch is marked when the one before is
// done.
func TestRefreshAllMarksEachRowDoneBeforeTheCallOnce(t *testing.T) {
	play(t, refresh.Settings{}, func(w *world) {
		ids := make([]uint64, 300)
		for i := range ids {
			ids[i] = uint64(i)
		}
		w.write(status.Done(), ids...)
		w.refresher.RefreshAll()
		time.Sleep(time.Second)
		w.write(status.Done(), 299)
		var seen []uint64
		for w.refresher.Waiting() {
			seen = append(seen, w.marked()...)
			w.through()
			time.Sleep(time.Second)
		}
		require.Equal(w, ids[:299], seen)
	})
}

// A batch that waits for its permits is dropped when the settings are replaced. Its walk does not
// skip the rows of that batch.
func TestWalkContinuesWhenSettingsAreReplaced(t *testing.T) {
	hourly := rate.NewLimiter(rate.Every(time.Hour), 1)
	hourly.Allow()
	play(t, refresh.Settings{Limiter: hourly}, func(w *world) {
		w.write(status.Done(), 1, 2, 3)
		w.refresher.RefreshAll()
		time.Sleep(time.Minute)
		require.Empty(w, w.marked(), "there is no permit yet")
		w.set(refresh.Settings{})
		require.Equal(w, []uint64{1, 2, 3}, w.marked())
		w.through()
	})
}

func TestHealthReportsThatRefreshingIsOff(t *testing.T) {
	play(t, refresh.Settings{Interval: time.Hour}, func(w *world) {
		w.set(refresh.Settings{})
		w.write(status.Done(), 1)
		time.Sleep(2 * time.Hour)
		require.Empty(w, w.marked())
		require.Equal(w, "Refreshing is off", w.health.said())
	})
}
