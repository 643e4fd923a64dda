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
	"golang.org/x/time/rate"

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
	set       Settings
	// deal, if it is set, is called before each step: it plays the loop.
	deal func()
}

func play(t *testing.T, set Settings, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		db, table := newTable(t)
		w := &world{T: t, set: set, rows: rows.New(db, table, rows.Functions[row]{
			Clone:     func(r row) row { return r },
			GetStatus: func(r row) status.Status { return r.status },
			SetStatus: func(r row, s status.Status) row { r.status = s; return r },
		})}
		w.refresher = New(Config[row]{Rows: w.rows, Give: w.mark})
		w.refresher.Health = &w.health
		w.step()
		test(w)
	})
}

// mark marks rows as the loop does.
func (w *world) mark(batch []Row[row]) (after, upTo statedb.Revision) {
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
	w.refresher.NotePass(Pass{Seen: w.rows.Revision()})
}

func TestRowIsMarkedWhenItIsOldEnough(t *testing.T) {
	play(t, Settings{Interval: time.Hour}, func(w *world) {
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
	play(t, Settings{Interval: time.Hour}, func(w *world) {
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
	play(t, Settings{Limiter: hourly}, func(w *world) {
		w.write(status.Done(), 1, 2, 3)
		w.refresher.Walk(w.refresher.WalkAll())
		w.sleep(time.Minute)
		require.Empty(w, w.marked(), "there is no permit yet")
		w.set = Settings{}
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
	play(t, Settings{Limiter: hourly}, func(w *world) {
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
		pass Pass
		want bool
	}{
		"not read yet":                       {Pass{Seen: 8}, false},
		"read":                               {Pass{Seen: 9}, true},
		"read, one in flight":                {Pass{Seen: 9, Refreshing: 1}, false},
		"read by the catch-up cursor":        {Pass{Seen: 2, CaughtUpFrom: 5, CaughtUpTo: 9}, true},
		"partly read by the catch-up cursor": {Pass{Seen: 2, CaughtUpFrom: 5, CaughtUpTo: 8}, false},
		"the catch-up cursor began too late": {Pass{Seen: 2, CaughtUpFrom: 6, CaughtUpTo: 9}, false},
		"read by both, two in flight":        {Pass{Seen: 9, CaughtUpFrom: 5, CaughtUpTo: 9, Refreshing: 2}, false},
	} {
		play(t, Settings{}, func(w *world) {
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
		play(t, Settings{Interval: time.Minute}, func(w *world) {
			w.write(status.Done(), 1)
			w.sleep(time.Minute)
			require.True(w, w.refresher.Waiting())
			time.Sleep(time.Hour)
			w.refresher.NoteCall(called, called/2, false)
			w.refresher.NoteCall(called, called/2, true)
			w.refresher.NotePass(Pass{Seen: w.rows.Revision()})
			at, ok := w.refresher.Next()
			require.True(w, ok)
			require.Equal(w, pause, time.Until(at))
		})
	}
}

// The rows are marked in batches, in the order of keys. Each batch is marked when the one before is
// done.
func TestWalkMarksEachRowDoneBeforeTheCallOnce(t *testing.T) {
	play(t, Settings{}, func(w *world) {
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

func TestBatchOfSingleOperationsFitsATurn(t *testing.T) {
	z := newSizes(false)
	set := Settings{RoundSize: 1000}
	require.Equal(t, largest, z.next(set), "the time of an operation is unknown")
	z.note(100, 50*time.Millisecond, calls{})
	require.Equal(t, 10, z.next(set))
	z.note(10, time.Minute, calls{})
	require.Equal(t, 1, z.next(set))
	z.note(1, 0, calls{})
	require.Equal(t, largest, z.next(set))
}

func TestBatchesAreAsLargeAsTheLimiterAllows(t *testing.T) {
	for name, c := range map[string]struct {
		set  Settings
		z    sizes
		want int
	}{
		"no limit":             {Settings{RoundSize: 1000}, newSizes(false), largest},
		"ten permits gathered": {Settings{Limiter: rate.NewLimiter(100, 1)}, newSizes(false), 10},
		"less than one permit": {Settings{Limiter: rate.NewLimiter(1, 1)}, newSizes(false), 1},
		"no permits":           {Settings{Limiter: rate.NewLimiter(0, 1)}, newSizes(false), 1},
		"infinite":             {Settings{Limiter: rate.NewLimiter(rate.Inf, 1)}, newSizes(false), largest},
		"batches, at first":    {Settings{RoundSize: 1000}, newSizes(true), 1},
		"batches":              {Settings{RoundSize: 1000}, sizes{batches: true, size: 4000}, 1000},
		"batches, limited":     {Settings{RoundSize: 1000, Limiter: rate.NewLimiter(100, 1)}, sizes{batches: true, size: 4000}, 10},
		"batches, long calls":  {Settings{RoundSize: 1000, Limiter: rate.NewLimiter(100, 1)}, sizes{batches: true, size: 4000, last: time.Second}, 200},
	} {
		require.Equal(t, c.want, c.z.next(c.set), name)
	}
}

// If a call costs the same for any size, batches grow to the largest size. If each object costs
// time, calls stay short.
func TestBatchesGrowWhileCallsTakeNoLonger(t *testing.T) {
	set := Settings{RoundSize: 1000}
	for name, c := range map[string]struct {
		call, object time.Duration
		most         int
	}{
		"nothing costs time":     {0, 0, 1000},
		"each call costs time":   {time.Second, 0, 1000},
		"each object costs time": {0, 10 * time.Millisecond, 4},
		"both cost time":         {100 * time.Millisecond, 10 * time.Millisecond, 32},
	} {
		z := newSizes(true)
		most := 0
		for range 100 {
			size := z.next(set)
			most = max(most, size)
			took := max(1, c.call+time.Duration(size)*c.object)
			z.note(size, took, calls{took, took, true})
		}
		require.Equal(t, c.most, most, name)
	}
}

// The time of a failed call does not show how short a call can be.
func TestFailedCallsDoNotCountAsShortest(t *testing.T) {
	z := sizes{batches: true, size: 8}
	z.note(8, time.Second, calls{time.Second, time.Second, false})
	require.Equal(t, 2, z.size)
	z.note(8, time.Second, calls{})
	require.Equal(t, 2, z.size, "there was no call")
	z.note(8, time.Second, calls{time.Second, time.Second, true})
	require.Equal(t, 16, z.size)
}

// beside is a table without statuses, its Refresher, and a loop that the test plays: it deals with
// batches at once, and each of its operations takes the time cost.
type beside struct {
	world
	table   *counted
	batches bool
	began   time.Time
	cost    time.Duration
	// batch is what Give was called with last, handed has the batches that the loop has dealt with.
	batch  []Row[row]
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

func playBeside(t *testing.T, batches bool, set Settings, before, test func(w *beside)) {
	synctest.Test(t, func(t *testing.T) {
		db, table := newTable(t)
		w := &beside{table: &counted{RWTable: table}, batches: batches, began: time.Now()}
		w.world = world{T: t, set: set, rows: rows.NewBeside(db, w.table), deal: w.deal}
		w.refresher = New(Config[row]{Rows: w.rows, Batches: batches, Give: w.give})
		w.refresher.Health = &w.health
		before(w)
		w.step()
		test(w)
	})
}

func (w *beside) give(batch []Row[row]) (after, upTo statedb.Revision) {
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
	w.refresher.NotePass(Pass{})
}

// replace replaces the settings.
func (w *beside) replace(set Settings) { w.set = set; w.step() }

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

func hourly() Settings { return Settings{Interval: time.Hour, RoundSize: 1000} }

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
	set := Settings{Interval: 10 * time.Second}
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
	playBeside(t, false, Settings{Interval: time.Minute}, func(w *beside) {
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
	playBeside(t, false, Settings{Interval: time.Minute}, func(w *beside) { w.cost = time.Second; w.write(1) }, func(w *beside) {
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
			w.replace(Settings{Interval: time.Hour, RoundSize: i + 1})
		}
		require.Equal(w, []uint64{1}, ids(w.pass(time.Second)))
		require.Equal(w, []uint64{2}, ids(w.pass(30*time.Minute)))
	})
}

func TestShorterIntervalSpreadsWhatIsLeft(t *testing.T) {
	playBeside(t, false, Settings{Interval: 24 * time.Hour}, func(w *beside) { w.write(upTo(24)...) }, func(w *beside) {
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
		w.replace(Settings{})
		require.Empty(w, w.pass(5*time.Hour))
		require.Equal(w, "Refreshing is off", w.health.said)
		w.replace(hourly())
		require.Empty(w, w.pass(30*time.Minute-1))
		require.Len(w, w.pass(30*time.Minute+1), 2)
	})
}

// Health is reported at most once a second, however many rows there are.
func TestHealthIsNotReportedForEachRow(t *testing.T) {
	set := Settings{Interval: 6 * time.Minute}
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
	for i := range uint64(long.Times(6)) {
		dice := rand.New(rand.NewPCG(seed, i))
		const most, interval = 100, time.Hour
		set := Settings{Interval: interval, RoundSize: 1 + dice.IntN(most)}
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

// Timers are no finer than a millisecond.
func TestShortPausesAddUp(t *testing.T) {
	play(t, Settings{}, func(w *world) {
		for _, pause := range []time.Duration{0, 0, 1200 * time.Microsecond, 0} {
			w.write(status.Done(), 1)
			w.refresher.Walk(w.refresher.WalkAll())
			w.step()
			require.True(w, w.refresher.Waiting())
			time.Sleep(400 * time.Microsecond)
			w.refresher.NoteCall(1, 1, true)
			w.through()
			at, _ := w.refresher.Next()
			require.Equal(w, pause, max(0, time.Until(at)))
			time.Sleep(pause)
		}
	})
}
