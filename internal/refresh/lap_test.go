// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh_test

import (
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/status"
)

// beside is a table without statuses, its Refresher, and a loop that the test plays: it deals with
// batches at once, and each of its operations takes the time cost.
type beside struct {
	world
	table   *counted
	batches bool
	began   time.Time
	cost    time.Duration
	// batch is what Give was called with last, handed has the batches that the loop has dealt with.
	batch  []refresh.Row[row]
	handed []handed
}

type handed struct {
	at  time.Duration
	ids []uint64
}

// counted is a table that counts the rows that are read.
type counted struct {
	statedb.RWTable[row]
	read int
}

func (l *counted) LowerBound(txn statedb.ReadTxn, q statedb.Query[row]) iter.Seq2[row, statedb.Revision] {
	return l.counting(l.RWTable.LowerBound(txn, q))
}

func (l *counted) All(txn statedb.ReadTxn) iter.Seq2[row, statedb.Revision] {
	return l.counting(l.RWTable.All(txn))
}

func (l *counted) counting(rows iter.Seq2[row, statedb.Revision]) iter.Seq2[row, statedb.Revision] {
	return func(yield func(row, statedb.Revision) bool) {
		for r, revision := range rows {
			l.read++
			if !yield(r, revision) {
				return
			}
		}
	}
}

func playBeside(t *testing.T, batches bool, set refresh.Settings, before, test func(w *beside)) {
	synctest.Test(t, func(t *testing.T) {
		db, table := newTable(t)
		w := &beside{table: &counted{RWTable: table}, batches: batches, began: time.Now()}
		w.world = world{T: t, set: set, rows: rows.NewBeside(db, w.table), deal: w.deal}
		w.refresher = refresh.New(refresh.Config[row]{Rows: w.rows, Batches: batches, Give: w.give})
		w.refresher.Health = &w.health
		before(w)
		w.step()
		test(w)
	})
}

func (w *beside) give(batch []refresh.Row[row]) (after, upTo statedb.Revision) {
	w.batch = batch
	return 0, 0
}

// pass lets time pass, and returns the batches that the loop has dealt with.
func (w *beside) pass(d time.Duration) []handed {
	w.sleep(d)
	taken := w.handed
	w.handed = nil
	return taken
}

// deal applies the rows of a batch, if the loop has one, and ends the pass.
func (w *beside) deal() {
	if !w.refresher.Waiting() {
		return
	}
	h, call := handed{at: time.Since(w.began)}, w.cost
	if w.batches {
		call *= time.Duration(len(w.batch))
	}
	for _, r := range w.batch {
		h.ids = append(h.ids, r.Object.id)
		time.Sleep(w.cost)
		w.refresher.NoteCall(call, w.cost, true)
	}
	w.handed = append(w.handed, h)
	w.refresher.NotePass(refresh.Pass{})
}

// replace replaces the settings.
func (w *beside) replace(set refresh.Settings) { w.set = set; w.step() }

func (w *beside) write(ids ...uint64) { w.world.write(status.Status{}, ids...) }

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
		require.Regexp(w, "^Next refresh in 20m0s, at .*Z$", w.health.said)
		revision := w.rows.Revision()
		for lap := range time.Duration(3) {
			require.Equal(w, []handed{
				{lap*time.Hour + 20*time.Minute, []uint64{1}},
				{lap*time.Hour + 40*time.Minute, []uint64{2}},
				{lap*time.Hour + 60*time.Minute, []uint64{3}},
			}, w.pass(time.Hour))
		}
		require.Equal(w, revision, w.rows.Revision(), "nothing is written")
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
		time.Sleep(10 * time.Hour)
		require.Equal(w, upTo(8), ids(w.pass(time.Second)))
		require.Equal(w, upTo(4), ids(w.pass(30*time.Minute)))
	})
}

// Requests that come again and again do not keep the lap from its rows.
func TestWalkDoesNotStopTheLap(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.cost = 50 * time.Millisecond; w.write(upTo(200)...) }, func(w *beside) {
		var seen []uint64
		for range 721 {
			w.refresher.Walk(w.refresher.WalkAll())
			seen = append(seen, ids(w.pass(5*time.Second))...)
		}
		slices.Sort(seen)
		require.Equal(w, upTo(200), slices.Compact(seen))
	})
}

// A batch that the loop has not dealt with when the settings are replaced is not given again.
func TestBatchIsHandedOnceThoughSettingsChange(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.write(1, 2) }, func(w *beside) {
		time.Sleep(30 * time.Minute)
		for i := range 3 {
			w.replace(refresh.Settings{Interval: time.Hour, RoundSize: i + 1})
		}
		require.Equal(w, []uint64{1}, ids(w.pass(time.Second)))
		require.Equal(w, []uint64{2}, ids(w.pass(30*time.Minute)))
	})
}

