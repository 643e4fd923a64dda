// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh_test

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/status"
)

// beside is a table without statuses, its Refresher, and a loop that the test plays: it takes
// batches at once, and each of its operations takes the time cost.
type beside struct {
	*testing.T
	refresher *refresh.Refresher[row]
	db        *statedb.DB
	table     statedb.RWTable[row]
	health    health
	world     world
	began     time.Time
	cost      time.Duration
	// free has a token while the loop takes batches. playing has the goroutines of the loop, which end with
	// ctx.
	free    chan struct{}
	playing sync.WaitGroup
	ctx     context.Context

	mu sync.Mutex
	// handed has the batches that were handed over, at their times.
	handed []handed
}

type handed struct {
	at  time.Duration
	ids []uint64
}

// counted is a table that counts the rows that are read in the order of revisions.
type counted struct {
	statedb.RWTable[row]
	read atomic.Int64
}

func (l *counted) LowerBound(txn statedb.ReadTxn, q statedb.Query[row]) iter.Seq2[row, statedb.Revision] {
	return func(yield func(row, statedb.Revision) bool) {
		for r, revision := range l.RWTable.LowerBound(txn, q) {
			l.read.Add(1)
			if !yield(r, revision) {
				return
			}
		}
	}
}

func playBeside(t *testing.T, batches bool, set refresh.Settings, before, test func(w *beside)) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		table, err := statedb.NewTable(db, "rows", rowID)
		require.NoError(t, err)
		w := &beside{T: t, db: db, table: &counted{RWTable: table}, began: time.Now(), free: make(chan struct{}, 1)}
		w.free <- struct{}{}
		w.world = world{T: t, rows: rows.NewBeside(db, w.table)}
		w.world.set(set)
		w.refresher = refresh.New(refresh.Config[row]{
			Rows: w.world.rows, Batches: batches, Hand: w.hand,
			Settings: func() refresh.Settings { return w.world.settings }, Stopped: make(chan struct{}),
		})
		if before != nil {
			before(w)
		}
		ctx, stop := context.WithCancel(t.Context())
		w.ctx = ctx
		ended := make(chan struct{})
		go func() { w.refresher.Run(ctx, &w.health); close(ended) }()
		defer func() { stop(); <-ended; w.playing.Wait() }()
		synctest.Wait()
		test(w)
	})
}

// hand takes a batch as soon as the loop is free, and ends its pass.
func (w *beside) hand(rows []refresh.Row[row], _ statedb.Revision) <-chan struct{} {
	taken := make(chan struct{})
	w.playing.Go(func() {
		select {
		case <-w.ctx.Done():
			return
		case <-w.free:
		}
		defer func() { w.free <- struct{}{} }()
		close(taken)
		h := handed{at: time.Since(w.began)}
		for _, r := range rows {
			h.ids = append(h.ids, r.Object.id)
			time.Sleep(w.cost)
		}
		w.mu.Lock()
		w.handed = append(w.handed, h)
		w.mu.Unlock()
		took := time.Duration(len(rows)) * w.cost
		w.refresher.NoteCalls(refresh.Calls{Longest: max(1, took), Took: took, Succeeded: true})
		w.refresher.NotePass(refresh.Pass{})
	})
	return taken
}

func (w *beside) write(ids ...uint64) { w.world.write(status.Status{}, ids...) }

func (w *beside) delete(ids ...uint64) {
	wtxn := w.db.WriteTxn(w.table)
	for _, id := range ids {
		_, _, err := w.table.Delete(wtxn, row{id: id})
		require.NoError(w, err)
	}
	wtxn.Commit()
}

// pass lets time pass, and returns the batches that were handed over.
func (w *beside) pass(d time.Duration) []handed {
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.handed
	w.handed = nil
	return taken
}

// ids returns the rows of batches, in order.
func ids(batches []handed) (ids []uint64) {
	for _, b := range batches {
		ids = append(ids, b.ids...)
	}
	return ids
}

