// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package benchmarks

import (
	"testing"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
)

// BenchmarkRestart starts with 700,000 rows in the table and in the target, a map, one in a hundred of them different: the
// time until all are done, beyond the time that listing the map takes alone, and the operations. The peer lists nothing and
// applies every row; here its operations cost nothing.
func BenchmarkRestart(b *testing.B) {
	ledgers(b, restart, []contender[startSystem]{statekeel, statedb}, []contender[startSystem]{beside})
}

func restart(r *run, start startSystem) {
	n, gate := r.rows(700_000), make(chan struct{})
	different := func(id uint64) bool { return id%100 == 0 }
	l := subject.NewListing(n, gate, different)
	defer r.system(start, subject.Options{Listed: l})()
	// What does not list waits in its first operation while the table is filled.
	calls := make(rowCalls, n)
	r.target.SetRule(func(id uint64) error {
		<-gate
		calls[id]++
		l.Apply(id)
		return nil
	})
	r.load(0, n)
	alone := l.Alone()
	s := r.section()
	close(gate)
	r.await(n-1, subject.Done)
	used := s.used()
	if were := r.awaitAll(subject.Done); !were {
		used = s.used()
	}
	if !l.Lists() {
		alone = 0
	}
	r.duration(used.wall-alone, "beyond-listing")
	r.ReportMetric(float64(used.cpu)/float64(n), "CPU-ns/object")
	r.ReportMetric(float64(r.target.Updates.Load()), "operations")

	r.checkRows(subject.Done, n)
	r.equal("Delete calls", r.target.Deletes.Load(), 0)
	for id, got := range calls {
		want := uint32(1)
		if l.Lists() && !different(uint64(id)) {
			want = 0
		}
		if got != want {
			r.Errorf("Update calls for row %d: got %d, want %d", id, got, want)
			break
		}
	}
}
