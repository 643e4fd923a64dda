// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// untilDone writes a row at an interval, each row once, and returns how long each took to be shown as Done.
func (e *env) untilDone(interval time.Duration, rows ...uint64) (took []time.Duration) {
	const look = 5 * time.Millisecond
	written := map[uint64]time.Time{}
	for began := time.Now(); len(rows)+len(written) > 0; time.Sleep(look) {
		if len(rows) > 0 && time.Since(began) >= interval {
			e.put(1, rows[0])
			began = time.Now()
			written[rows[0]], rows = began, rows[1:]
		}
		txn := e.db.ReadTxn()
		for id, at := range written {
			if s, _ := e.loop.Status(txn, &object{ID: id}); s.Kind == reconciler.StatusKindDone {
				took = append(took, time.Since(at))
				delete(written, id)
			}
		}
	}
	slices.Sort(took)
	return took
}

// A burst in a long backlog holds up the rows that are written after it for as long as it takes itself, at
// half of the target's rate; then they are shown as Done within 50 ms, long before the backlog is.
func TestRowsAfterABurstAreSoonShownDone(t *testing.T) {
	const backlog, burst, samples = 50_000, 20_000, 60
	for name, change := range map[string]func(e *env, cfg *reconciler.Config[*object]){"in the rows": nil, "beside": beside} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(e *env) {
				e.target.takes(100 * time.Microsecond)
				e.put(1, ids(1, backlog)...)
				time.Sleep(100 * time.Millisecond)
				const some = 20
				writeEvery(time.Millisecond, burst/some*time.Millisecond, func(i uint64) {
					e.put(1, ids(backlog+1+some*i, backlog+some*(i+1))...)
				})
				took := e.untilDone(20*time.Millisecond, ids(backlog+burst+1, backlog+burst+samples)...)
				late, _ := slices.BinarySearch(took, time.Second)
				require.LessOrEqual(e, samples-late, 3, "rows that took more than a second: %s", took)
				took = e.untilDone(20*time.Millisecond, ids(backlog+burst+samples+1, backlog+burst+2*samples)...)
				require.LessOrEqual(e, took[samples*95/100], 50*time.Millisecond, "%s", took)
			}, change)
		})
	}
}

// A row that is written more often than its turn comes runs nevertheless, also while the target cannot keep up:
// its turn comes at least once in two laps over the table.
func TestHotRowRunsOnceALapUnderOverload(t *testing.T) {
	const rows, laps = 2000, 8
	for name, change := range map[string]func(e *env, cfg *reconciler.Config[*object]){"in the rows": nil, "beside": beside} {
		for _, each := range []time.Duration{40 * time.Microsecond, 100 * time.Microsecond} {
			t.Run(name+", "+each.String(), func(t *testing.T) {
				inBubble(t, func(e *env) {
					e.target.takes(each)
					e.put(1, ids(1, rows)...)
					e.target.take()
					const lap = rows
					value := 2
					// Five rows in the time of four operations, and the hot one ten times a lap.
					writeEvery(4*each, laps*lap*each, func(i uint64) {
						for j := range uint64(5) {
							e.put(value, 2+(5*i+j)*7%(rows-1))
						}
						if i%(lap/40) == 0 {
							e.put(value, 1)
						}
						value++
					})
					last, longest := 0, 0
					calls := e.target.take()
					for at, c := range calls {
						if c.id == 1 {
							last, longest = at, max(longest, at-last)
						}
					}
					require.Greater(e, len(calls), (laps-1)*lap, "operations")
					require.LessOrEqual(e, max(longest, len(calls)-last), 2*lap, "operations without the hot row")
				}, change)
			})
		}
	}
}
