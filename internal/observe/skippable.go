// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

import "github.com/cilium/statedb"

// skippable counts changes after the main cursor's revision that need no look. The count is
// approximate, and its memory is bounded.
type skippable struct {
	// runs are in rising order of their revisions.
	runs []run
}

// run is a run of n changes; the last has the revision upTo.
type run struct {
	upTo statedb.Revision
	n    int
}

// maxRuns bounds the runs. When there are so many, neighbours are joined.
const maxRuns = 64

// add adds n changes up to the revision upTo, and drops those up to the main cursor's revision.
func (s *skippable) add(revision, upTo statedb.Revision, n int) {
	if n == 0 {
		return
	}
	kept := s.runs[:0]
	for _, r := range s.runs {
		if r.upTo > revision {
			kept = append(kept, r)
		}
	}
	s.runs = kept
	if len(s.runs) == maxRuns {
		for i := range maxRuns / 2 {
			a, b := s.runs[2*i], s.runs[2*i+1]
			s.runs[i] = run{max(a.upTo, b.upTo), a.n + b.n}
		}
		s.runs = s.runs[:maxRuns/2]
	}
	s.runs = append(s.runs, run{upTo, n})
}

// after returns the number of changes after a revision.
func (s *skippable) after(revision statedb.Revision) (n int) {
	for _, r := range s.runs {
		if r.upTo > revision {
			n += r.n
		}
	}
	return n
}
