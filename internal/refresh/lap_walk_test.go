// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/refresh"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/tests/long"
	"github.com/statekeel/statekeel/status"
)

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
