// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// String lists the reconcilers by where they stand, worst first, with the errors and the
// reasons of those that have one, and ends with the age of the newest entry:
// "Errored: bpf (map full), Pending: route, Done: device (1.0s ago)". A Set without
// entries reads "Pending". It reads the clock.
func (s Set) String() string {
	if len(s.entries) == 0 {
		return "Pending"
	}
	var errored, blocked, pending, done []string
	var newest instant
	for i, name := range s.names().names {
		st := s.entries[i].status()
		newest = max(newest, s.entries[i].at)
		switch st.Kind {
		case KindError:
			errored = append(errored, name+" ("+st.GetError()+")")
		case KindBlocked:
			blocked = append(blocked, name+" ("+st.GetError()+")")
		case KindDone:
			done = append(done, name)
		default:
			pending = append(pending, name)
		}
	}
	var groups []string
	addGroup := func(title string, members []string) {
		if len(members) > 0 {
			groups = append(groups, title+": "+strings.Join(members, " "))
		}
	}
	addGroup("Errored", errored)
	addGroup("Blocked", blocked)
	addGroup("Pending", pending)
	addGroup("Done", done)
	return strings.Join(groups, ", ") + " (" + formatAge(time.Since(newest.time())) + " ago)"
}

// MarshalJSON returns the entries as an object, name to [Status]. The ID and the time that
// [Set.Get] gives reconcilers without an entry are not part of it.
func (s Set) MarshalJSON() ([]byte, error) {
	return json.Marshal(s.All())
}

// UnmarshalJSON makes s the Set that has the entries of the object, and a fresh ID and the
// current time for reconcilers without one. null and an error leave s as it was.
func (s *Set) UnmarshalJSON(data []byte) error {
	return s.read(func(all any) error { return json.Unmarshal(data, all) })
}

// MarshalYAML returns the entries as a mapping, name to [Status]; see [Set.MarshalJSON].
func (s Set) MarshalYAML() (any, error) {
	return s.All(), nil
}

// UnmarshalYAML makes s the Set that has the entries of the mapping; see
// [Set.UnmarshalJSON].
func (s *Set) UnmarshalYAML(unmarshal func(any) error) error {
	return s.read(unmarshal)
}

// read replaces s by what unmarshal puts into a map.
func (s *Set) read(unmarshal func(any) error) error {
	var all map[string]Status
	if err := unmarshal(&all); err != nil {
		return err
	}
	if all == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(all))
	entries := make([]entry, len(names))
	for i, name := range names {
		entries[i] = toEntry(all[name])
	}
	*s = Set{list: intern(names), entries: entries, id: nextID(), at: toInstant(time.Now())}
	return nil
}
