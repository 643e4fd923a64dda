// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package status

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/statekeel/statekeel/internal/statusid"
)

// String lists the reconcilers by their state, worst first, with errors and reasons, and ends with
// the age of the newest entry: "Errored: bpf (map full), Pending: route, Done: device (1.0s ago)".
// A Set without entries is "Pending". String reads the clock.
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

// MarshalJSON returns the entries as an object, from name to [Status]. It does not include the ID
// and the time for reconcilers without an entry.
func (s Set) MarshalJSON() ([]byte, error) {
	return json.Marshal(maps.Collect(s.All()))
}

// UnmarshalJSON replaces s with a Set of the object's entries; reconcilers without one get a new ID
// and the current time. null, or an error, does not change s.
func (s *Set) UnmarshalJSON(data []byte) error {
	return s.read(func(all any) error { return json.Unmarshal(data, all) })
}

// MarshalYAML returns the entries as a mapping, from name to [Status]; see [Set.MarshalJSON].
func (s Set) MarshalYAML() (any, error) {
	return maps.Collect(s.All()), nil
}

// UnmarshalYAML replaces s with a Set of the mapping's entries; see [Set.UnmarshalJSON].
func (s *Set) UnmarshalYAML(unmarshal func(any) error) error {
	return s.read(unmarshal)
}

// read replaces s with the entries that unmarshal puts into a map.
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
	*s = Set{list: intern(names), entries: entries, id: statusid.Next(), at: toInstant(time.Now())}
	return nil
}
