// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package feed fills the tables of a netagent from etcd, and tells etcd how far the agent is.
package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/statedb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/etcd"
)

// The keys of a fleet in etcd.
const (
	Prefix = "fleet/"

	// Identity has the identity of the store.
	Identity = Prefix + "identity"

	// Desired is followed by the name of a table, a slash and the key of a row; that of a route with its
	// metric.
	Desired = Prefix + "desired/"

	// Changed is followed by the name of a table. It is written with each change of the table's part of
	// Desired, so that its revision is that of the last one, which may be a deletion.
	Changed = Prefix + "changed/"

	// Acks and Alive are followed by what [Part] returns.
	Acks  = Prefix + "acks/"
	Alive = Prefix + "alive/"
)

// Source is the source of the rows.
const Source desired.Source = "etcd"

// Tables are the names of the tables that agents apply, in the order in which they depend on each other.
var Tables = []string{desired.LinksTable, desired.AddressesTable, desired.RoutesTable, desired.SysctlsTable}

// Part is the name under which an agent acknowledges a table.
func Part(agent, table string) string { return agent + "." + table }

// Agent returns the agent of a part.
func Agent(part string) string {
	agent, _, _ := strings.Cut(part, ".")
	return agent
}

// Options are the settings of a feed. All are required.
type Options struct {
	// Agent is the name of the agent.
	Agent string
	// Client is the connection to the store. The caller closes it when the agent has ended.
	Client *clientv3.Client
	// Check is the interval of the comparisons with the store, see [etcd.Config]. TTL is how long an
	// agent that is gone counts as alive.
	Check, TTL time.Duration
	Log        *slog.Logger
}

// Cell is what fills the tables: it fits agent.Options.Fill.
func Cell(o Options) cell.Cell {
	return cell.Module(
		"etcd",
		"Keeps the tables at what the store says",

		cell.ProvidePrivate(job.Registry.NewGroup),
		cell.Invoke(func(jobs job.Group, health cell.Health, db *statedb.DB, tables *desired.Tables) error {
			f := feed{Options: o, jobs: jobs, health: health, db: db}
			return errors.Join(
				add(f, tables.Links, tables.Links, tables.Loops.Links, row(parseLink, config.Link.Key)),
				add(f, tables.Addresses, tables.Addresses, tables.Loops.Addresses, row(parseAddress, config.Address.Key)),
				add(f, tables.RoutesWanted, tables.Routes, tables.Loops.Routes, row(parseRoute, config.Route.KeyWithMetric)),
				add(f, tables.Sysctls, tables.Sysctls, tables.Loops.Sysctls, row(parseSysctl, config.Sysctl.Key)),
			)
		}),
	)
}

type feed struct {
	Options
	jobs   job.Group
	health cell.Health
	db     *statedb.DB
}

// add fills one table, and acknowledges what the reconciler of a table has applied: the same table, or one
// that is derived from it. The first list initialises the table.
func add[S desired.Spec](
	f feed, filled, table statedb.RWTable[*desired.Row[S]], of desired.Loop[S], decode func(string, []byte) (*desired.Row[S], error),
) error {
	loop, ok := of.(inspect.Inspector)
	if !ok {
		return fmt.Errorf("table %q has no reconciler", table.Name())
	}
	health := f.health.NewScope(table.Name())
	sink, err := source.New(source.Config[*desired.Row[S]]{
		Name: string(Source), DB: f.db, Table: filled, Health: health.NewScope("connection"), Log: f.Log,
		Same: (*desired.Row[S]).Same,
	})
	if err != nil {
		return err
	}
	reads, err := etcd.New(etcd.Config[*desired.Row[S]]{
		Client: f.Client, Prefix: Desired + table.Name() + "/", Decode: decode, Sink: sink,
		Identity: Identity, Check: f.Check, Health: health.NewScope("keys"), Log: f.Log,
	})
	if err != nil {
		return err
	}
	acks := etcd.Acks{
		Name: Part(f.Agent, table.Name()), Source: reads, DB: f.db,
		Loop: loop, Prefix: Prefix, TTL: f.TTL, Health: health.NewScope("acks"), Log: f.Log,
	}
	f.jobs.Add(
		job.OneShot("follow-"+table.Name(), func(ctx context.Context, _ cell.Health) error {
			defer sink.Close()
			return reads.Run(ctx)
		}),
		job.OneShot("acknowledge-"+table.Name(), func(ctx context.Context, _ cell.Health) error { return acks.Run(ctx) }),
	)
	return nil
}
