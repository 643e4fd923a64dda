// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// A module of a hive has a table and its reconciler. The reconciler starts and stops with the hive. The
// arguments are those of statedb's own reconciler: see [reconciler.RegisterConfig] for named fields.
func ExampleRegister() {
	operations := firewall(func(_ context.Context, rule *Rule) error {
		fmt.Println("add", rule.Name)
		return nil
	})
	register := func(params reconciler.Params, rules statedb.RWTable[*Rule]) (reconciler.Reconciler[*Rule], error) {
		return reconciler.Register(params, rules,
			(*Rule).Clone, (*Rule).SetStatus, (*Rule).GetStatus,
			operations, nil)
	}
	var (
		db     *statedb.DB
		rules  statedb.RWTable[*Rule]
		handle reconciler.Reconciler[*Rule]
	)
	h := hive.New(
		statedb.Cell, job.Cell, cell.SimpleHealthCell,
		cell.Module("firewall", "Applies the rules",
			cell.ProvidePrivate(job.Registry.NewGroup),
			cell.Provide(newRules, register),
		),
		cell.Invoke(func(d *statedb.DB, t statedb.RWTable[*Rule], r reconciler.Reconciler[*Rule]) {
			db, rules, handle = d, t, r
		}),
	)
	ctx, discard := context.Background(), slog.New(slog.DiscardHandler)
	if err := h.Start(discard, ctx); err != nil {
		log.Fatal(err)
	}

	wtxn := db.WriteTxn(rules)
	rules.Insert(wtxn, pending("allow-ssh"))
	revision := rules.Revision(wtxn.Commit())
	_, failing, err := handle.WaitUntilReconciled(ctx, revision)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("lowest revision that is not reconciled:", failing)

	if err := h.Stop(discard, ctx); err != nil {
		log.Fatal(err)
	}

	// Output:
	// add allow-ssh
	// lowest revision that is not reconciled: 0
}
