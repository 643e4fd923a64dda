// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"iter"
	"log"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
)

// The table and the operations that most examples share.

// Rule is a row: a rule of a firewall.
type Rule struct {
	Name    string
	Handle  string // set by the update: what the firewall calls the rule
	Packets int    // set by another writer
	Status  reconciler.Status
}

func (r *Rule) TableHeader() []string { return []string{"Name", "Status"} }
func (r *Rule) TableRow() []string    { return []string{r.Name, r.Status.String()} }

func (r *Rule) Clone() *Rule                        { c := *r; return &c }
func (r *Rule) GetStatus() reconciler.Status        { return r.Status }
func (r *Rule) SetStatus(s reconciler.Status) *Rule { r.Status = s; return r }

// pending returns a rule that the firewall should have.
func pending(name string) *Rule {
	return &Rule{Name: name, Status: reconciler.StatusPending()}
}

// ruleName is the primary index of the table.
var ruleName = statedb.Index[*Rule, string]{
	Name:       "name",
	FromObject: func(r *Rule) index.KeySet { return index.NewKeySet(index.String(r.Name)) },
	FromKey:    index.String,
	FromString: index.FromString,
	Unique:     true,
}

// newRules returns the table.
func newRules(db *statedb.DB) (statedb.RWTable[*Rule], error) {
	return statedb.NewTable(db, "rules", ruleName)
}

// firewall is the target. The function is its Update; Delete and Prune do nothing.
type firewall func(ctx context.Context, rule *Rule) error

func (f firewall) Update(ctx context.Context, _ statedb.ReadTxn, _ statedb.Revision, rule *Rule) error {
	return f(ctx, rule)
}

func (firewall) Delete(context.Context, statedb.ReadTxn, statedb.Revision, *Rule) error { return nil }

func (firewall) Prune(context.Context, statedb.ReadTxn, iter.Seq2[*Rule, statedb.Revision]) error {
	return nil
}

// ruleSystem is a running reconciler of a table of rules.
type ruleSystem struct {
	db    *statedb.DB
	rules statedb.RWTable[*Rule]
	loop  *reconciler.Loop[*Rule]
	// stop stops the reconciler and waits for its end.
	stop func()
}

// startRules makes a table with rows, and runs a reconciler of it.
func startRules(cfg reconciler.Config[*Rule], rows ...*Rule) ruleSystem {
	db := statedb.New()
	rules, err := newRules(db)
	if err != nil {
		log.Fatal(err)
	}
	cfg.DB, cfg.Table = db, rules
	cfg.Clone, cfg.GetStatus, cfg.SetStatus = (*Rule).Clone, (*Rule).GetStatus, (*Rule).SetStatus
	loop, err := reconciler.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Start(); err != nil {
		log.Fatal(err)
	}
	s := ruleSystem{db: db, rules: rules, loop: loop}
	s.insert(rows...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- loop.Run(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			log.Fatal(err)
		}
		if err := db.Stop(); err != nil {
			log.Fatal(err)
		}
	}
	return s
}

// insert writes rules into the table, in one transaction.
func (s ruleSystem) insert(rules ...*Rule) {
	wtxn := s.db.WriteTxn(s.rules)
	for _, rule := range rules {
		s.rules.Insert(wtxn, rule)
	}
	wtxn.Commit()
}

// row returns the row of a rule.
func (s ruleSystem) row(name string) *Rule {
	rule, _, found := s.rules.Get(s.db.ReadTxn(), ruleName.Query(name))
	if !found {
		log.Fatalf("no rule %s", name)
	}
	return rule
}

// waitAttempted waits until every rule in the table was attempted.
func (s ruleSystem) waitAttempted() {
	if _, err := s.loop.WaitAll(context.Background(), reconciler.Attempted); err != nil {
		log.Fatal(err)
	}
}

// waitApplied waits until the firewall has every rule in the table.
func (s ruleSystem) waitApplied() {
	if _, err := s.loop.WaitAll(context.Background(), reconciler.Applied); err != nil {
		log.Fatal(err)
	}
}
