// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package agent puts a netagent together: a hive of tables, reconcilers, and ways to
// look at them and to change them. It knows nothing of the kernel: what makes the rows
// come true is given to it.
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

	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/health"
	"github.com/statekeel/statekeel/example/netagent/observed"
	"github.com/statekeel/statekeel/example/netagent/statefile"
	"github.com/statekeel/statekeel/example/netagent/view"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/metrics/prometheus"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Options say what a netagent does. File, Target, Metrics, Log and View are required.
type Options struct {
	// File is what is asked for, and followed through its edits.
	File *statefile.File

	// Target makes the operations, and the job that observes the target's links.
	Target func(desired.Surroundings) desired.Target

	// Refresh is after how long what is Done is looked at again, and Prune how often
	// that is removed which nobody asked for. Zero means never; Prune comes once
	// even so, when the file has been read.
	Refresh, Prune time.Duration

	// Listener is where HTTP is served; nil means nowhere. It gets closed.
	Listener net.Listener

	// Shell is the path of the socket of hive's script shell; empty means none.
	Shell string

	// Once makes Run return when all is Done, or with a [NotDone] after Timeout.
	Once    bool
	Timeout time.Duration

	// View shows the tables; Title stands above them. With Settle changes are
	// gathered, and after Every the view is shown without any; see view.Watcher.
	View          view.View
	Title         string
	Settle, Every time.Duration

	// Metrics is what the reconcilers report to.
	Metrics *reconciler.ExpVarMetrics

	// Log is for what the agent says, HiveLog for what the hive and the reconcilers
	// say; nil means that Log is for that too.
	Log, HiveLog *slog.Logger
}

const (
	// stopTimeout bounds how long the agent may take to stop.
	stopTimeout = 10 * time.Second

	// logThreshold is from when on a part of the hive that takes long to start or
	// stop is worth a line in the log.
	logThreshold = time.Second
)

// Run runs a netagent until the context ends or the process gets SIGINT or SIGTERM, or,
// with Options.Once, until it is through. A [NotDone] is returned as it is.
func Run(ctx context.Context, o Options) error {
	log := o.HiveLog
	if log == nil {
		log = o.Log
	}
	var all settled
	err := newHive(ctx, o, &all).Run(log)
	var notDone *NotDone
	switch {
	case errors.As(err, &notDone):
		return notDone
	case err == nil && o.Once && !all.Load():
		return errStopped
	}
	return err
}

func newHive(ctx context.Context, o Options, all *settled) *hive.Hive {
	return hive.NewWithOptions(
		hive.Options{
			// Write transactions are known by their module.
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
			func() (Options, *settled) { return o, all },
			func(o Options) *reconciler.ExpVarMetrics { return o.Metrics },
			func() (*prometheus.Metrics, error) { return prometheus.New() },
			func(m *reconciler.ExpVarMetrics, p *prometheus.Metrics) reconciler.Metrics { return metrics.Join(m, p) },
			desired.NewTables,
			desired.NewStore,
			desired.NewAgain,
			observed.NewLinks,
			func(o Options, db *statedb.DB, tables *desired.Tables, links statedb.RWTable[*observed.Link], again *desired.Again) desired.Target {
				return o.Target(desired.Surroundings{DB: db, Tables: tables, Links: links, Undid: again.Undid})
			},
		),
		inspect.Cell,
		commands.Cell,
		reconcilersCell,
		stateFileCell,
		viewCell,
		httpCell,
		onceCell,
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

// shellCell is hive's script shell, if there is to be one.
func shellCell(o Options) cell.Cell {
	if o.Shell == "" {
		return cell.Group()
	}
	return shell.ServerCell(o.Shell)
}
