// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Command postgres is an agent that keeps roles, databases, memberships and privileges of a PostgreSQL as a folder of YAML
// says. docs/agent.md builds it in ten steps.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cilium/statedb"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/reconciler/source"
	"github.com/statekeel/statekeel/reconciler/source/files"
)

var (
	url    = flag.String("url", "", "the server, with a superuser; by default what PGHOST, PGUSER and so on say")
	folder = flag.String("folder", "roles", "the folder with the files *.yaml")
	name   = flag.String("name", "statekeel", "the name of the agent, by which it knows what is its own")
	socket = flag.String("socket", commands.SocketPath("postgres"), "the socket on which the agent takes commands")
	resync = flag.Duration("resync", time.Minute, "how often the server is compared with the folder")
)

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "postgres [flags] agent   keeps the server as the folder says\n",
			"postgres [flags] plan    says what the agent would do, and exits with 2 if there is something\n",
			"postgres [flags] help    lists the commands that the agent takes\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if command := flag.Arg(0); command != "agent" && command != "plan" {
		os.Exit(commands.Client(*socket, flag.Args()...))
	}
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := run(ctx, flag.Arg(0) == "plan")
	if err != nil {
		fmt.Fprintln(os.Stderr, "postgres:", err)
		status = 1
	}
	os.Exit(status)
}

// run is the agent, or its plan. It returns the exit status.
func run(ctx context.Context, plan bool) (int, error) {
	if !agentName.MatchString(*name) {
		return 1, fmt.Errorf("-name is %q, must be a letter and up to 15 letters and digits, in lower case", *name)
	}
	pool, err := pgxpool.New(ctx, *url)
	if err != nil {
		return 1, err
	}
	defer pool.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	db, registry := statedb.New(), &inspect.Registry{}
	table := statedb.MustNewTable(db, "objects", byKey)
	sink, err := source.New(source.Config[*Object]{
		Name: "files", DB: db, Table: table, Registry: registry, Log: log,
		MaxDeletions: source.Bound{Rows: 20, Fraction: 0.5}, // A file that was cut must not empty the server,
	})
	if err != nil {
		return 1, err
	}
	defer sink.Close()
	read, err := files.New(files.Config[*Object]{Path: *folder, Match: "*.yaml", Parse: parse, Sink: sink, Log: log})
	if err != nil {
		return 1, err
	}
	ops := &Operations{server: &postgres{pool, *name}, table: table, agent: *name}
	cfg := configure(ops)
	cfg.DB, cfg.Log = db, log
	cfg.Options = append(cfg.Options, reconciler.WithRegistry(registry),
		reconciler.WithOrphanBudget(20, 0.5)) // nor must one that was cut while no agent ran.
	loop, err := reconciler.New(cfg)
	if err != nil {
		return 1, err
	}
	if err := db.Start(); err != nil {
		return 1, err
	}
	defer func() { _ = db.Stop() }() // It stops the garbage collector, and has no error.

	if !plan {
		return 0, commands.Serve(ctx, *socket, registry, read.Run, loop.Run)
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- read.Run(ctx) }()
	defer func() { stop(); <-ended }()
	if err := read.Loaded(ctx, *folder); err != nil {
		return 1, err
	}
	found, err := loop.Plan(ctx)
	if err != nil {
		return 1, err
	}
	if fmt.Print(found); found.Operations() > 0 {
		return 2, nil
	}
	return 0, nil
}