func upTo(n uint64) (ids []uint64) {
	for id := range n {
		ids = append(ids, id)
	}
	return ids
}

func hourly() refresh.Settings { return refresh.Settings{Interval: time.Hour, RoundSize: 1000} }

func TestRowsAreSpreadOverTheInterval(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.write(1, 2, 3) }, func(w *beside) {
		require.Equal(w, "Next refresh in 20m0s", w.health.said())
		revision := w.world.rows.Revision()
		for lap := range time.Duration(3) {
			require.Equal(w, []handed{
				{lap*time.Hour + 20*time.Minute, []uint64{1}},
				{lap*time.Hour + 40*time.Minute, []uint64{2}},
				{lap*time.Hour + 60*time.Minute, []uint64{3}},
			}, w.pass(time.Hour))
		}
		require.Equal(w, revision, w.world.rows.Revision(), "nothing is written")
	})
}

func TestRowsOfOneMomentAreHandedTogether(t *testing.T) {
	set := refresh.Settings{Interval: 10 * time.Second}
	playBeside(t, false, set, func(w *beside) { w.write(upTo(10_000)...) }, func(w *beside) {
		batches := w.pass(time.Second)
		require.InDelta(w, 100, len(batches), 10, "10 ms each")
		require.InDelta(w, 1000, len(ids(batches)), 10)
	})
}

// As soon as calls are known to be short, a lap has as many batches as it needs, spread evenly.
func TestLapIsInBatches(t *testing.T) {
	set := hourly()
	set.RoundSize = 100
	playBeside(t, true, set, func(w *beside) { w.write(upTo(1000)...) }, func(w *beside) {
		require.Len(w, ids(w.pass(time.Hour)), 1000)
		batches := w.pass(time.Hour)
		require.Len(w, batches, 10)
		for i, b := range batches {
			require.Len(w, b.ids, 100)
			require.Equal(w, time.Hour+time.Duration(i+1)*6*time.Minute, b.at)
		}
	})
}

func TestChangedRowMovesToTheNextLap(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.write(1, 2) }, func(w *beside) {
		w.pass(10 * time.Minute)
		w.write(1)
		require.Equal(w, []handed{{30 * time.Minute, []uint64{2}}}, w.pass(50*time.Minute))
		require.Equal(w, []uint64{2, 1}, ids(w.pass(time.Hour)))
	})
}

func TestDeletedRowsAreNotHandedOver(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.write(1, 2) }, func(w *beside) {
		w.delete(1, 2)
		require.Empty(w, w.pass(3*time.Hour))
		require.Equal(w, "Next refresh in 1h0m0s", w.health.said())
		w.write(3)
		require.Equal(w, []uint64{3}, ids(w.pass(2*time.Hour)))
	})
}

// A lap that takes longer than the interval is followed by the next at once, and the refreshes take
// half of the loop's time.
func TestSlowLoopGetsLongLaps(t *testing.T) {
	playBeside(t, false, refresh.Settings{Interval: time.Minute}, func(w *beside) {
		w.cost = time.Second
		w.write(upTo(100)...)
	}, func(w *beside) {
		handed := ids(w.pass(time.Hour))
		require.InDelta(w, 1800, len(handed), 5)
		for i, id := range handed {
			require.Equal(w, uint64(i%100), id)
		}
	})
}

// The time that refreshes take does not make each lap begin later.
func TestShortDelaysOfLapsDoNotAddUp(t *testing.T) {
	playBeside(t, false, refresh.Settings{Interval: time.Minute}, func(w *beside) { w.cost = time.Second; w.write(1) }, func(w *beside) {
		batches := w.pass(time.Hour + time.Second)
		require.Len(w, batches, 60)
		require.Equal(w, time.Hour, batches[59].at)
	})
}

// After the loop was busy for long, the rows that were due are handed over, but those of the next
// lap are spread again.
func TestLapAfterALongDelayIsSpreadAgain(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.write(upTo(8)...) }, func(w *beside) {
		<-w.free
		w.pass(10 * time.Hour)
		w.free <- struct{}{}
		require.Equal(w, upTo(8), ids(w.pass(time.Second)))
		require.Equal(w, upTo(4), ids(w.pass(30*time.Minute)))
	})
}

