// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"fmt"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
)

// The waits between the attempts at an object that fails: most failures are of
// objects that come a moment too early.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

var reconcilersCell = cell.Module(
	"netagent",
	"Reconcilers of links and addresses and routes and sysctls",

	cell.ProvidePrivate(job.Registry.NewGroup),
	cell.Invoke(registerAgain, registerReconcilers),
)

func registerAgain(jobs job.Group, again *desired.Again) {
	jobs.Add(job.OneShot("again", again.Run))
}

func registerReconcilers(params reconciler.Params, o Options, tables *desired.Tables, again *desired.Again) error {
	target := o.Target(tables, again.Undid)
	for _, err := range []error{
		register(params, o, tables.Links, target.Links),
		register(params, o, tables.Addresses, target.Addresses),
		register(params, o, tables.Routes, target.Routes),
		register(params, o, tables.Sysctls, target.Sysctls),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

func register[S desired.Spec](params reconciler.Params, o Options, table statedb.RWTable[*desired.Row[S]], ops reconciler.Operations[*desired.Row[S]]) error {
	prune := reconciler.WithPruning(o.Prune)
	if o.Prune == 0 {
		prune = reconciler.WithoutPruning()
	}
	_, err := reconciler.Register(params, table,
		(*desired.Row[S]).Clone,
		(*desired.Row[S]).SetStatus,
		(*desired.Row[S]).GetStatus,
		ops,
		nil, // no batch operations: netlink takes one change at a time
		reconciler.WithName(table.Name()),
		reconciler.WithRetry(minBackoff, maxBackoff),
		reconciler.WithRefreshing(o.Refresh, nil),
		prune,
	)
	if err != nil {
		return fmt.Errorf("reconciler of %s: %w", table.Name(), err)
	}
	return nil
}
