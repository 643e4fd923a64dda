// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"time"

	"github.com/statekeel/statekeel/internal/rows"
)

const (
	// maxLag bounds the delays that a lap makes up for, if the lap before took longer than the interval:
	// the interval divided by maxLag. So short delays do not add up from lap to lap. After a long one the
	// rows are spread over a whole interval, so that many are not due at once.
	maxLag = 8
	// together is how long before its time a row is refreshed with another one, if operations are
	// single. It bounds how often the loop wakes up. It is at most the interval divided by togetherPart.
	together     = 10 * time.Millisecond
	togetherPart = 64
)

// lap is a walk over all rows that have not changed since it began, spread evenly over one interval. A
// row that changes meanwhile leaves the lap, because the change is applied; it belongs to the next lap.
// The zero value is a lap that has ended.
type lap[Obj any] struct {
	Walk[Obj]
	end time.Time
	// left is the number of rows that were not returned: due is when the first of them is due, gap the
	// time between two.
	left int
	due  time.Time
	gap  time.Duration
}

// next returns the next rows that are due, at most size. If operations come in batches, a batch is due
// when its last row is. If no row is due, it returns the time until one may be.
func (l *lap[Obj]) next(table *rows.Rows[Obj], now time.Time, interval time.Duration, size int, batches bool) ([]Row[Obj], time.Duration) {
	if !l.on() && !now.Before(l.end) {
		start := now
		if now.Sub(l.end) <= interval/maxLag {
			start = l.end
		}
		txn := table.DB.ReadTxn()
		l.Walk = walkUpTo[Obj](table.Table.Revision(txn))
		l.spread(table.Table.NumObjects(txn), start, interval)
	} else if now.Add(interval).Before(l.end) {
		// The interval has become shorter. A longer one does not make the lap longer, else its last rows
		// would not be refreshed if the interval changed again and again.
		l.spread(l.left, now, interval)
	}
	if !l.on() {
		return nil, l.end.Sub(now)
	}
	first := 1
	if batches {
		first = min(size, l.left)
	}
	if wait := l.due.Add(time.Duration(first-1) * l.gap).Sub(now); wait > 0 {
		return nil, wait
	}
	if !batches {
		soon := now.Sub(l.due) + min(together, interval/togetherPart)
		size = min(size, 1+int(soon/l.gap))
	}
	batch := l.Walk.next(table, size)
	l.given(len(batch))
	return batch, 0
}

// spread spreads the rows that are left over an interval.
func (l *lap[Obj]) spread(left int, start time.Time, interval time.Duration) {
	l.left, l.end, l.gap = left, start.Add(interval), max(1, interval/time.Duration(max(1, left)))
	l.due = start.Add(l.gap)
	l.given(0)
}

// given records that n rows were returned. The lap ends with its last row.
func (l *lap[Obj]) given(n int) {
	l.due = l.due.Add(time.Duration(n) * l.gap)
	if l.left -= n; l.left == 0 {
		l.Walk = Walk[Obj]{}
	}
}