func TestRefreshAllHandsEachRowNotWrittenSinceOnce(t *testing.T) {
	playBeside(t, false, refresh.Settings{}, func(w *beside) { w.cost = time.Millisecond; w.write(upTo(300)...) }, func(w *beside) {
		w.refresher.RefreshAll()
		w.write(299)
		require.Equal(w, upTo(299), ids(w.pass(time.Minute)))
		require.Empty(w, w.pass(time.Hour))
	})
}

func TestSecondRefreshAllStartsOver(t *testing.T) {
	playBeside(t, false, refresh.Settings{}, func(w *beside) { w.cost = time.Second; w.write(upTo(300)...) }, func(w *beside) {
		w.refresher.RefreshAll()
		first := ids(w.pass(5 * time.Minute))
		require.NotEmpty(w, first)
		require.Less(w, len(first), 300)
		w.write(300)
		w.refresher.RefreshAll()
		second := ids(w.pass(time.Hour))
		require.Equal(w, upTo(301), second[len(second)-301:])
	})
}

// Requests that come again and again do not keep the lap from its rows.
func TestRefreshAllDoesNotStopTheLap(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.cost = 50 * time.Millisecond; w.write(upTo(200)...) }, func(w *beside) {
		seen := map[uint64]bool{}
		for range 720 {
			w.refresher.RefreshAll()
			for _, id := range ids(w.pass(5 * time.Second)) {
				seen[id] = true
			}
		}
		for _, id := range ids(w.pass(time.Second)) {
			seen[id] = true
		}
		require.Equal(w, 200, len(seen))
	})
}

// Laps that the loop cannot keep up with do not keep a request from its rows.
func TestLapsDoNotStopRefreshAll(t *testing.T) {
	playBeside(t, false, refresh.Settings{Interval: time.Minute}, func(w *beside) {
		w.cost = time.Second
		for id := uint64(100); id > 0; id-- {
			w.write(id)
		}
	}, func(w *beside) {
		first := ids(w.pass(200 * time.Second))
		require.Equal(w, []uint64{100, 99, 98}, first[:3], "the lap is in the order of revisions")
		w.refresher.RefreshAll()
		handed := ids(w.pass(20 * time.Second))
		require.Contains(w, handed, uint64(1))
		require.Contains(w, handed, uint64(4))
	})
}

// A batch that waits for its permits is dropped when the settings are replaced. Its rows stay in the
// lap.
func TestLapContinuesWhenSettingsAreReplaced(t *testing.T) {
	set := hourly()
	set.Limiter = rate.NewLimiter(rate.Every(24*time.Hour), 1)
	set.Limiter.Allow()
	playBeside(t, false, set, func(w *beside) { w.write(1, 2) }, func(w *beside) {
		require.Empty(w, w.pass(45*time.Minute), "there is no permit yet")
		w.world.set(hourly())
		require.Equal(w, []handed{{45 * time.Minute, []uint64{1}}, {time.Hour, []uint64{2}}}, w.pass(15*time.Minute))
	})
}

// A batch that the loop has not taken when the settings are replaced is still the loop's to take.
func TestBatchIsHandedOnceThoughSettingsChange(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.write(1, 2) }, func(w *beside) {
		<-w.free
		w.pass(30 * time.Minute)
		for range 3 {
			w.world.set(hourly())
			w.pass(0)
		}
		w.free <- struct{}{}
		require.Equal(w, []uint64{1}, ids(w.pass(time.Second)))
		require.Equal(w, []uint64{2}, ids(w.pass(30*time.Minute)))
	})
}

