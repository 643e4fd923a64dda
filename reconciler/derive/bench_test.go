// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
)

const benchRows = 1_000_000

// claim is an input row of the benchmarks: place number Place, with a metric.
type claim struct {
	ID, Place uint64
	Metric    int
}

func (c *claim) TableHeader() []string { return []string{"ID"} }
func (c *claim) TableRow() []string    { return []string{fmt.Sprint(c.ID)} }

func numbered(of func(*claim) uint64) statedb.Index[*claim, uint64] {
	return statedb.Index[*claim, uint64]{
		Name: "id", FromObject: func(c *claim) index.KeySet { return index.NewKeySet(index.Uint64(of(c))) },
		FromKey: index.Uint64, Unique: true,
	}
}

// filled returns a derivation that has derived n rows, two of which want each place, and the heap in use
// before and after it was made.
func filled(b *testing.B, n int) (db *statedb.DB, in statedb.RWTable[*claim], settle func(), before, after uint64) {
	db = statedb.New()
	in, err := statedb.NewTable(db, "claims", numbered(func(c *claim) uint64 { return c.ID }))
	require.NoError(b, err)
	out, err := statedb.NewTable(db, "places", numbered(func(c *claim) uint64 { return c.Place }))
	require.NoError(b, err)
	fill(b, db, in, n)
	// The same rows in the output without a derivation, to measure the memory beside the tables.
	wtxn := db.WriteTxn(out)
	for row := range in.All(db.ReadTxn()) {
		old, _, found := out.Get(wtxn, numbered(func(c *claim) uint64 { return c.Place }).Query(row.Place))
		if !found || row.Metric < old.Metric {
			_, _, err := out.Insert(wtxn, row)
			require.NoError(b, err)
		}
	}
	wtxn.Commit()
	before = heap()
	d, err := derive.Best(derive.Config[*claim]{DB: db}, in, out,
		func(c *claim) ([]*claim, error) { return []*claim{c}, nil }, func(c *claim) int { return c.Metric })
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	settle = func() {
		_, err := d.WaitAll(b.Context(), reconciler.Attempted)
		require.NoError(b, err)
	}
	settle()
	after = heap()
	b.Cleanup(func() {
		cancel()
		require.NoError(b, <-ended)
		d.Close()
	})
	return db, in, settle, before, after
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// strides are the distances between changed rows: neighbours share the nodes of statedb's trees.
var strides = map[string]int{"neighbours": 1, "scattered": 7919}

// BenchmarkBestChange changes rows of a million in transactions of 1000, and waits until each is derived.
// An operation is one change: its write and what is derived from it. Two rows want each place.
func BenchmarkBestChange(b *testing.B) {
	for name, stride := range strides {
		b.Run(name, func(b *testing.B) {
			db, in, settle, before, after := filled(b, benchRows)
			b.ReportAllocs()
			change(b, db, in, stride, settle)
			b.ReportMetric(float64(after-before)/benchRows, "bytes/row")
		})
	}
}

// BenchmarkInputChange is the part of BenchmarkBestChange that is the write of the input.
func BenchmarkInputChange(b *testing.B) {
	for name, stride := range strides {
		b.Run(name, func(b *testing.B) {
			db := statedb.New()
			in, err := statedb.NewTable(db, "claims", numbered(func(c *claim) uint64 { return c.ID }))
			require.NoError(b, err)
			fill(b, db, in, benchRows)
			change(b, db, in, stride, func() {})
		})
	}
}

func change(b *testing.B, db *statedb.DB, in statedb.RWTable[*claim], stride int, settle func()) {
	const size = 1000
	next := 0
	for done := 0; done < b.N; done += size {
		if done == 0 {
			b.ResetTimer()
		}
		wtxn := db.WriteTxn(in)
		for range min(size, b.N-done) {
			next = (next + stride) % benchRows
			_, _, err := in.Insert(wtxn, &claim{ID: uint64(next), Place: uint64(next / 2), Metric: (next + done) % 11})
			require.NoError(b, err)
		}
		wtxn.Commit()
		settle()
	}
}

func fill(b *testing.B, db *statedb.DB, in statedb.RWTable[*claim], n int) {
	wtxn := db.WriteTxn(in)
	defer wtxn.Commit()
	for i := range n {
		_, _, err := in.Insert(wtxn, &claim{ID: uint64(i), Place: uint64(i / 2), Metric: i % 7})
		require.NoError(b, err)
	}
}
