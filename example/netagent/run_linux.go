// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/statekeel/statekeel/example/internal/screen"
	"github.com/statekeel/statekeel/example/netagent/agent"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/kernel"
	"github.com/statekeel/statekeel/example/netagent/sandbox"
	"github.com/statekeel/statekeel/example/netagent/view"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/commands"
)

// runAgent runs the agent. The outer process starts the inner one, which is the agent.
func runAgent(s settings, args []string) (exitCode int, err error) {
	inside, err := sandbox.Inside()
	if err != nil {
		return 0, err
	}
	if inside {
		return 0, runInside(s)
	}
	if s.shell != "" {
		if err := commands.PrepareSocket(s.shell); err != nil {
			return 0, fmt.Errorf("%w (choose another by -shell)", err)
		}
		// Inside, every user's number is 0, so the default path would be another one.
		args = append(append([]string(nil), args...), "-shell="+s.shell)
	}
	return sandbox.Run(args)
}

// runInside is the agent.
func runInside(s settings) error {
	// A terminal sends its signals to both processes, and the outer one passes on those that it gets. Until
	// cancel is called, the second one has no effect: it must not kill the agent while it handles the first.
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	unix.Umask(0o077) // for the socket itself; its directory is private already

	if err := kernel.Check(); err != nil {
		return sandbox.Forbidden(err)
	}
	o := agent.Options{
		File:    s.state,
		Resync:  s.resync,
		Shell:   s.shell,
		Metrics: reconciler.NewExpVarMetrics(),
	}
	show(&o, s)
	o.Target = func(in desired.Surroundings) desired.Target { return kernel.NewTarget(in, o.Log) }
	o.Log.Info("netagent runs in a network namespace of its own", "pid", os.Getpid(), "shell", s.shell)
	return agent.Run(ctx, o)
}

// The terminal is drawn at most once in settle, and without a change once in every.
const (
	settle = 50 * time.Millisecond
	every  = time.Second
)

// show selects the view and the logs: a table with the log above it if standard output and standard error
// are both terminals, otherwise lines and a separate log.
func show(o *agent.Options, s settings) {
	logs := io.Writer(os.Stderr)
	if out := int(os.Stdout.Fd()); term.IsTerminal(out) {
		lines := &screen.Screen{Out: os.Stdout, Size: func() (width, height int) {
			width, height, _ = term.GetSize(out) // 0 is no limit
			return width, height
		}}
		title := fmt.Sprintf("netagent %s   namespace of pid %d", s.state, os.Getpid())
		o.View = view.Watcher{View: &view.Table{Screen: lines}, Title: title, Settle: settle, Every: every}
		if term.IsTerminal(int(os.Stderr.Fd())) {
			logs = lines
		}
	} else {
		o.View.View = view.NewLines(os.Stdout)
	}
	level := slog.LevelWarn
	if s.verbose {
		level = slog.LevelInfo
	}
	o.Log = slog.New(slog.NewTextHandler(logs, nil))
	o.HiveLog = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: level}))
}
