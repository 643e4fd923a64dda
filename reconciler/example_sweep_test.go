// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// listedFirewall is a firewall that says what it has, of which an earlier process has left
// two rules behind.
type listedFirewall struct {
	firewall
	deleted chan string
}

func (f listedFirewall) Delete(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, rule *Rule) error {
	f.deleted <- rule.Name
	return nil
}

func (listedFirewall) List(_ context.Context, _ statedb.ReadTxn, yield func(*Rule) bool) error {
	for _, name := range []string{"allow-ssh", "allow-telnet", "allow-ftp"} {
		if !yield(&Rule{Name: name}) {
			break
		}
	}
	return nil
}

// The reconciler deletes what the firewall has and the table does not, as it deletes
// anything else, unless it is more than the budget says: then health tells a person, who may
// approve it: with the command reconciler/approve, the button of the page, or ApproveSweep.
func ExampleSweeper() {
	db := statedb.New()
	rules, err := statedb.NewTable(db, "rules", ruleName)
	if err != nil {
		log.Fatal(err)
	}
	target := listedFirewall{deleted: make(chan string, 10)}
	loop, err := reconciler.New(reconciler.Config[*Rule]{
		DB: db, Table: rules, Operations: target, Sweeper: target,
		Clone: (*Rule).Clone, GetStatus: (*Rule).GetStatus, SetStatus: (*Rule).SetStatus,
		Options: []reconciler.Option{reconciler.WithSweepBudget(100, 0.9)},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Start(); err != nil {
		log.Fatal(err)
	}
	defer db.Stop()

	wtxn := db.WriteTxn(rules)
	rules.Insert(wtxn, pending("allow-ssh"))
	wtxn.Commit()

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()
	fmt.Println("delete", <-target.deleted)
	fmt.Println("delete", <-target.deleted)

	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	// Unordered output:
	// delete allow-telnet
	// delete allow-ftp
}
