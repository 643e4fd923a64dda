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

// Watched is a firewall that says what it has for one rule.
type Watched struct{ Firewall }

func (w Watched) Get(_ context.Context, _ statedb.ReadTxn, wanted *Rule) (found *Rule, ok bool, err error) {
	for _, rule := range w.Objects() {
		if rule.Name == wanted.Name {
			return rule, true, nil
		}
	}
	return nil, false, nil
}

func TestWhatIsDeletedByHandIsBackAtOnce(t *testing.T) {
	reconcilertest.Run(t, newRules, func(e *reconcilertest.Env[*Rule]) {
		firewall := Watched{Firewall{reconcilertest.NewTarget(getRule, nil)}}
		e.Insert(&Rule{"ssh", "accept"})
		e.Start(reconciler.Config[*Rule]{Operations: firewall, Lister: firewall, Equal: same})
		e.Pass(0)
		changed := func(name string) {
			if err := e.Loop.Verify(e.Context(), &Rule{Name: name}); err != nil {
				e.Error(err)
			}
			e.Pass(0)
		}
		firewall.Delete(e.Context(), nil, 0, &Rule{Name: "ssh"})
		changed("ssh")
		if len(firewall.Objects()) != 1 {
			e.Error("the rule is not back")
		}
		firewall.Take()
		changed("ssh") // the event of our own write
		if calls := firewall.Calls(); len(calls) != 0 {
			e.Errorf("there was nothing to do, and the operations are %v", calls)
		}
	})
}
