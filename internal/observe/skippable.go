// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package observe

import "github.com/cilium/statedb"

// skippable are changes after the main cursor's revision that need no look. Their number is about
// right, and their memory is bounded.
type skippable struct {
	// runs are in rising order.
	runs []run
}

// run is a number of changes, the last of which has the revision upTo.
type run struct {
	upTo statedb.Revision
	n    int
}

// maxRuns bounds the runs: neighbours are joined.
const maxRuns = 64

// add adds n changes up to a revision, and drops those up to the revision of the main cursor.
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

// after returns how many changes there are after a revision.
func (s *skippable) after(revision statedb.Revision) (n int) {
	for _, r := range s.runs {
		if r.upTo > revision {
			n += r.n
		}
	}
	return n
}
