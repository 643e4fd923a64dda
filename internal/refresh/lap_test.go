// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh_test

import (
	"fmt"
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

// Walks over random tables, with a loop that takes random time and keeps up:
//
//  1. each row is applied at least once in two intervals, and an eighth of one for the loop;
//  2. each row is handed over at most once in a lap;
//  3. if no row changes, each is handed over about one interval after it was last;
//  4. a deleted row is not handed over again and again;
//  5. after a request, each row that existed is applied.
func TestEachRowIsRefreshedWithinTwoIntervals(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range uint64(long.Times(12)) {
		synctest.Test(t, func(t *testing.T) { walkLaps(t, rand.New(rand.NewPCG(seed, i))) })
	}
}

// lapsWalk is one walk.
type lapsWalk struct {
	world
	dice     *rand.Rand
	name     string
	interval time.Duration
	// most bounds the number of rows, cost bounds the time of each step of the loop.
	most uint64
	cost time.Duration
	// batches: operations come in batches. quiet: no row changes. steady: neither are there requests,
	// nor do the settings change.
	batches, quiet, steady bool
	// batch is what the loop has to deal with.
	batch []refresh.Row[row]

	// applied is when the rows of the table were applied or written last. handed has the latest two
	// times at which each row was handed over; gone counts how often that was after its deletion.
	applied map[uint64]time.Time
	handed  map[uint64][2]time.Time
	gone    map[uint64]int
	// requested is when all rows were requested last; zero if they have been checked.
	requested time.Time
}

func (w *lapsWalk) fail(format string, args ...any) {
	w.T.Errorf("%s: %s", w.name, fmt.Sprintf(format, args...))
}

// touch records that a row was applied or written.
func (w *lapsWalk) touch(id uint64) {
	w.checkAge(id)
	w.applied[id] = time.Now()
}

func (w *lapsWalk) checkAge(id uint64) {
	at, ok := w.applied[id]
	if age := time.Since(at); ok && age > 2*w.interval+w.interval/8 {
		w.fail("row %d was not applied for %s", id, age)
	}
}

// note records that a row was handed over.
func (w *lapsWalk) note(id uint64) {
	now := time.Now()
	if _, exists := w.applied[id]; !exists {
		if w.gone[id]++; w.gone[id] > 1 {
			w.fail("row %d was handed over again after its deletion", id)
		}
		return
	}
	last := w.handed[id]
	if w.steady && !last[0].IsZero() && now.Sub(last[0]) < w.interval*3/4 {
		w.fail("row %d was handed over three times in %s", id, now.Sub(last[0]))
	}
	if w.steady && w.quiet && !w.batches && !last[1].IsZero() && now.Sub(last[1]) < w.interval/2 {
		w.fail("row %d was handed over twice in %s", id, now.Sub(last[1]))
	}
	w.handed[id] = [2]time.Time{last[1], now}
}

func (w *lapsWalk) short() time.Duration {
	return time.Duration(w.dice.Int64N(int64(w.cost) + 1))
}

// deal plays the loop while it has a batch.
func (w *lapsWalk) deal() {
	if !w.refresher.Waiting() {
		return
	}
	// Some operations take no time at all.
	cost := w.short() * time.Duration(w.dice.IntN(2))
	if w.dice.IntN(2) == 0 {
		time.Sleep(w.short())
		w.refresher.NotePass(refresh.Pass{Refreshing: len(w.batch)})
		if !w.quiet && w.dice.IntN(10) == 0 {
			w.change()
		}
	}
	call := cost
	if w.batches {
		call *= time.Duration(1 + len(w.batch))
		time.Sleep(cost)
	}
	for i, r := range w.batch {
		if w.dice.IntN(10) == 0 {
			w.step()
			w.refresher.NotePass(refresh.Pass{Refreshing: len(w.batch) - i})
		}
		time.Sleep(cost)
		w.note(r.Object.id)
		if _, exists := w.applied[r.Object.id]; exists {
			w.touch(r.Object.id)
		}
		w.refresher.NoteCall(call, cost, true)
	}
	w.batch = nil
	w.refresher.NotePass(refresh.Pass{})
}

// change inserts, changes or deletes some rows in one transaction.
func (w *lapsWalk) change() {
	if w.most == 0 {
		return
	}
	dice := w.dice
	wtxn := w.rows.DB.WriteTxn(w.rows.Table)
	defer wtxn.Commit()
	part := []uint64{1, w.most/10 + 1, w.most}[dice.IntN(3)]
	first, deletes := dice.Uint64N(w.most), dice.IntN(3) == 0
	for id := first; id < min(w.most, first+part); id++ {
		if deletes {
			_, _, _ = w.rows.Table.(statedb.RWTable[row]).Delete(wtxn, row{id: id})
			w.checkAge(id)
			delete(w.applied, id)
			delete(w.handed, id)
			continue
		}
		_, _, _ = w.rows.Table.(statedb.RWTable[row]).Insert(wtxn, row{id: id})
		w.touch(id)
		delete(w.gone, id)
	}
}

// checkRequest checks that the rows that existed at the last request have been applied since.
func (w *lapsWalk) checkRequest() {
	if w.requested.IsZero() || time.Since(w.requested) < w.interval/2 {
		return
	}
	for id, at := range w.applied {
		if at.Before(w.requested) {
			w.fail("row %d was not applied in %s after a request", id, time.Since(w.requested))
			break
		}
	}
	w.requested = time.Time{}
}

func walkLaps(t *testing.T, dice *rand.Rand) {
	pick := func(choices ...time.Duration) time.Duration { return choices[dice.IntN(len(choices))] }
	w := &lapsWalk{
		dice: dice, interval: pick(10*time.Second, time.Minute, 30*time.Minute, 24*time.Hour),
		most: []uint64{0, 1, 10, 100, 2000}[dice.IntN(5)], batches: dice.IntN(2) == 0, quiet: dice.IntN(3) == 0,
		steady:  dice.IntN(2) == 0,
		applied: map[uint64]time.Time{}, handed: map[uint64][2]time.Time{}, gone: map[uint64]int{},
	}
	crowd := max(w.most, 16)
	w.cost = w.interval / time.Duration(64*crowd)
	set := refresh.Settings{Interval: w.interval, RoundSize: 1 + dice.IntN(1000)}
	if dice.IntN(2) == 0 {
		set.Limiter = rate.NewLimiter(rate.Limit(8*float64(crowd)/w.interval.Seconds()), 1+dice.IntN(10))
	}
	w.name = fmt.Sprintf("%d rows, interval %s, round size %d, limited %t, batches %t, quiet %t, steady %t",
		w.most, w.interval, set.RoundSize, set.Limiter != nil, w.batches, w.quiet, w.steady)

	db, table := newTable(t)
	w.world = world{T: t, set: set, rows: rows.NewBeside(db, table), deal: w.deal}
	w.refresher = refresh.New(refresh.Config[row]{
		Rows: w.rows, Batches: w.batches,
		Give: func(batch []refresh.Row[row]) (after, upTo statedb.Revision) {
			w.batch = batch
			return 0, 0
		},
	})
	w.refresher.Health = &w.health
	first := upTo(w.most)
	w.write(status.Status{}, first...)
	for _, id := range first {
		w.applied[id] = time.Now()
	}
	w.step()
	for began := time.Now(); time.Since(began) < 8*w.interval; {
		w.sleep(time.Duration(dice.Int64N(int64(w.interval / 4))))
		if !w.quiet {
			w.change()
		}
		w.checkRequest()
		switch {
		case w.steady:
		case dice.IntN(4) == 0:
			w.set.Interval = w.interval / pick(1, 2, 4)
			w.step()
		case w.requested.IsZero() && dice.IntN(4) == 0:
			w.requested = time.Now()
			w.refresher.Walk(w.refresher.WalkAll())
		}
	}
	for _, id := range first {
		w.checkAge(id)
	}
}
