// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/statusid"
)

// Set holds one named [Status] for each reconciler of an object. The reconcilers need not know each
// other. An entry is a required reconciler: the Set is done when all entries are, and without any.
//
// A Set is an immutable value: methods that derive another Set do not change the original or its
// copies. Any number of goroutines may read it and derive from it.
//
// The zero Set has no entries; [Set.Get] then returns Pending with ID 0. For an object in a table
// use [NewSet] or [Set.Pending], which make a new ID.
//
// Times are stored as nanoseconds since 1970. They are returned in local time, without a monotonic
// reading, and limited to the years 1678 to 2262. The zero time stays zero.
type Set struct {
	// list has the names of the entries, in their order; nil means noNames.
	list *nameList

	// entries is shared by copies of the Set and never written to.
	entries []entry

	// id and at are those of reconcilers without an entry.
	id uint64
	at instant
}

// entry is a Status in 32 bytes.
type entry struct {
	err  *string
	id   uint64
	at   instant
	kind Kind
}

// NewSet returns a Set in which the required reconcilers have Pending entries, with one new ID and
// the current time. Without names it has no entries; reconcilers that report later add theirs.
func NewSet(required ...string) Set { return Set{}.Pending(required...) }

// Get returns the status of the named reconciler. Without an entry that is Pending, with the ID and
// the time of the Set. Get does not allocate.
func (s Set) Get(name string) Status {
	if i := s.names().index(name); i >= 0 {
		return s.entries[i].status()
	}
	return Status{UpdatedAt: s.at.time(), ID: s.id, Kind: KindPending}
}

// Set returns a Set in which the named reconciler has the given status; it adds an entry if there
// was none. It allocates once, for the new entries.
func (s Set) Set(name string, st Status) Set {
	list := s.names()
	i := list.index(name)
	if i >= 0 {
		s.entries = slices.Clone(s.entries)
	} else {
		s.list, i = list.add(name)
		s.entries = insertEntry(s.entries, i)
	}
	s.entries[i] = toEntry(st)
	return s
}

// Pending returns a Set in which all entries are Pending, with one new ID and the current time. It adds
// entries for names that have none. Call it at every change of an object.
func (s Set) Pending(names ...string) Set {
	s.id, s.at = statusid.Next(), toInstant(time.Now())
	list := s.names()
	for _, name := range names {
		if list.index(name) < 0 {
			list, _ = list.add(name)
		}
	}
	s.list, s.entries = list, make([]entry, len(list.names))
	for i := range s.entries {
		s.entries[i] = s.missing()
	}
	return s
}

// Delete returns a Set without an entry for the named reconciler, so it is done without it; the same
// Set if there was none. A reconciler that still runs adds its entry again when it reports.
func (s Set) Delete(name string) Set {
	old := s.names()
	i := old.index(name)
	if i < 0 {
		return s
	}
	s.list = intern(slices.Delete(slices.Clone(old.names), i, i+1))
	s.entries = slices.Delete(slices.Clone(s.entries), i, i+1)
	return s
}

// IsDone reports whether all entries are Done; so it is true without entries. It does not allocate.
func (s Set) IsDone() bool {
	for i := range s.entries {
		if s.entries[i].kind != KindDone {
			return false
		}
	}
	return true
}

// IsPendingOrRefreshing reports whether an entry is Pending or Refreshing. It does not allocate.
func (s Set) IsPendingOrRefreshing() bool {
	for i := range s.entries {
		if kind := s.entries[i].kind; kind == KindPending || kind == KindRefreshing {
			return true
		}
	}
	return false
}

// All returns the entries in the order of their names.
func (s Set) All() iter.Seq2[string, Status] {
	return func(yield func(name string, status Status) bool) {
		for i, name := range s.names().names {
			if !yield(name, s.entries[i].status()) {
				return
			}
		}
	}
}

// names returns the list of the entries' names.
func (s Set) names() *nameList {
	if s.list == nil {
		return noNames
	}
	return s.list
}

// missing returns the status of a reconciler without an entry.
func (s Set) missing() entry {
	return entry{id: s.id, at: s.at, kind: KindPending}
}

// insertEntry returns a copy of the entries with a gap at position i.
func insertEntry(entries []entry, i int) []entry {
	grown := make([]entry, len(entries)+1)
	copy(grown, entries[:i])
	copy(grown[i+1:], entries[i:])
	return grown
}

func toEntry(st Status) entry {
	return entry{err: st.Error, id: st.ID, at: toInstant(st.UpdatedAt), kind: st.Kind}
}

// status copies fields from the entry in place: it is called for every object that a reconciler
// reads.
func (e *entry) status() Status {
	return Status{UpdatedAt: e.at.time(), Error: e.err, ID: e.id, Kind: e.kind}
}

// instant is a time in nanoseconds since 1970, offset so that 0, which would otherwise be a moment
// in 1677, is the zero time; so the zero Set needs no special case. Instants compare like their
// times.
type instant uint64

const instantOffset = 1 << 63

// earliest and latest are the limits of an instant.
var (
	earliest = time.Unix(0, math.MinInt64+1)
	latest   = time.Unix(0, math.MaxInt64)
)

func toInstant(t time.Time) instant {
	switch {
	case t.IsZero():
		return 0
	case t.Before(earliest):
		t = earliest
	case t.After(latest):
		t = latest
	}
	return instant(t.UnixNano()) + instantOffset
}

func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i-instantOffset))
}
