// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ledger

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"
)

// maxSamples bounds the samples of a [Times], and maxLate the revisions that were late.
const (
	maxSamples = 512
	maxLate    = 512
)

// Times remembers when the revisions of a table were written, and when they were applied: when the mark
// passed them or, if they had a row of outcomes then, when that was deleted. It keeps at most 512
// samples: between recent ones is little time, between older ones more, up to a share of their age. Of
// the revisions that had a row it keeps 512. The zero value is empty. Its methods are safe
// for concurrent use.
//
// Times are those of the loop's clock. They must not be negative.
type Times struct {
	mu sync.Mutex
	// samples are in the order of their time. The first one is never dropped.
	samples []sample
	// late has revisions whose rows of outcomes were deleted, each at its remainder: the latest is kept. dropped has
	// the highest revision and the latest time of those that it had before.
	late    [maxLate]deletion
	dropped deletion

	// written is the period that Written found last, for readers without the lock: rows that follow each other
	// were mostly written in one.
	written atomic.Pointer[period]
}

// deletion is the deletion of the row of outcomes of a revision, at a time.
type deletion struct {
	revision statedb.Revision
	at       time.Duration
}

// sample is what was seen in one or more rounds: from the time at until the time until, the table had
// the revision table, and the mark was at mark.
type sample struct {
	at, until   time.Duration
	table, mark statedb.Revision
}

// Note adds a sample: at the time now, table was the revision of the table, and mark that of the mark.
// It is cheap enough for each round. If both are as before, it adds no sample. Times and revisions that
// decrease count as unchanged.
//
// The bounds of the other methods are as exact as now: the revisions have to be read before the clock,
// and soon before it.
func (t *Times) Note(now time.Duration, table, mark statedb.Revision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.samples)
	if n == 0 {
		t.samples = append(t.samples, sample{now, now, table, mark})
		return
	}
	last := &t.samples[n-1]
	now, table, mark = max(now, last.until), max(table, last.table), max(mark, last.mark)
	switch {
	case table == last.table && mark == last.mark:
		last.until = now
	case n > 1 && last.at == now:
		// The clock did not move: one sample is as exact as two.
		last.table, last.mark = table, mark
	default:
		if n == maxSamples {
			t.thin(now)
		}
		t.samples = append(t.samples, sample{now, now, table, mark})
	}
}

// thin drops at least a quarter of the samples: those that leave the least gap behind, compared with
// their age.
func (t *Times) thin(now time.Duration) {
	// The smallest share that drops enough keeps most of what is known.
	for share := time.Duration(64); len(t.samples) > maxSamples*3/4; share /= 2 {
		t.dropWithin(now, share)
	}
}

// dropWithin drops samples as long as the gap between two samples is not above the share of the age of
// the older one: the age divided by share. A share of 0 drops all but the first and the last sample.
func (t *Times) dropWithin(now, share time.Duration) {
	s := t.samples
	keep := len(s) - 1
	// From the latest to the oldest, the samples that are kept move to the end.
	for i := len(s) - 2; i > 0; i-- {
		older := s[i-1].until
		if share > 0 && s[keep].at-older > (now-older)/share {
			keep--
			s[keep] = s[i]
		}
	}
	keep--
	s[keep] = s[0]
	t.samples = s[:copy(s, s[keep:])]
}

// Last returns the time of the last sample; false if there is none.
func (t *Times) Last() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.samples) == 0 {
		return 0, false
	}
	return t.samples[len(t.samples)-1].until, true
}

// Written returns bounds for the time when a revision of the table was written: not before after, and
// not after upTo. after is -1 if the revision was written before the first sample. ok is false if the
// last sample does not have the revision yet.
func (t *Times) Written(revision statedb.Revision) (after, upTo time.Duration, ok bool) {
	p := t.written.Load()
	if p == nil || revision <= p.low || revision > p.high {
		t.mu.Lock()
		defer t.mu.Unlock()
		found := t.find(revision, func(s *sample) statedb.Revision { return s.table })
		p = &found
		t.written.Store(p)
	}
	return p.after, p.upTo, p.ok
}

// NoteLate notes that the row of outcomes of a revision was deleted at the time now.
func (t *Times) NoteLate(now time.Duration, revision statedb.Revision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := &t.late[revision%maxLate]
	if at.revision != revision {
		t.dropped.revision, t.dropped.at = max(t.dropped.revision, at.revision), max(t.dropped.at, at.at)
	}
	*at = deletion{revision, now}
}

// Applied returns bounds for the time when a revision was applied that has no row of outcomes, as
// [Times.Written] does.
func (t *Times) Applied(revision statedb.Revision) (after, upTo time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.find(revision, func(s *sample) statedb.Revision { return s.mark })
	if late := t.late[revision%maxLate]; late.revision == revision {
		p.upTo = max(p.upTo, late.at)
	} else if revision <= t.dropped.revision {
		p.upTo = max(p.upTo, t.dropped.at)
	}
	return p.after, p.upTo, p.ok
}

// period is the time between two samples: the revisions above low and up to high came in it.
type period struct {
	low, high   statedb.Revision
	after, upTo time.Duration
	// ok is false for the time after the last sample.
	ok bool
}

// find returns the period in which a revision came. of returns the revision that a sample has. The
// first period begins at revision 0, and has it. The caller holds mu.
func (t *Times) find(revision statedb.Revision, of func(*sample) statedb.Revision) period {
	n := len(t.samples)
	at := sort.Search(n, func(i int) bool { return of(&t.samples[i]) >= revision })
	if at == n {
		return period{}
	}
	p := period{high: of(&t.samples[at]), upTo: t.samples[at].at, after: -1, ok: true}
	if at > 0 {
		p.low, p.after = of(&t.samples[at-1]), t.samples[at-1].until
	}
	return p
}
