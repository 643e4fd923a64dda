// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/cilium/hive"
	"github.com/cilium/hive/cell"
	"github.com/cilium/hive/job"
	"github.com/cilium/hive/script"
	"github.com/cilium/hive/shell"
	"github.com/cilium/statedb"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/internal/httpserve"
	"github.com/statekeel/statekeel/example/services/input"
	"github.com/statekeel/statekeel/example/services/kernel"
	"github.com/statekeel/statekeel/example/services/proxy"
	"github.com/statekeel/statekeel/metrics/prometheus"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/commands"
	"github.com/statekeel/statekeel/reconciler/debug"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// program is a proxy with what fills it and what shows it.
type program struct {
	Input  input.Input
	Table  string
	Resync time.Duration
	// Listener is where HTTP is served; nil means nowhere. The program closes it.
	Listener net.Listener
	// Shell is the path of the shell's socket; empty means none.
	Shell string
	Log   *slog.Logger
	// More are further cells.
	More []cell.Cell
}

// stopTimeout bounds how long the program may take to stop.
const stopTimeout = 10 * time.Second

// readyTimeout bounds how long a probe waits for its answer: the kubelet waits for a second.
const readyTimeout = 500 * time.Millisecond

// run runs the program until the context ends. What it has told the kernel stays.
func (p program) run(ctx context.Context) error {
	h := hive.New(
		statedb.Cell, job.Cell, inspect.Cell, commands.Cell,
		cell.Provide(
			func() program { return p },
			func() proxy.Options { return proxy.Options{Resync: p.Resync} },
			func() (*prometheus.Metrics, error) { return prometheus.New() },
			func(figures *prometheus.Metrics) reconciler.Metrics { return figures },
			health.New, openTable, healthCommand,
		),
		// Before the jobs: what is made first is stopped last.
		cell.Invoke(func(proxy.Target) {}),
		proxy.Cell,
		input.Cell(p.Input),
		httpCell,
		shell.ServerCell(p.Shell), // without a path there is none
		cell.Group(p.More...),
	)
	if err := h.Start(p.Log, ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return h.Stop(p.Log, stopping)
}

func openTable(lifecycle cell.Lifecycle, p program) (proxy.Target, error) {
	table, err := kernel.Open(p.Table)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("%w; run it as root, or try: services demo", err)
	} else if err != nil {
		return nil, fmt.Errorf("%w; if another program has a table %s, choose another name by -table", err, p.Table)
	}
	lifecycle.Append(cell.Hook{OnStop: func(cell.HookContext) error { return table.Close() }})
	return table, nil
}

// httpCell serves:
//
//	GET /debug/reconciler/   a page that shows what the reconciler and the derivation do, and why
//	GET /metrics             metrics for Prometheus
//	GET /readyz              200 from when the kernel has had what was wanted at the start; before, 503 and what is missing
var httpCell = cell.Module("http", "A page and metrics over HTTP",
	cell.ProvidePrivate(job.Registry.NewGroup),
	cell.Invoke(func(
		jobs job.Group, p program, db *statedb.DB, registry *inspect.Registry, figures *prometheus.Metrics,
		loop *reconciler.Loop[*proxy.Frontend],
	) error {
		if p.Listener == nil {
			return nil
		}
		inputs, err := prometheus.NewInputs(db)
		if err != nil {
			return err
		}
		gathered := client.NewRegistry()
		gathered.MustRegister(figures, inputs)
		mux := http.NewServeMux()
		mux.Handle("GET /{$}", http.RedirectHandler("/debug/reconciler/", http.StatusSeeOther))
		mux.Handle("GET /metrics", promhttp.HandlerFor(gathered, promhttp.HandlerOpts{}))
		mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
			defer cancel()
			// The frontends are complete once they are derived from both tables, which are once they have been read.
			if _, err := loop.Ready(ctx); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ready")
		})
		// WithHosts: a web page must not reach it by a name that points here.
		mux.Handle("/debug/reconciler/", debug.New(registry, debug.WithHosts(), debug.WithWrites()))
		jobs.Add(job.OneShot("http", func(ctx context.Context, _ cell.Health) error {
			return httpserve.Serve(ctx, p.Listener, mux)
		}))
		return nil
	}),
)

// healthCommand returns the command that lists what is degraded.
func healthCommand(registry *health.Registry) hive.ScriptCmdOut {
	return hive.NewScriptCmd("health", script.Command(script.CmdUsage{Summary: "Show which parts of the program are degraded"},
		func(s *script.State, _ ...string) (script.WaitFunc, error) {
			degraded := registry.Degraded()
			if len(degraded) == 0 {
				s.Logf("health  ok\n")
			}
			for _, report := range degraded {
				s.Logf("health  %s\n", report)
			}
			return nil, nil
		}))
}
