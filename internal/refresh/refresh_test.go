// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/tests/long"
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
	refresher *Refresher[row]
	rows      *rows.Rows[row]
	health    health
	interval  time.Duration
	// size is how many rows the loop has room for.
	size int
	// taken are the rows that were taken last, why is their cause.
	taken []uint64
	why   core.Cause
	// deal, if it is set, is called after each step: it plays the loop.
	deal func()
}

func play(t *testing.T, interval time.Duration, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		db, table := newTable(t)
		w := &world{T: t, interval: interval, size: 128, rows: rows.New(db, table, rows.Writable[row]{
			Clone:     func(r row) row { return r },
			GetStatus: func(r row) status.Status { return r.status },
			SetStatus: func(r row, s status.Status) row { r.status = s; return r },
		})}
		w.refresher = New(w.rows)
		w.refresher.Health = &w.health
		w.step()
		test(w)
	})
}

func (w *world) write(s status.Status, ids ...uint64) {
	wtxn := w.rows.DB.WriteTxn(w.rows.Table)
	for _, id := range ids {
		_, _, err := w.rows.Table.(statedb.RWTable[row]).Insert(wtxn, row{id, s})
		require.NoError(w, err)
	}
	wtxn.Commit()
}

// step takes the rows that are due.
func (w *world) step() {
	batch, why := w.refresher.Take(w.interval, w.size)
	w.taken, w.why = nil, why
	for _, r := range batch {
		w.taken = append(w.taken, r.Object.id)
	}
	if w.deal != nil && len(batch) > 0 {
		w.deal()
	}
}

// sleep lets time pass, with steps when they are due. It returns the rows that were taken.
func (w *world) sleep(d time.Duration) (taken []uint64) {
	for end := time.Now().Add(d); ; {
		at, ok := w.refresher.Next()
		if !ok || at.After(end) {
			time.Sleep(time.Until(end))
			return taken
		}
		time.Sleep(time.Until(at))
		w.step()
		taken = append(taken, w.taken...)
	}
}

func TestRowIsTakenWhenItIsOldEnough(t *testing.T) {
	play(t, time.Hour, func(w *world) {
		w.write(status.Done(), 1)
		w.write(status.Blocked(""), 2)
		require.Empty(w, w.sleep(20*time.Minute))
		w.write(status.Done(), 3)
		require.Regexp(w, "^Next refresh in 1h0m0s, at .*Z$", w.health.said)
		require.Empty(w, w.sleep(40*time.Minute-1))
		require.Equal(w, []uint64{1}, w.sleep(time.Nanosecond))
		require.Regexp(w, "^Next refresh in 20m0s, at .*Z$", w.health.said)
		w.write(status.Done(), 1)
		require.Equal(w, []uint64{3}, w.sleep(20*time.Minute))
		require.Equal(w, []uint64{1}, w.sleep(40*time.Minute))
	})
}

// A step reads a part of the table only, and the next ones continue there.
func TestRowsThatAreNotDoneAreSkippedStepByStep(t *testing.T) {
	play(t, time.Hour, func(w *world) {
		w.write(status.Blocked(""), upTo(5000)...)
		w.write(status.Done(), 5000)
		time.Sleep(time.Hour)
		steps := 0
		for w.step(); len(w.taken) == 0; steps++ {
			w.step()
		}
		require.InDelta(w, 5, steps, 1)
		require.Equal(w, []uint64{5000}, w.taken)

		w.write(status.Done(), 5000, 6000)
		w.refresher.Walk(w.refresher.WalkAll())
		steps = 0
		for w.step(); len(w.taken) == 0; steps++ {
			w.step()
		}
		require.InDelta(w, 5, steps, 1)
		require.Equal(w, []uint64{5000, 6000}, w.taken)
	})
}

