// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/statekeel/statekeel/example/internal/shellsocket"
	"github.com/statekeel/statekeel/example/netagent/agent"
	"github.com/statekeel/statekeel/example/netagent/chaos"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/kernel"
	"github.com/statekeel/statekeel/example/netagent/sandbox"
	"github.com/statekeel/statekeel/example/netagent/statefile"
	"github.com/statekeel/statekeel/example/netagent/view"
	"github.com/statekeel/statekeel/reconciler"
)

// runAgent runs the agent. The outer process opens what the host can reach and starts the inner process,
// which is the agent.
func runAgent(s settings, args []string) (exitCode int, err error) {
	inside, err := sandbox.Inside()
	if err != nil {
		return 0, err
	}
	if !inside {
		return runOutside(s, args)
	}
	return 0, runInside(s)
}

// listenerFD is the descriptor of the HTTP listener in the inner process.
const listenerFD = 3

// runOutside opens the listener for the host, and runs the agent inside.
func runOutside(s settings, args []string) (exitCode int, err error) {
	var files []*os.File
	if s.listen != "" {
		listener, err := net.Listen("tcp", s.listen)
		if err != nil {
			return 0, fmt.Errorf("%w (choose another by -listen)", err)
		}
		defer func() { _ = listener.Close() }() // the process is about to end
		file, err := listener.(*net.TCPListener).File()
		if err != nil {
			return 0, err
		}
		files = append(files, file)
	}
	if s.shell != "" {
		if err := shellsocket.Prepare(s.shell); err != nil {
			return 0, fmt.Errorf("%w (choose another by -shell)", err)
		}
		// Inside, every user's number is 0, so the default path would be another one.
		args = append(append([]string(nil), args...), "-shell="+s.shell)
	}
	return sandbox.Run(args, files...)
}

// runInside is the agent.
func runInside(s settings) error {
	// A terminal sends its signals to both processes, and the outer one passes on those that it gets. Until
	// cancel is called, the second one has no effect: it must not kill the agent while it handles the first.
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	unix.Umask(0o077) // for the socket itself; its directory is private already

	file, err := statefile.Open(ctx, s.state)
	if err != nil {
		return err
	}
	if err := kernel.Check(); err != nil {
		return sandbox.Forbidden(err)
	}
	o := agent.Options{
		File:        file,
		Resync:      s.resync,
		ListTimeout: s.listTimeout,
		Shell:       s.shell,
		Once:        s.once,
		Timeout:     s.timeout,
		Metrics:     reconciler.NewExpVarMetrics(),
	}
	where := ""
	if s.listen != "" {
		inherited := os.NewFile(listenerFD, "http listener")
		o.Listener, err = net.FileListener(inherited)
		if err != nil {
			return fmt.Errorf("take over the HTTP listener: %w", err)
		}
		_ = inherited.Close() // FileListener has a copy
		where = "http://" + o.Listener.Addr().String()
	}
	show(&o, s, where)
	o.Target = func(in desired.Surroundings) desired.Target { return kernel.NewTarget(in, o.Log) }
	if s.chaos > 0 {
		unleash(&o, s)
	}
	o.Log.Info("netagent runs in a network namespace of its own", "pid", os.Getpid(), "http", where, "shell", s.shell)
	return agent.Run(ctx, o)
}

// unleash makes operations fail at random.
func unleash(o *agent.Options, s settings) {
	seed := s.chaosSeed
	for seed == 0 {
		seed = rand.Uint64()
	}
	o.Log.Warn("operations fail at random", "percent", s.chaos, "seed", seed, "only", s.chaosOnly)
	ordered := o.Target
	o.Target = func(in desired.Surroundings) desired.Target {
		return chaos.New(s.chaos, seed, s.chaosOnly).Target(ordered(in))
	}
}

// The terminal is drawn at most once in settle, and without a change once in every.
const (
	settle = 50 * time.Millisecond
	every  = time.Second
)

// show selects the view and the logs: a table with the log above it if standard output and standard error
// are both terminals, otherwise lines and a separate log.
func show(o *agent.Options, s settings, where string) {
	logs := io.Writer(os.Stderr)
	if out := int(os.Stdout.Fd()); term.IsTerminal(out) {
		screen := view.NewScreen(os.Stdout, func() view.Size {
			width, height, err := term.GetSize(out)
			if err != nil {
				return view.Size{}
			}
			return view.Size{Width: width, Height: height}
		}, os.Getenv("NO_COLOR") == "")
		o.View, o.Settle, o.Every = screen, settle, every
		o.Title = fmt.Sprintf("netagent %s   namespace of pid %d   %s", s.state, os.Getpid(), where)
		if term.IsTerminal(int(os.Stderr.Fd())) {
			logs = screen
		}
	} else {
		o.View = view.NewLines(os.Stdout)
	}
	level := slog.LevelWarn
	if s.verbose {
		level = slog.LevelInfo
	}
	o.Log = slog.New(slog.NewTextHandler(logs, nil))
	o.HiveLog = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: level}))
}
