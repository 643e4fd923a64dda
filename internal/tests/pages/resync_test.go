// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package pages

import (
	"context"
	"testing"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// Firewall is a fake target that can list its rules.
type Firewall struct{ *reconcilertest.Target[*Rule] }

// List yields each rule that the firewall has, with its values.
func (f Firewall) List(_ context.Context, _ statedb.ReadTxn, yield func(*Rule) bool) error {
	for _, rule := range f.Objects() {
		if !yield(rule) {
			break
		}
	}
	return nil
}

func same(wanted, found *Rule) bool { return *wanted == *found }

func TestRestartWritesTheDifference(t *testing.T) {
	reconcilertest.Run(t, newRules, func(e *reconcilertest.Env[*Rule]) {
		firewall := Firewall{reconcilertest.NewTarget(getRule, nil)}
		for _, left := range []*Rule{{"ssh", "accept"}, {"dns", "drop"}, {"old", "accept"}} {
			firewall.Update(e.Context(), nil, 0, left)
		}
		e.Insert(&Rule{"ssh", "accept"}, &Rule{"dns", "accept"})
		firewall.Take()

		e.Start(reconciler.Config[*Rule]{Operations: firewall, Lister: firewall, Equal: same})
		e.Pass(0)
		if calls := firewall.Calls(); len(calls) != 2 {
			e.Errorf("the operations are %v, want an update of dns and a deletion of old", calls)
		}

		firewall.Delete(e.Context(), nil, 0, &Rule{Name: "ssh"})
		e.Loop.Resync()
		e.Pass(0)
		if r := e.Loop.Snapshot(e.Context()).Resync; r.Missing != 1 || len(firewall.Objects()) != 2 {
			e.Errorf("the resync found %s, and the firewall has %v", r.Summary(), firewall.Objects())
		}
	})
}