// The rows are taken as many at a time as the loop has room for, in the order of keys.
func TestWalkTakesEachRowDoneBeforeTheCallOnce(t *testing.T) {
	play(t, 0, func(w *world) {
		w.write(status.Done(), upTo(300)...)
		w.refresher.Walk(w.refresher.WalkAll())
		time.Sleep(time.Second)
		w.write(status.Done(), 250) // is not taken
		for _, size := range []int{100, 0, 1, 100, 0, 98} {
			w.size = size
			w.step()
			require.Len(w, w.taken, size)
			require.NotContains(w, w.taken, uint64(250))
			w.write(status.Done(), w.taken...)
		}
		require.Empty(w, w.sleep(time.Second))
		require.Equal(w, core.CauseRefresh, w.why)
	})
}

func TestRowsOfAWalkOfRepairsHaveTheirCause(t *testing.T) {
	play(t, 0, func(w *world) {
		w.write(status.Done(), 1, 2)
		w.refresher.WalkRepairs(WalkOver(func(r Row[row]) bool { return r.Object.id == 2 }))
		require.True(w, w.refresher.Repairing())
		w.step()
		require.Equal(w, []uint64{2}, w.taken)
		require.Equal(w, core.CauseRepair, w.why)
		require.Empty(w, w.sleep(time.Second))
		require.False(w, w.refresher.Repairing())
	})
}