func TestShorterIntervalSpreadsWhatIsLeft(t *testing.T) {
	playBeside(t, false, refresh.Settings{Interval: 24 * time.Hour}, func(w *beside) { w.write(upTo(24)...) }, func(w *beside) {
		require.Len(w, w.pass(12*time.Hour), 12)
		w.world.set(hourly())
		batches := w.pass(time.Hour)
		require.Len(w, batches, 12)
		for i, b := range batches {
			require.Equal(w, 12*time.Hour+time.Duration(i+1)*5*time.Minute, b.at)
		}
		require.Equal(w, upTo(24), ids(w.pass(time.Hour)))
	})
}

// The last row of a lap is refreshed although the interval changes again and again.
func TestChangingTheIntervalDoesNotPostponeALap(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.write(1, 2, 3) }, func(w *beside) {
		var batches []handed
		for range 8 {
			w.world.set(refresh.Settings{Interval: 2 * time.Hour})
			batches = append(batches, w.pass(5*time.Minute)...)
			w.world.set(hourly())
			batches = append(batches, w.pass(5*time.Minute)...)
		}
		require.Equal(w, []uint64{1, 2, 3}, ids(batches)[:3])
		require.Equal(w, time.Hour, batches[2].at)
	})
}

func TestLapsEndWhenRefreshingIsOff(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.write(1, 2) }, func(w *beside) {
		w.pass(10 * time.Minute)
		w.world.set(refresh.Settings{})
		require.Empty(w, w.pass(5*time.Hour))
		require.Equal(w, "Refreshing is off", w.health.said())
		w.world.set(hourly())
		require.Empty(w, w.pass(30*time.Minute-1))
		require.Len(w, w.pass(30*time.Minute+1), 2)
	})
}

// Health is reported at most once a second, however many rows there are.
func TestHealthIsNotReportedForEachRow(t *testing.T) {
	set := refresh.Settings{Interval: 6 * time.Minute}
	playBeside(t, false, set, func(w *beside) { w.write(upTo(10_000)...) }, func(w *beside) {
		before := w.health.reports()
		require.Greater(w, len(w.pass(time.Minute)), 1000)
		require.InDelta(w, 60, w.health.reports()-before, 2)
	})
}

// A pass that ended before the loop took the batch does not end the wait for the batch.
func TestPassBeforeTheBatchIsTakenDoesNotCount(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.write(1, 2) }, func(w *beside) {
		<-w.free
		w.pass(30 * time.Minute)
		require.True(w, w.refresher.Waiting())
		w.refresher.NotePass(refresh.Pass{Seen: 1 << 40, CaughtUpTo: 1 << 40})
		require.True(w, w.refresher.Waiting())
		w.free <- struct{}{}
		require.Equal(w, []uint64{1}, ids(w.pass(0)))
		require.False(w, w.refresher.Waiting())
	})
}

// A Refresher whose loop has stopped ends, and does not try again meanwhile.
func TestRefresherEndsWithItsLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := statedb.New()
		table, err := statedb.NewTable(db, "rows", rowID)
		require.NoError(t, err)
		w := world{T: t, rows: rows.NewBeside(db, table)}
		w.set(hourly())
		w.write(status.Status{}, 1)
		tries, stopped := 0, make(chan struct{})
		r := refresh.New(refresh.Config[row]{
			Rows: w.rows, Settings: func() refresh.Settings { return w.settings }, Stopped: stopped,
			Hand: func([]refresh.Row[row], statedb.Revision) <-chan struct{} { tries++; return nil },
		})
		ended := make(chan struct{})
		go func() { r.Run(t.Context(), &w.health); close(ended) }()
		time.Sleep(2 * time.Hour)
		close(stopped)
		<-ended
		require.Equal(t, 1, tries)
	})
}

func TestLapReadsEachRowOnce(t *testing.T) {
	for _, batches := range []bool{false, true} {
		playBeside(t, batches, hourly(), func(w *beside) { w.write(upTo(10_000)...) }, func(w *beside) {
			for range 2 {
				w.table.(*counted).read.Store(0)
				require.Len(w, ids(w.pass(time.Hour)), 10_000)
				require.Equal(w, 10_000, int(w.table.(*counted).read.Load()))
			}
		})
	}
}
