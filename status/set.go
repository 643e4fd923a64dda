// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"math"
	"slices"
	"time"
)

// Set holds one named [Status] per reconciler, for objects that several reconcilers share
// and need not know of each other. An entry is a reconciler that is required: the Set is
// done when all of them are.
//
// A Set is a value and never changes: each method that derives another one leaves the
// Set it was called on, and every copy of it, as it was. So it may be read, and derived
// from, by any number of goroutines.
//
// The zero Set has no entries, and [Set.Get] answers Pending with ID 0. An object that is
// put into a table should rather have one from [NewSet] or [Set.Pending], whose ID is its own.
//
// Times are kept as nanoseconds since 1970: what comes out is in local time, has no
// monotonic reading, and is at the nearest end of the years 1678 to 2262 if what went in
// was outside of them. The zero time stays zero.
type Set struct {
	// list names the entries, in their order; nil means noNames.
	list *nameList

	// entries is shared by copies of the Set and never written to.
	entries []entry

	// id and at belong to the reconcilers that have no entry.
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

// NewSet returns a Set in which the required reconcilers have Pending entries, with one
// fresh ID and the current time. Without names it has no entries, and those that report
// later add theirs.
func NewSet(required ...string) Set {
	return Set{id: nextID(), at: toInstant(time.Now())}.Require(required...)
}

// Get returns the status of the named reconciler. For one that has no entry that is
// Pending, with the ID and the time of the Set. It does not allocate.
func (s Set) Get(name string) Status {
	if i := s.names().index(name); i >= 0 {
		return s.entries[i].status()
	}
	return Status{UpdatedAt: s.at.time(), ID: s.id, Kind: KindPending}
}

// Set returns a Set in which the named reconciler has the given status, and an entry if
// it had none. It allocates once, the new Set's entries.
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

// Pending returns a Set with the same entries, all of them Pending, with one fresh ID and
// the current time. A program that changes an object sets this with it.
func (s Set) Pending() Set {
	s.id, s.at = nextID(), toInstant(time.Now())
	entries := make([]entry, len(s.entries))
	for i := range entries {
		entries[i] = s.missing()
	}
	s.entries = entries
	return s
}

// Require returns a Set in which each of the named reconcilers has an entry. New ones are
// Pending, with the ID and the time of the Set, as [Set.Get] has said of them so far.
func (s Set) Require(names ...string) Set {
	old := s.names()
	list := old
	for _, name := range names {
		if list.index(name) < 0 {
			list, _ = list.add(name)
		}
	}
	if list == old {
		return s
	}
	entries := make([]entry, len(list.names))
	kept := 0
	for i, name := range list.names {
		if kept < len(old.names) && old.names[kept] == name {
			entries[i] = s.entries[kept]
			kept++
		} else {
			entries[i] = s.missing()
		}
	}
	s.list, s.entries = list, entries
	return s
}

// Without returns a Set that has no entries for the named reconcilers, and so does not
// wait for them. A reconciler that is still running adds its entry again when it reports.
func (s Set) Without(names ...string) Set {
	drop := func(name string) bool { return slices.Contains(names, name) }
	old := s.names().names
	if !slices.ContainsFunc(old, drop) {
		return s
	}
	var keep []string
	var entries []entry
	for i, name := range old {
		if !drop(name) {
			keep = append(keep, name)
			entries = append(entries, s.entries[i])
		}
	}
	s.list, s.entries = intern(keep), entries
	return s
}

// IsDone reports whether the Set has at least one entry and all its entries are Done. It
// does not allocate.
func (s Set) IsDone() bool {
	for i := range s.entries {
		if s.entries[i].kind != KindDone {
			return false
		}
	}
	return len(s.entries) > 0
}

// All returns the entries by name, in a map of the caller's own; empty, not nil, if there
// are none.
func (s Set) All() map[string]Status {
	all := make(map[string]Status, len(s.entries))
	for i, name := range s.names().names {
		all[name] = s.entries[i].status()
	}
	return all
}

// names returns the list of the entries' names.
func (s Set) names() *nameList {
	if s.list == nil {
		return noNames
	}
	return s.list
}

// missing returns what a reconciler without an entry is taken to have.
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

// status copies out of the entry in place: this is on the way of every object that a
// reconciler looks at.
func (e *entry) status() Status {
	return Status{UpdatedAt: e.at.time(), Error: e.err, ID: e.id, Kind: e.kind}
}

// instant is a time in nanoseconds since 1970, offset so that 0, which would otherwise mean
// a moment of 1677, stands for the zero time: a zero Set needs no care. Instants compare as
// their times do.
type instant uint64

const instantOffset = 1 << 63

// earliest and latest are the ends of what an instant can say.
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
