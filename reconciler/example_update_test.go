// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"

	"github.com/statekeel/statekeel/reconciler"
)

// An update notes the handle of a rule in the table before it creates the rule. So the program can find
// the rule again even if this update never returns.
func ExampleCheckpoint() {
	var s ruleSystem
	create := func(rule *Rule) {
		fmt.Println("create", rule.Handle)
		fmt.Println("in the table:", s.row(rule.Name).Handle, s.row(rule.Name).Status.Kind)
	}
	s = startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(ctx context.Context, rule *Rule) error {
			if rule.Handle == "" {
				rule.Handle = "handle-7"
				if err := reconciler.Checkpoint(ctx, rule); err != nil {
					return err // a conflict: the update runs again with the new version of the row
				}
			}
			create(rule)
			return nil
		}),
	})
	defer s.stop()
	s.insert(pending("allow-ssh"))
	s.waitApplied()
	fmt.Println("in the table:", s.row("allow-ssh").Handle, s.row("allow-ssh").Status.Kind)

	// Output:
	// create handle-7
	// in the table: handle-7 Pending
	// in the table: handle-7 Done
}

// Explain and the journal show the note.
func ExampleNote() {
	s := startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(ctx context.Context, rule *Rule) error {
			reconciler.Note(ctx, "replaced 2 of 3 chains")
			return nil
		}),
	})
	defer s.stop()
	s.insert(pending("allow-ssh"))
	s.waitApplied()
	for _, event := range s.loop.Explain(context.Background(), "allow-ssh").Operations {
		fmt.Println(event.Op, event.Key, event.Result, "-", event.Note)
	}

	// Output:
	// update allow-ssh done - replaced 2 of 3 chains
}

// Another writer changes the row while the update runs, and does not ask for a new update: a second
// reconciler that writes its own status, or a counter as here. Merge copies the handle, which this
// update sets, to the current row. Without Merge the handle would be lost.
func ExampleConfig_merge() {
	var s ruleSystem
	count := func(name string) {
		rule := s.row(name).Clone()
		rule.Packets = 5
		s.insert(rule)
	}
	s = startRules(reconciler.Config[*Rule]{
		Operations: firewall(func(_ context.Context, rule *Rule) error {
			rule.Handle = "handle-7"
			count(rule.Name)
			return nil
		}),
		Merge: func(current, reconciled *Rule) *Rule {
			current.Handle = reconciled.Handle
			return current
		},
	})
	defer s.stop()
	s.insert(pending("allow-ssh"))
	s.waitApplied()
	rule := s.row("allow-ssh")
	fmt.Println(rule.Status.Kind, rule.Handle, rule.Packets)

	// Output:
	// Done handle-7 5
}
