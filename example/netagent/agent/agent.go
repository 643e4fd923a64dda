// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package agent assembles a netagent: a hive of tables, reconcilers, a view and a shell.
// It does not depend on the kernel: the target of the rows is an option.
package agent

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/shell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/observed"
	"github.com/statekeel/statekeel/example/netagent/view"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Options are the settings of a netagent. File or Fill, Target, Metrics, Log and View are required.
type Options struct {
	// File is the path of the state file. Edits of it are followed.
	File string

	// Fill is a cell that fills the tables instead of the file. It must register an
	// initializer with each of the [desired.Tables] but Routes when it is invoked.
	Fill cell.Cell

	// Target returns the operations, and the job that observes the target's links.
	Target func(desired.Surroundings) desired.Target

	// Resync is the interval in which the target is listed and compared with the tables. Zero means only at the
	// start. ListTimeout is how long the first listing may hold up what is to be applied; zero means 30 s.
	Resync, ListTimeout time.Duration

	// Shell is the path of the socket of hive's script shell; empty means no shell.
	Shell string

	// View shows the tables. Its DB, Tables and Notes are set by Run.
	View view.Watcher

	// Metrics receives the metrics of the reconcilers.
	Metrics *reconciler.ExpVarMetrics

	// Log is the log of the agent, HiveLog that of the hive and the reconcilers; nil means Log.
	Log, HiveLog *slog.Logger
}

const (
	// stopTimeout bounds how long the agent may take to stop.
	stopTimeout = 10 * time.Second

	// logThreshold is how long a part of the hive may take to start or stop before that is logged.
	logThreshold = time.Second
)

// Run runs a netagent until the context ends or the process gets SIGINT or SIGTERM.
func Run(ctx context.Context, o Options) error {
	return newHive(ctx, o).Run(cmp.Or(o.HiveLog, o.Log))
}

func newHive(ctx context.Context, o Options) *hive.Hive {
	return hive.NewWithOptions(
		hive.Options{
			// Write transactions are labelled with their module.
			ModuleDecorators: []cell.ModuleDecorator{
				func(db *statedb.DB, id cell.ModuleID) *statedb.DB { return db.NewHandle(string(id)) },
			},
			StopTimeout:  stopTimeout,
			LogThreshold: logThreshold,
		},
		statedb.Cell,
		job.Cell,
		cell.Provide(
			health.New,
			func() Options { return o },
			func(o Options) reconciler.Metrics { return o.Metrics },
			desired.NewTables,
			observed.NewLinks,
			func(o Options, db *statedb.DB, tables *desired.Tables, links statedb.RWTable[*observed.Link]) desired.Target {
				return o.Target(desired.Surroundings{DB: db, Tables: tables, Links: links, Undid: tables.Undid})
			},
			newCommands,
		),
		inspect.Cell,
		commands.Cell,
		reconcilersCell,
		fillCell(o),
		viewCell,
		shellCell(o),
		cell.Invoke(func(lifecycle cell.Lifecycle, shutdowner hive.Shutdowner) {
			lifecycle.Append(stopper(ctx, shutdowner))
		}),
	)
}

// stopper shuts a hive down when the context ends, even if that is before it started.
func stopper(ctx context.Context, shutdowner hive.Shutdowner) cell.Hook {
	stop := func() bool { return false }
	return cell.Hook{
		OnStart: func(cell.HookContext) error {
			stop = context.AfterFunc(ctx, func() { shutdowner.Shutdown() })
			return nil
		},
		OnStop: func(cell.HookContext) error {
			stop()
			return nil
		},
	}
}

// fillCell is what fills the tables.
func fillCell(o Options) cell.Cell {
	if o.Fill != nil {
		return o.Fill
	}
	return stateFileCell
}

// shellCell is hive's script shell, if the options ask for one.
func shellCell(o Options) cell.Cell {
	if o.Shell == "" {
		return cell.Group()
	}
	return shell.ServerCell(o.Shell)
}
