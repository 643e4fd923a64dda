// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package progress

import (
	"cmp"
	"slices"

	"github.com/cilium/statedb"
)

// windows define the rows that the waits for the end of a snapshot are for: rows that were written
// after a wait began, and whose status was made before that.
type windows []window

// window is that of the waits for revision until that began when the table had revision from. id is
// higher than that of any status that was made before.
type window struct {
	id          uint64
	from, until statedb.Revision
}

// maxWindows bounds the windows: each row of the snapshot is compared with all of them.
const maxWindows = 64

// few returns windows for the same rows. If there are more than maxWindows, it merges them: the result
// may include more rows.
func (m windows) few() windows {
	slices.SortFunc(m, func(a, b window) int { return cmp.Compare(a.id, b.id) })
	for len(m) > maxWindows {
		for i := range len(m) / 2 {
			a, b := m[2*i], m[2*i+1]
			m[i] = window{b.id, min(a.from, b.from), min(a.until, b.until)}
		}
		if len(m)%2 > 0 {
			m[len(m)/2] = m[len(m)-1]
		}
		m = m[:(len(m)+1)/2]
	}
	return m
}

// since returns the revision since which a row counts as not reconciled. id is the ID of its status,
// and revision the row's revision.
func (m windows) since(id uint64, revision statedb.Revision) statedb.Revision {
	since := revision
	for i := range m {
		if id < m[i].id && m[i].from < revision {
			since = min(since, m[i].until)
		}
	}
	return since
}
