// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive_test

import (
	"context"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
)

// Two owners want one route. That with the lowest metric is in the output.
func ExampleBest() {
	db := statedb.New()
	wishes, _ := statedb.NewTable(db, "wishes", byName)
	routes, _ := statedb.NewTable(db, "routes", byPlace)
	best, err := derive.Best(derive.Config[*route]{DB: db}, wishes, routes,
		func(w *wish) ([]*route, error) { return []*route{{Place: w.Places, From: w.Name}}, nil },
		func(w *wish) int { return w.Metric })
	if err != nil {
		panic(err)
	}
	defer best.Close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- best.Run(ctx) }()

	wtxn := db.WriteTxn(wishes)
	wishes.Insert(wtxn, &wish{Name: "bgp", Places: "10.0.0.0/8", Metric: 20})
	wishes.Insert(wtxn, &wish{Name: "static", Places: "10.0.0.0/8", Metric: 1})
	wtxn.Commit()
	best.WaitAll(ctx, reconciler.Applied)
	row, _, _ := routes.Get(db.ReadTxn(), byPlace.Query("10.0.0.0/8"))
	fmt.Println(row.Place, "from", row.From)
	for _, note := range best.Explain(ctx, "10.0.0.0/8").Notes {
		fmt.Println(note)
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// 10.0.0.0/8 from static
	// 10.0.0.0/8 of table "routes": the winner is static (static 10.0.0.0/8 1), 2 row(s) want it
	// loser: bgp (bgp 10.0.0.0/8 20)
	// <nil>
}