// beside is a table without statuses, its Refresher, and a loop that the test plays: it applies the rows that it has
// taken at once, and each of its operations takes the time cost.
type beside struct {
	world
	table *counted
	began time.Time
	cost  time.Duration
	// handed has the batches that the loop has applied.
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

func playBeside(t *testing.T, interval time.Duration, before, test func(w *beside)) {
	synctest.Test(t, func(t *testing.T) {
		db, table := newTable(t)
		w := &beside{table: &counted{RWTable: table}, began: time.Now()}
		w.world = world{T: t, interval: interval, size: 128, rows: rows.NewBeside(db, w.table), deal: w.deal}
		w.refresher = New(w.rows)
		w.refresher.Health = &w.health
		before(w)
		w.step()
		test(w)
	})
}

// pass lets time pass, and returns the batches that the loop has applied.
func (w *beside) pass(d time.Duration) []handed {
	w.sleep(d)
	taken := w.handed
	w.handed = nil
	return taken
}

// deal applies the rows of a batch.
func (w *beside) deal() {
	w.handed = append(w.handed, handed{time.Since(w.began), w.taken})
	time.Sleep(time.Duration(len(w.taken)) * w.cost)
}

// replace replaces the interval.
func (w *beside) replace(interval time.Duration) { w.interval = interval; w.step() }

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

// A lap is taken as many rows at a time as the loop has room for.
func TestLapIsTakenInPieces(t *testing.T) {
	playBeside(t, time.Hour, func(w *beside) { w.size, w.cost = 100, time.Second; w.write(upTo(1000)...) }, func(w *beside) {
		for range 2 {
			pieces := w.pass(time.Hour + 20*time.Minute)
			require.Len(w, pieces, 10)
			for i, p := range pieces {
				require.Len(w, p.ids, 100)
				require.Equal(w, pieces[0].at+time.Duration(i)*100*time.Second, p.at)
			}
			require.Empty(w, w.pass(0))
		}
	})
}

// A lap that takes longer than the interval is followed by the next at once.
func TestSlowLoopGetsLongLaps(t *testing.T) {
	playBeside(t, time.Minute, func(w *beside) {
		w.cost = time.Second
		w.write(upTo(100)...)
	}, func(w *beside) {
		handed := ids(w.pass(time.Hour))
		require.InDelta(w, 3600, len(handed), 150)
		for i, id := range handed {
			require.Equal(w, uint64(i%100), id)
		}
	})
}

// A lap that begins late does not make those after it later.
func TestShortDelaysOfLapsDoNotAddUp(t *testing.T) {
	playBeside(t, time.Minute, func(w *beside) { w.write(1) }, func(w *beside) {
		for range 30 {
			time.Sleep(time.Minute + time.Second)
			require.Len(w, w.pass(0), 1, "the loop was busy for a second")
			require.Len(w, w.pass(59*time.Second), 1)
		}
	})
}

// After the loop was busy for long, one lap makes up for all that were due.
func TestLapsDoNotPileUp(t *testing.T) {
	playBeside(t, time.Hour, func(w *beside) { w.write(upTo(8)...) }, func(w *beside) {
		time.Sleep(10 * time.Hour)
		require.Len(w, ids(w.pass(time.Hour-1)), 8)
		require.Len(w, ids(w.pass(1)), 8)
	})
}

// Requests that come again and again do not keep the lap from its rows.
func TestWalkDoesNotStopTheLap(t *testing.T) {
	playBeside(t, time.Hour, func(w *beside) { w.cost = 50 * time.Millisecond; w.write(upTo(200)...) }, func(w *beside) {
		var seen []uint64
		for range 721 {
			w.refresher.Walk(w.refresher.WalkAll())
			seen = append(seen, ids(w.pass(5*time.Second))...)
		}
		slices.Sort(seen)
		require.Equal(w, upTo(200), slices.Compact(seen))
	})
}

func TestShorterIntervalCountsFromItsChange(t *testing.T) {
	playBeside(t, 24*time.Hour, func(w *beside) { w.write(upTo(24)...) }, func(w *beside) {
		require.Empty(w, w.pass(12*time.Hour))
		w.replace(time.Hour)
		require.Empty(w, w.pass(time.Hour-1))
		require.Equal(w, upTo(24), ids(w.pass(1)))
		w.replace(2 * time.Hour)
		require.Equal(w, upTo(24), ids(w.pass(time.Hour)), "a longer one counts from the next lap")
		require.Empty(w, w.pass(2*time.Hour-1))
		require.Equal(w, upTo(24), ids(w.pass(1)))
	})
}

func TestLapsEndWhenRefreshingIsOff(t *testing.T) {
	playBeside(t, time.Hour, func(w *beside) { w.size, w.cost = 1, time.Minute; w.write(1, 2, 3) }, func(w *beside) {
		require.Equal(w, []uint64{1, 2}, ids(w.pass(time.Hour)))
		w.replace(0)
		require.Empty(w, w.pass(5*time.Hour))
		require.Equal(w, "Refreshing is off", w.health.said)
		w.replace(time.Hour)
		require.Empty(w, w.pass(time.Hour-1))
		require.Equal(w, []uint64{1, 2, 3}, ids(w.pass(10*time.Minute)))
	})
}

// Health is reported at most once a second, however many rows there are.
func TestHealthIsNotReportedForEachRow(t *testing.T) {
	play(t, time.Minute, func(w *world) {
		for _, id := range upTo(1000) {
			w.write(status.Done(), id)
			time.Sleep(10 * time.Millisecond)
		}
		w.sleep(50 * time.Second)
		before := w.health.reports
		require.InDelta(w, 1000, len(w.sleep(10*time.Second)), 2)
		require.InDelta(w, 10, w.health.reports-before, 2)
	})
}

// A piece reads one row before it and one after it.
func TestLapReadsEachRowOnce(t *testing.T) {
	playBeside(t, time.Hour, func(w *beside) { w.write(upTo(10_000)...) }, func(w *beside) {
		for range 2 {
			w.table.read = 0
			handed := w.pass(time.Hour)
			require.Len(w, ids(handed), 10_000)
			require.LessOrEqual(w, w.table.read, 10_000+2*len(handed))
		}
	})
}

// Each row is applied at least once in two intervals, and an eighth of one for the loop, whatever changes meanwhile.
// After a request all are applied at once.
func TestEachRowIsRefreshedWithinTwoIntervals(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range uint64(long.Times(6)) {
		dice := rand.New(rand.NewPCG(seed, i))
		const most, interval = 100, time.Hour
		applied := map[uint64]time.Duration{}
		note := func(w *beside, id uint64, at time.Duration) {
			if before, exists := applied[id]; exists {
				require.Less(w, at-before, 2*interval+interval/8, "row %d", id)
			}
			applied[id] = at
		}
		playBeside(t, interval, func(w *beside) {
			w.size = 1 + dice.IntN(most)
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
					w.replace(interval / time.Duration(1+dice.IntN(3)))
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
