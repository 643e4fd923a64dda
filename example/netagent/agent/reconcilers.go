// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/derive"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The minimum and maximum backoff. Most failures are of objects that came a moment too early.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// workers is the number of workers for addresses, and for routes; each works on another link. Netlink gains
// little, since the kernel has one lock for most of this, but a slow driver of one link does not hold up the
// others.
const workers = 4

var reconcilersCell = cell.Module(
	"netagent",
	"Reconcilers of links and addresses and routes and sysctls",

	cell.ProvidePrivate(job.Registry.NewGroup),
	cell.Invoke(
		func(jobs job.Group, target desired.Target) { jobs.Add(job.OneShot("observe", target.Observe)) },
		registerReconcilers, registerBestRoutes),
)

func registerReconcilers(params reconciler.Params, registry *inspect.Registry, o Options, tables *desired.Tables, target desired.Target) error {
	return errors.Join(
		// One at a time: a change to one end of a veth changes the other end too.
		register(params, registry, o, tables.Links, &tables.Loops.Links, target.Links, false),
		register(params, registry, o, tables.Addresses, &tables.Loops.Addresses, target.Addresses, true),
		register(params, registry, o, tables.Routes, &tables.Loops.Routes, target.Routes, true),
		register(params, registry, o, tables.Sysctls, &tables.Loops.Sysctls, target.Sysctls, false),
	)
}

// registerBestRoutes adds the job that fills the table of routes.
func registerBestRoutes(params reconciler.Params, registry *inspect.Registry, tables *desired.Tables) error {
	best, err := desired.NewBestRoutes(derive.Config[*desired.Route]{Registry: registry, Log: params.Log}, params.DB, tables)
	if err != nil {
		return err
	}
	best.AddTo(params.JobGroup)
	return nil
}

// register registers the reconciler of a table, and sets its loop. byLink allows operations on different links at
// the same time, and serialises those on one link: removing an address may remove other addresses of the link.
func register[S desired.Spec](
	params reconciler.Params, registry *inspect.Registry, o Options, table statedb.Table[*desired.Row[S]],
	loop *desired.Loop[S], ops desired.Operations[S], byLink bool,
) error {
	cfg := desired.Config(table, ops)
	cfg.Options = []reconciler.Option{
		reconciler.WithName(table.Name()),
		reconciler.WithRegistry(registry),
		reconciler.WithSettings(func(s *reconciler.Settings) {
			s.MinBackoff, s.MaxBackoff = minBackoff, maxBackoff
			s.ResyncInterval, s.RefreshLimiter = o.Resync, nil
			s.ListTimeout = cmp.Or(o.ListTimeout, s.ListTimeout)
			if byLink {
				s.Concurrency = workers
			}
		}),
	}
	if byLink {
		cfg.SerialBy = func(row *desired.Row[S]) string { return row.Spec.Needs() }
	}
	l, err := reconciler.RegisterConfig(params, cfg)
	if err != nil {
		return fmt.Errorf("reconciler of %s: %w", table.Name(), err)
	}
	*loop = l
	return nil
}
