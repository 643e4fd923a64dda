// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler_test

import (
	"context"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// listedFirewall lists its rules. An earlier process has left two of them.
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

// The reconciler deletes the rules that have no row, with retries and limits as for every deletion. If
// there are more than the budget allows, it deletes none, and health says so. A person may approve the
// resync: with the command reconciler/approve, the button of the debug page, or ApproveResync.
func ExampleConfig_orphansOnly() {
	target := listedFirewall{
		firewall: func(context.Context, *Rule) error { return nil },
		deleted:  make(chan string, 2),
	}
	s := startRules(reconciler.Config[*Rule]{
		Operations:  target,
		Lister:      target,
		OrphansOnly: true,
		Options:     []reconciler.Option{reconciler.WithOrphanBudget(100, 0.9)},
	}, pending("allow-ssh"))
	defer s.stop()
	fmt.Println("delete", <-target.deleted)
	fmt.Println("delete", <-target.deleted)

	// Unordered output:
	// delete allow-telnet
	// delete allow-ftp
}
