// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package refresh

import (
	"testing"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/health"
	"github.com/statekeel/statekeel/internal/rows"
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
			given := 0
			r := New(Config[*counter]{
				Rows: rows.NewBeside(db, table), Batches: true,
				Give: func(batch []Row[*counter]) (after, upTo statedb.Revision) {
					given += len(batch)
					return 0, 0
				},
			})
			r.Health = health.None()
			r.sizes.size = size
			for b.Loop() {
				for given = 0; given < n; {
					// A lap of a nanosecond: all rows are due, and there is no pause.
					r.free = time.Time{}
					r.Step(Settings{Interval: 1, RoundSize: size})
					r.NotePass(Pass{})
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
		})
	}
}
