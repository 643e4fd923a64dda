// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package workload

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/benchmarks/internal/subject"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
)

// deriveBest measures a derived table.
func deriveBest() Workload {
	return Workload{
		Name: "derive-best",
		About: "1,000,000 rows of which two want each place, and derive.Best, all derived; then each row is written in " +
			"transactions of 1000, so that every place gets another winner: the time and the CPU of a change, with its " +
			"insert, until the output has all of them.",
		Contenders: []string{subject.Statekeel},
		Runs:       fewRuns,
		measure: func(ctx context.Context, env *Env) (Figures, error) {
			return measureDerive(ctx, env, env.Rows(1_000_000))
		},
	}
}

// claim is a row that wants a place; the highest rank wins.
type claim struct{ id, rank uint64 }

func (c *claim) place() uint64 { return c.id / 2 }

func (*claim) TableHeader() []string { return []string{"ID", "Rank"} }
func (c *claim) TableRow() []string  { return []string{fmt.Sprint(c.id), fmt.Sprint(c.rank)} }

// winner is the row of a place.
type winner struct{ place, rank uint64 }

func (*winner) TableHeader() []string { return []string{"Place", "Rank"} }
func (w *winner) TableRow() []string  { return []string{fmt.Sprint(w.place), fmt.Sprint(w.rank)} }

// byNumber returns a primary index by a number.
func byNumber[Row any](number func(Row) uint64) statedb.Index[Row, uint64] {
	return statedb.Index[Row, uint64]{
		Name:       "id",
		FromObject: func(r Row) index.KeySet { return index.NewKeySet(index.Uint64(number(r))) },
		FromKey:    index.Uint64,
		Unique:     true,
	}
}

func measureDerive(ctx context.Context, env *Env, n uint64) (_ Figures, err error) {
	db := statedb.New()
	claims, err := statedb.NewTable(db, "claims", byNumber(func(c *claim) uint64 { return c.id }))
	if err != nil {
		return nil, err
	}
	winners, err := statedb.NewTable(db, "winners", byNumber(func(w *winner) uint64 { return w.place }))
	if err != nil {
		return nil, err
	}
	d, err := derive.Best(derive.Config[*winner]{DB: db}, claims, winners,
		func(c *claim) ([]*winner, error) { return []*winner{{c.place(), c.rank}}, nil },
		func(c *claim) int64 { return -int64(c.rank) })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
		d.Close()
	}()

	// write writes all claims with ranks from base on, and waits until the winners are derived.
	write := func(base uint64) error {
		err := inBatches(0, n, writeBatch, func(first, size uint64) error {
			wtxn := db.WriteTxn(claims)
			defer wtxn.Abort()
			for id := first; id < first+size; id++ {
				if _, _, err := claims.Insert(wtxn, &claim{id, base + id}); err != nil {
					return err
				}
			}
			wtxn.Commit()
			return nil
		})
		if err != nil {
			return err
		}
		_, err = d.WaitAll(ctx, reconciler.Attempted)
		return err
	}
	if err := write(1); err != nil {
		return nil, err
	}
	used, err := env.measure(func() error { return write(1 + n) })
	if err != nil {
		return nil, err
	}
	var c checks
	txn := db.ReadTxn()
	c.equal("places", uint64(winners.NumObjects(txn)), (n+1)/2)
	for w := range winners.All(txn) {
		if want := 1 + n + min(2*w.place+1, n-1); w.rank != want {
			c.equal(fmt.Sprintf("rank of place %d", w.place), w.rank, want)
			break
		}
	}
	return Figures{
		cost("cpu", "us/change", micros(used.cpu), n), cost("time", "us/change", micros(used.wall), n),
		cost("allocs", "allocs/change", float64(used.allocs), n),
	}, c.err()
}
