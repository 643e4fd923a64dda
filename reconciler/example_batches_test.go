// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// ruleBatch are the rules of one call.
type ruleBatch = []reconciler.BatchEntry[*Rule]

// names returns the names of the rules of a call.
func names(batch ruleBatch) (names []string) {
	for _, entry := range batch {
		names = append(names, entry.Object.Name)
	}
	return names
}

// bulkFirewall takes many rules in one call, and reports a result for each.
type bulkFirewall struct{}

func (bulkFirewall) UpdateBatch(_ context.Context, _ statedb.ReadTxn, batch ruleBatch) {
	fmt.Println("add", names(batch))
	for i := range batch {
		if batch[i].Object.Name == "drop-all" {
			batch[i].Result = errors.New("a user is logged in")
		}
	}
}

func (bulkFirewall) DeleteBatch(_ context.Context, _ statedb.ReadTxn, batch ruleBatch) {
	fmt.Println("remove", names(batch))
}

// One call has all rules that were written in a transaction. A rule that fails does not fail the others.
func ExampleBatchOperations() {
	s := startRules(reconciler.Config[*Rule]{BatchOperations: bulkFirewall{}})
	defer s.stop()
	s.insert(pending("allow-dns"), pending("allow-ssh"))
	s.waitApplied()

	wtxn := s.db.WriteTxn(s.rules)
	s.rules.Delete(wtxn, pending("allow-dns"))
	wtxn.Commit()
	s.waitApplied()

	// Output:
	// add [allow-dns allow-ssh]
	// remove [allow-dns]
}

// fileFirewall reads all rules from one file, which a round writes once.
type fileFirewall struct{ rules []string }

func (f *fileFirewall) ProcessRound(_ context.Context, _ statedb.ReadTxn, deletes, updates ruleBatch) {
	f.rules = slices.DeleteFunc(f.rules, func(name string) bool {
		return slices.Contains(names(deletes), name) || slices.Contains(names(updates), name)
	})
	f.rules = append(f.rules, names(updates)...)
	fmt.Println("write the file:", f.rules)
}

// A round with a deletion and two updates is one call, and here one write of the file.
func ExampleRoundOperations() {
	s := startRules(reconciler.Config[*Rule]{RoundOperations: &fileFirewall{}})
	defer s.stop()
	s.insert(pending("allow-telnet"))
	s.waitApplied()

	wtxn := s.db.WriteTxn(s.rules)
	s.rules.Delete(wtxn, pending("allow-telnet"))
	s.rules.Insert(wtxn, pending("allow-dns"))
	s.rules.Insert(wtxn, pending("allow-ssh"))
	wtxn.Commit()
	s.waitApplied()

	// Output:
	// write the file: [allow-telnet]
	// write the file: [allow-dns allow-ssh]
}

// atomicFirewall applies all rules of a transaction or none, as "nft -f" does.
type atomicFirewall struct{}

func (atomicFirewall) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch ruleBatch) {
	reconciler.Bisect(ctx, batch, load, nil)
}

func (atomicFirewall) DeleteBatch(context.Context, statedb.ReadTxn, ruleBatch) {}

// load is one transaction of the firewall.
func load(batch ruleBatch) error {
	if slices.Contains(names(batch), "alow-dns") {
		fmt.Println("refused:", names(batch))
		return reconciler.TerminalError(errors.New("syntax error"))
	}
	fmt.Println("loaded:", names(batch))
	return nil
}

// One bad rule does not keep the others out of the firewall.
func ExampleBisect() {
	s := startRules(reconciler.Config[*Rule]{BatchOperations: atomicFirewall{}})
	defer s.stop()
	s.insert(pending("allow-ssh"), pending("alow-dns"), pending("allow-http"), pending("allow-ntp"))
	s.waitAttempted()
	fmt.Println(s.row("alow-dns").Status.GetError())

	// Output:
	// refused: [allow-ssh alow-dns allow-http allow-ntp]
	// refused: [allow-ssh alow-dns]
	// loaded: [allow-ssh]
	// refused: [alow-dns]
	// loaded: [allow-http allow-ntp]
	// syntax error
}
