// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
)

// Rule is what is reconciled here: a rule of a firewall.
type Rule struct {
	Name   string
	Status reconciler.Status
}

func (r *Rule) TableHeader() []string { return []string{"Name", "Status"} }
func (r *Rule) TableRow() []string    { return []string{r.Name, r.Status.String()} }

func (r *Rule) Clone() *Rule                        { c := *r; return &c }
func (r *Rule) GetStatus() reconciler.Status        { return r.Status }
func (r *Rule) SetStatus(s reconciler.Status) *Rule { r.Status = s; return r }
func pending(name string) *Rule                     { return &Rule{Name: name, Status: reconciler.StatusPending()} }
func (r *Rule) key() index.KeySet                   { return index.NewKeySet(index.String(r.Name)) }

var ruleName = statedb.Index[*Rule, string]{
	Name: "name", FromObject: (*Rule).key, FromKey: index.String, FromString: index.FromString, Unique: true,
}

// firewall would be the firewall. It does not take every rule.
type firewall struct{}

func (firewall) Update(_ context.Context, _ statedb.ReadTxn, _ statedb.Revision, rule *Rule) error {
	if rule.Name == "drop-all" {
		return reconciler.TerminalError(errors.New("not while somebody is logged in"))
	}
	return nil
}

func (firewall) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *Rule) error { return nil }

func (firewall) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*Rule, statedb.Revision]) error {
	return nil
}

// A program that has written rules wants to know which of them the firewall has, and to go on
// only when those that matter are there.
func ExampleLoop_Wait() {
	db := statedb.New()
	rules, err := statedb.NewTable(db, "rules", ruleName)
	if err != nil {
		log.Fatal(err)
	}
	loop, err := reconciler.New(reconciler.Config[*Rule]{
		DB: db, Table: rules, Operations: firewall{},
		Clone: (*Rule).Clone, GetStatus: (*Rule).GetStatus, SetStatus: (*Rule).SetStatus,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Start(); err != nil {
		log.Fatal(err)
	}
	defer db.Stop()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()

	wtxn := db.WriteTxn(rules)
	rules.Insert(wtxn, pending("allow-ssh"))
	rules.Insert(wtxn, pending("drop-all"))
	revision := rules.Revision(wtxn.Commit())

	// Everything has been tried once. What did not work is returned.
	owed, err := loop.Wait(ctx, revision, reconciler.Attempted)
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range owed.Keys {
		fmt.Printf("%s: %s (%v)\n", key.Key, key.State, key.Err)
	}

	// One rule, and the deletion of another. Only the keys of the objects matter.
	wtxn = db.WriteTxn(rules)
	rules.Delete(wtxn, &Rule{Name: "drop-all"})
	wtxn.Commit()
	if _, err := loop.WaitFor(ctx, reconciler.Applied, &Rule{Name: "allow-ssh"}, &Rule{Name: "drop-all"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("one is there, the other is gone")

	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	// Output:
	// drop-all: terminal (not while somebody is logged in)
	// one is there, the other is gone
}
