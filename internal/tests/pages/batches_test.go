// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"context"
	"fmt"
	"testing"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

type entries = []reconciler.BatchEntry[*Rule]

// Ruleset is a target that takes all rules of a call or none.
type Ruleset struct{ calls int }

func (s *Ruleset) load(batch entries) error {
	s.calls++
	for _, entry := range batch {
		if entry.Object.Text == "" {
			return reconciler.TerminalError(fmt.Errorf("syntax error in %s", entry.Object.Name))
		}
	}
	return nil
}

func (s *Ruleset) UpdateBatch(ctx context.Context, _ statedb.ReadTxn, batch entries) {
	reconciler.Bisect(ctx, batch, s.load, nil)
}

func (s *Ruleset) DeleteBatch(context.Context, statedb.ReadTxn, entries) {}

func TestOneBadRuleDoesNotFailTheOthers(t *testing.T) {
	reconcilertest.Run(t, newRules, func(e *reconcilertest.Env[*Rule]) {
		target := &Ruleset{}
		e.Start(reconciler.Config[*Rule]{BatchOperations: target})
		a, b, c := &Rule{"a", "accept"}, &Rule{"b", ""}, &Rule{"c", "drop"}
		e.Insert(a, b, c)
		e.Pass(0)
		got := fmt.Sprint(e.Status(a).Kind, e.Status(b).Kind, e.Status(c).Kind, target.calls)
		if want := "Done Error Done 4"; got != want {
			e.Errorf("got %s, want %s", got, want)
		}
	})
}
