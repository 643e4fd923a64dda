// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

import "github.com/cilium/statedb"

// skippable has changes after the main cursor's revision that need no look. It is approximate, and its memory is
// bounded.
type skippable struct {
	// runs are in rising order of their last revisions.
	runs []run
}

// run is n changes in a range. own: the caller wrote all rows of the range.
type run struct {
	Range
	n   int
	own bool
}

// maxRuns bounds the runs. When there are so many, neighbours are joined.
const maxRuns = 64

// add adds a run, and drops those up to the main cursor's revision.
func (s *skippable) add(revision statedb.Revision, of run) {
	if of.n == 0 {
		return
	}
	kept := s.runs[:0]
	for _, r := range s.runs {
		if r.UpTo > revision {
			kept = append(kept, r)
		}
	}
	s.runs = kept
	if len(s.runs) == maxRuns {
		for i := range maxRuns / 2 {
			a, b := s.runs[2*i], s.runs[2*i+1]
			s.runs[i] = run{Range{a.After, max(a.UpTo, b.UpTo)}, a.n + b.n, a.own && b.own && a.UpTo == b.After}
		}
		s.runs = s.runs[:maxRuns/2]
	}
	s.runs = append(s.runs, of)
}

// wrote reports whether the caller wrote the row with a revision. It may be false for one that it wrote.
func (s *skippable) wrote(revision statedb.Revision) bool {
	for _, r := range s.runs {
		if r.own && r.Contains(revision) {
			return true
		}
	}
	return false
}

// after returns the number of changes after a revision.
func (s *skippable) after(revision statedb.Revision) (n int) {
	for _, r := range s.runs {
		if r.UpTo > revision {
			n += r.n
		}
	}
	return n
}
