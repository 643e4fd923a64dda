// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/cilium/hive/shell"
	"github.com/spf13/cobra"

	"github.com/statekeel/statekeel/example/internal/httpserve"
	"github.com/statekeel/statekeel/example/managed/agent"
	"github.com/statekeel/statekeel/example/managed/broker"
	"github.com/statekeel/statekeel/example/managed/demo"
	"github.com/statekeel/statekeel/reconciler/commands"
)

// shellName is the name of the shell in its prompt and its socket.
const shellName = "managed"

// listen opens a listener, and prints its URL.
func listen(address string) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	return listener, nil
}

func runBroker(ctx context.Context, args []string) (err error) {
	var faults broker.Faults
	flags := flag.NewFlagSet("managed broker", flag.ContinueOnError)
	file := flags.String("file", "broker.db", "the `file` with the tunnels")
	address := flags.String("listen", "127.0.0.1:7080", "`address` for HTTP; port 0 chooses a free port")
	lag := flags.Duration("lag", time.Second, "how long reads lag behind writes")
	parent := flags.Bool("with-parent", false, "stop when standard input ends")
	flags.Float64Var(&faults.Unavailable, "unavailable", 0, "`probability` of a 503, from 0 to 1")
	flags.Float64Var(&faults.Busy, "busy", 0, "`probability` of a 429 with Retry-After")
	flags.Float64Var(&faults.Slow, "slow", 0, "`probability` of a slow answer")
	flags.DurationVar(&faults.SlowBy, "slow-by", 200*time.Millisecond, "the delay of a slow answer")
	flags.Float64Var(&faults.Reset, "reset", 0, "`probability` of a reset after the call has taken effect")
	flags.Uint64Var(&faults.Seed, "seed", 1, "the seed of the random faults")
	if err := parse(flags, args); err != nil {
		return err
	}
	store, err := broker.Open(*file, *lag)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	handler, err := broker.NewHandler(store, faults)
	if err != nil {
		return err
	}
	listener, err := listen(*address)
	if err != nil {
		return err
	}
	ctx, cancel := withParent(ctx, *parent)
	defer cancel()
	return httpserve.Serve(ctx, listener, handler)
}

func runAgent(ctx context.Context, args []string) error {
	o := agent.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	flags := flag.NewFlagSet("managed agent", flag.ContinueOnError)
	flags.StringVar(&o.File, "file", "tunnels.yaml", "the `file` with the desired tunnels; edits take effect")
	flags.StringVar(&o.Broker, "broker", "http://127.0.0.1:7080", "`URL` of the broker")
	flags.StringVar(&o.Owner, "owner", "agent", "the `name` of the owner of the tunnels; each agent needs its own")
	flags.DurationVar(&o.Poll, "poll", 5*time.Second, "how often an up-to-date tunnel is observed")
	flags.DurationVar(&o.Resync, "resync", 10*time.Second, "how often to delete tunnels without a row")
	flags.DurationVar(&o.Grace, "grace", 5*time.Second, "how long a new tunnel may be invisible at the broker")
	flags.StringVar(&o.Shell, "shell", commands.SocketPath(shellName), "`path` of the socket for managed shell; \"\" means none")
	address := flags.String("listen", "127.0.0.1:7081", "`address` for HTTP; port 0 chooses a free port")
	parent := flags.Bool("with-parent", false, "stop when standard input ends")
	if err := parse(flags, args); err != nil {
		return err
	}
	if o.Shell != "" {
		if err := commands.PrepareSocket(o.Shell); err != nil {
			return fmt.Errorf("%w (choose another by -shell)", err)
		}
	}
	var err error
	if o.Listener, err = listen(*address); err != nil {
		return err
	}
	ctx, cancel := withParent(ctx, *parent)
	defer cancel()
	return o.Run(ctx)
}

func runShell(_ context.Context, args []string) error {
	cmd := shell.ShellCmd(commands.SocketPath(shellName), shellName+"> ", func(w io.Writer) {
		fmt.Fprintln(w, "This is the shell of an agent. Try: db/show tunnels, db/show events, reconciler, help.")
	})
	cmd.Use, cmd.SilenceUsage = shellName+" shell [command] [args]...", true
	cmd.Flags().SetInterspersed(false)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		return commands.CheckSocket(cmd.Flags().Lookup(shell.ShellSockPathName).Value.String())
	}
	cmd.SetArgs(args)
	return cmd.Execute()
}

func runDemo(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("managed demo", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "the seed of the broker's random faults")
	if err := parse(flags, args); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "managed")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		}
	}()
	return demo.Demo{
		Command: func(args ...string) *exec.Cmd { return exec.Command(program, args...) },
		Dir:     dir,
		Broker:  append([]string{"-seed", strconv.FormatUint(*seed, 10)}, faults...),
		Out:     os.Stdout,
	}.Run(ctx)
}

// faults are the faults of the demo's broker: one call in eight fails, and one in four is slow, so that
// an agent can be killed during a call.
var faults = []string{
	"-lag", "500ms", "-unavailable", "0.05", "-busy", "0.02", "-reset", "0.05", "-slow", "0.25", "-slow-by", "100ms",
}
