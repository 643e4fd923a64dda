// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/watch"
)

type counter struct{ id uint64 }

func (*counter) TableHeader() []string { return []string{"ID"} }
func (*counter) TableRow() []string    { return []string{""} }

// A lap over a million rows reads each row once. Its memory is that of one batch.
func BenchmarkLap(b *testing.B) {
	const n = 1_000_000
	db := statedb.New()
	table, err := statedb.NewTable(db, "counters", statedb.Index[*counter, uint64]{
		Name:       "id",
		FromObject: func(c *counter) index.KeySet { return index.NewKeySet(index.Uint64(c.id)) },
		FromKey:    index.Uint64,
		Unique:     true,
	})
	require.NoError(b, err)
	wtxn := db.WriteTxn(table)
	for id := range uint64(n) {
		_, _, err := table.Insert(wtxn, &counter{id})
		require.NoError(b, err)
	}
	wtxn.Commit()
	for name, size := range map[string]int{"batches of 1000": 1000, "batches of 5": 5} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			h := &hander[*counter]{
				rows: rows.NewBeside(db, table), batches: true, all: &walkCall[*counter]{}, gate: &gate{},
				hand: func([]Row[*counter], statedb.Revision) <-chan struct{} { return watch.Closed },
			}
			// A lap of a nanosecond: all rows are due.
			h.begin(Settings{Interval: 1})
			for b.Loop() {
				for given := 0; given < n; {
					h.gate.begin()
					batch, _ := h.collect(size)
					if len(batch.rows) == 0 {
						continue
					}
					h.give(batch)
					batch.advance()
					given += len(batch.rows)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
		})
	}
}
