// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"time"

	"github.com/cilium/statedb"
)

// maxLag bounds the delays that a lap makes up for, if the lap before took longer than the interval:
// the interval divided by maxLag. So short delays do not add up from lap to lap. After a long one the
// rows are spread over a whole interval, so that many are not due at once.
const maxLag = 8

// lap is one way over all rows of a table that have not changed since it began, in the order of
// revisions. The rows are spread evenly over the time from start to end. A row that changes meanwhile
// leaves the lap, because the change is applied; it belongs to the next lap. The zero value is a lap
// that has not begun.
type lap struct {
	start, end time.Time
	// rows is the number of rows in the lap at its start, given the number of those that the loop
	// got.
	rows, given int
	// The lap ends at the revision upTo. It has passed the rows up to the revision seen.
	upTo, seen statedb.Revision
	// over: no row is left.
	over bool
}

// mayFollow reports whether the next lap may begin.
func (l *lap) mayFollow(now time.Time) bool {
	return l.start.IsZero() || l.over && !now.Before(l.end)
}

// following returns the lap that follows l. upTo is the revision of the table now, rows the number of
// its rows.
func (l *lap) following(now time.Time, interval time.Duration, upTo statedb.Revision, rows int) lap {
	start := now
	if !l.start.IsZero() && now.Sub(l.end) <= interval/maxLag {
		start = l.end
	}
	return lap{start: start, end: start.Add(interval), rows: rows, upTo: upTo, over: rows == 0}
}

// dueAt returns when the given number of rows are due after those that the loop got.
func (l *lap) dueAt(rows int) time.Time {
	if l.given+rows >= l.rows {
		return l.end
	}
	part := float64(l.given+rows) / float64(l.rows)
	return l.start.Add(time.Duration(part * float64(l.end.Sub(l.start))))
}

// after returns the lap after a batch: the loop got given rows, up to the revision seen.
func (l *lap) after(given int, seen statedb.Revision, over bool) lap {
	next := *l
	next.given, next.seen, next.over = l.given+given, seen, over
	return next
}

// setInterval adapts the lap to an interval. A lap never ends later than before, else its last rows
// would not be refreshed if the interval changed again and again. If it has to end earlier, the rows
// that are left are spread over the time that is left, so that they are not due all at once.
func (l *lap) setInterval(now time.Time, interval time.Duration) {
	if end := now.Add(interval); interval == 0 {
		*l = lap{}
	} else if end.Before(l.end) {
		l.start, l.end = now, end
		l.rows, l.given = l.rows-l.given, 0
	}
}
