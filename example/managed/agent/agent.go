// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package agent keeps the tunnels at a broker as a file lists them. Apart from the file its state is in
// memory, and lost with the process: an agent finds the tunnels of an earlier process by their names.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/shell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/managed/client"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/managed"
)

// Options configure an agent. File, Broker, Owner and Log are required.
type Options struct {
	// File is the path of the file that lists the desired tunnels.
	File string
	// Broker is the URL of the broker, and Owner the owner of the tunnels there. Each owner may have
	// one agent.
	Broker, Owner string
	// Poll is how often an up-to-date tunnel is observed, Resync how often tunnels without a row are
	// deleted. Both must be positive.
	Poll, Resync time.Duration
	// Grace is how long a new tunnel may be invisible at the broker.
	Grace time.Duration
	// Listener is where the agent serves HTTP; nil means nowhere. The agent closes it.
	Listener net.Listener
	// Shell is the path of the socket of the hive shell; empty means none.
	Shell string
	// Log receives warnings and errors, also those of hive and the reconciler.
	Log *slog.Logger
}

// Run runs the agent until the context ends.
func (o Options) Run(ctx context.Context) error {
	if o.Poll <= 0 || o.Resync <= 0 {
		return errors.New("the intervals to poll and to resync must be positive")
	}
	h := hive.New(
		statedb.Cell, job.Cell, cell.SimpleHealthCell,
		inspect.Cell, commands.Cell, event.Cell,
		cell.Provide(func() Options { return o }),
		tunnelsCell,
		httpCell,
		shellCell(o),
	)
	if err := h.Start(o.Log, ctx); err != nil {
		return err
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return h.Stop(o.Log, stopping)
}

// stopTimeout bounds how long the agent may take to stop.
const stopTimeout = 10 * time.Second

func shellCell(o Options) cell.Cell {
	if o.Shell == "" {
		return cell.Group()
	}
	return shell.ServerCell(o.Shell)
}

const (
	// The delays between retries, and between observations of a tunnel that is not visible yet.
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second

	// workers is how many tunnels are processed at a time: most of the time they wait for the broker.
	workers = 4

	// timeout bounds all calls to the broker in one pass.
	timeout = 5 * time.Second
)

var tunnelsCell = cell.Module(
	"tunnels",
	"Keeps the tunnels at the broker as the file lists them",

	cell.ProvidePrivate(job.Registry.NewGroup, newBroker),
	cell.Provide(newTable),
	cell.Invoke(register),
)

func newBroker(lifecycle cell.Lifecycle, o Options) *client.Client {
	broker := client.New(o.Broker)
	lifecycle.Append(cell.Hook{OnStop: func(cell.HookContext) error {
		broker.Close()
		return nil
	}})
	return broker
}

func register(
	params reconciler.Params, registry *inspect.Registry, o Options,
	table statedb.RWTable[*Tunnel], broker *client.Client, recorder event.Recorder, jobs job.Group,
) error {
	outside := &external{broker, o.Owner}
	cfg, err := configure(o, params.DB, table, outside, outside, managed.WithLeaveHook(outside.leave),
		managed.WithRecorder(event.From(recorder, "tunnels")))
	if err != nil {
		return err
	}
	cfg.Log = params.Log
	cfg.Options = append(cfg.Options, reconciler.WithRegistry(registry))
	if _, err := reconciler.RegisterConfig(params, cfg); err != nil {
		return err
	}
	follow(jobs, params.DB, managed.NewWriter(cfg), o)
	return nil
}

// configure returns the configuration of the reconciler of tunnels.
func configure(
	o Options, db *statedb.DB, table statedb.RWTable[*Tunnel],
	outside managed.ExternalConnecter[*Tunnel], listed reconciler.Lister[*Tunnel], more ...managed.ReconcilerOption,
) (reconciler.Config[*Tunnel], error) {
	cfg := reconciler.Config[*Tunnel]{
		DB: db, Table: table,
		Clone: (*Tunnel).Clone, SetStatus: (*Tunnel).SetStatus, GetStatus: (*Tunnel).GetStatus,
		Lister: listed,
		Options: []reconciler.Option{
			reconciler.WithName(managed.ControllerName("tunnel")),
			reconciler.WithSettings(func(s *reconciler.Settings) { s.Concurrency, s.ResyncInterval = workers, o.Resync }),
			reconciler.WithRetry(minBackoff, maxBackoff),
		},
	}
	return managed.Configure(cfg, append([]managed.ReconcilerOption{
		managed.WithExternalConnecter(outside),
		managed.WithInitializers(managed.NewNameAsExternalName[*Tunnel]()),
		managed.WithDeterministicExternalName(),
		managed.WithCreationGracePeriod(o.Grace),
		managed.WithPollInterval(o.Poll),
		managed.WithTimeout(timeout),
	}, more...)...)
}

// follow adds the job that reads the file. Until the first read the table is not initialised, so that
// no tunnel counts as not wanted.
func follow(jobs job.Group, db *statedb.DB, writer managed.Writer[*Tunnel], o Options) {
	wtxn := db.WriteTxn(writer.Table)
	initialized := writer.Table.RegisterInitializer(wtxn, "file")
	wtxn.Commit()
	f := &follower{path: o.File, db: db, writer: writer, log: o.Log}
	jobs.Add(job.OneShot("file", func(ctx context.Context, health cell.Health) error {
		return f.run(ctx, health, initialized)
	}))
}
