// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// With three functions of the row the reconciler writes each outcome into the row. The program sets the
// status to Pending with every change. This is for rows that others watch for their status.
func Example_statusInTheRows() {
	db := statedb.New()
	table, err := newRules(db)
	if err != nil {
		log.Fatal(err)
	}
	loop, err := reconciler.New(reconciler.Config[*Rule]{
		DB: db, Table: table,
		Clone: (*Rule).Clone, GetStatus: (*Rule).GetStatus, SetStatus: (*Rule).SetStatus,
		Operations: firewall(func(_ context.Context, rule *Rule) error {
			if rule.Name == "allow-nothing" {
				return reconciler.TerminalError(errors.New("the rule is empty"))
			}
			return nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()

	wtxn := db.WriteTxn(table)
	table.Insert(wtxn, &Rule{Name: "allow-ssh", Status: reconciler.StatusPending()})
	table.Insert(wtxn, &Rule{Name: "allow-nothing", Status: reconciler.StatusPending()})
	wtxn.Commit()
	if _, err := loop.WaitAll(ctx, reconciler.Attempted); err != nil {
		log.Fatal(err)
	}
	for rule := range table.All(db.ReadTxn()) {
		fmt.Println(rule.Name, rule.Status.Kind)
	}

	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	// Output:
	// allow-nothing Error
	// allow-ssh Done
}