func TestShorterIntervalSpreadsWhatIsLeft(t *testing.T) {
	playBeside(t, false, refresh.Settings{Interval: 24 * time.Hour}, func(w *beside) { w.write(upTo(24)...) }, func(w *beside) {
		require.Len(w, w.pass(12*time.Hour), 12)
		w.replace(hourly())
		batches := w.pass(time.Hour)
		require.Len(w, batches, 12)
		for i, b := range batches {
			require.Equal(w, 12*time.Hour+time.Duration(i+1)*5*time.Minute, b.at)
		}
		require.Equal(w, upTo(24), ids(w.pass(time.Hour)))
	})
}

func TestLapsEndWhenRefreshingIsOff(t *testing.T) {
	playBeside(t, false, hourly(), func(w *beside) { w.write(1, 2) }, func(w *beside) {
		w.pass(10 * time.Minute)
		w.replace(refresh.Settings{})
		require.Empty(w, w.pass(5*time.Hour))
		require.Equal(w, "Refreshing is off", w.health.said)
		w.replace(hourly())
		require.Empty(w, w.pass(30*time.Minute-1))
		require.Len(w, w.pass(30*time.Minute+1), 2)
	})
}

// Health is reported at most once a second, however many rows there are.
func TestHealthIsNotReportedForEachRow(t *testing.T) {
	set := refresh.Settings{Interval: 6 * time.Minute}
	playBeside(t, false, set, func(w *beside) { w.write(upTo(10_000)...) }, func(w *beside) {
		before := w.health.reports
		require.Greater(w, len(w.pass(time.Minute)), 1000)
		require.InDelta(w, 60, w.health.reports-before, 2)
	})
}

// A batch reads one row before it and one after it.
func TestLapReadsEachRowOnce(t *testing.T) {
	for _, batches := range []bool{false, true} {
		playBeside(t, batches, hourly(), func(w *beside) { w.write(upTo(10_000)...) }, func(w *beside) {
			for range 2 {
				w.table.read = 0
				handed := w.pass(time.Hour)
				require.Len(w, ids(handed), 10_000)
				require.LessOrEqual(w, w.table.read, 10_000+2*len(handed))
			}
		})
	}
}

// Each row is applied at least once in two intervals, and an eighth of one for the loop, whatever changes meanwhile.
// After a request all are applied at once.
func TestEachRowIsRefreshedWithinTwoIntervals(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range uint64(long.Times(12)) {
		dice := rand.New(rand.NewPCG(seed, i))
		const most, interval = 100, time.Hour
		set := refresh.Settings{Interval: interval, RoundSize: 1 + dice.IntN(most)}
		if dice.IntN(2) == 0 {
			set.Limiter = rate.NewLimiter(rate.Limit(8*most/interval.Seconds()), 1+dice.IntN(10))
		}
		applied := map[uint64]time.Duration{}
		note := func(w *beside, id uint64, at time.Duration) {
			if before, exists := applied[id]; exists {
				require.Less(w, at-before, 2*interval+interval/8, "row %d", id)
			}
			applied[id] = at
		}
		playBeside(t, dice.IntN(2) == 0, set, func(w *beside) {
			w.cost = time.Duration(dice.Int64N(int64(interval / most / 64)))
			w.write(upTo(most)...)
		}, func(w *beside) {
			pass := func(d time.Duration) {
				for _, h := range w.pass(d) {
					for _, id := range h.ids {
						require.Contains(w, applied, id, "it was deleted")
						note(w, id, h.at)
					}
				}
			}
			for _, id := range upTo(most) {
				note(w, id, 0)
			}
			for range 80 {
				pass(time.Duration(dice.Int64N(int64(interval / 4))))
				id, now := dice.Uint64N(most), time.Since(w.began)
				switch dice.IntN(5) {
				case 0:
					w.write(id)
					note(w, id, now)
				case 1:
					wtxn := w.rows.DB.WriteTxn(w.table)
					_, _, _ = w.table.Delete(wtxn, row{id: id})
					wtxn.Commit()
					delete(applied, id)
				case 2:
					set.Interval = interval / time.Duration(1+dice.IntN(3))
					w.replace(set)
				case 3:
					w.refresher.Walk(w.refresher.WalkAll())
					pass(interval / 2)
					for id, at := range applied {
						require.Greater(w, at, now-w.cost, "row %d", id)
					}
				}
			}
			pass(2 * interval)
			for id, at := range applied {
				require.Less(w, time.Since(w.began)-at, 2*interval+interval/8, "row %d", id)
			}
		})
	}
}
