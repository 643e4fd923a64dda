// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/statekeel/statekeel/reconciler"
)

// A program that has written rules finds out which of them the firewall has, and continues only when
// the important ones are there.
func ExampleLoop_Wait() {
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(_ context.Context, rule *Rule) error {
			if rule.Name == "drop-all" {
				return reconciler.TerminalError(errors.New("not while a user is logged in"))
			}
			return nil
		}),
	})
	defer s.stop()
	ctx := context.Background()

	wtxn := s.db.WriteTxn(s.rules)
	s.rules.Insert(wtxn, pending("allow-ssh"))
	s.rules.Insert(wtxn, pending("drop-all"))
	revision := s.rules.Revision(wtxn.Commit())

	// When everything was attempted once, Wait returns the rules that were not applied.
	unapplied, err := s.loop.Wait(ctx, revision, reconciler.Attempted)
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range unapplied.Keys {
		fmt.Printf("%s: %s (%v)\n", key.Key, key.State, key.Err)
	}

	// WaitFor waits for some objects: here for a rule, and for the deletion of another one. It uses
	// only their primary keys.
	wtxn = s.db.WriteTxn(s.rules)
	s.rules.Delete(wtxn, &Rule{Name: "drop-all"})
	wtxn.Commit()
	if _, err := s.loop.WaitFor(ctx, reconciler.Applied, &Rule{Name: "allow-ssh"}, &Rule{Name: "drop-all"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the firewall has allow-ssh, and drop-all is deleted")

	// Output:
	// drop-all: terminal (not while a user is logged in)
	// the firewall has allow-ssh, and drop-all is deleted
}
