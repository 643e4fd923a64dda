// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

// Fleet is an example of desired state that many agents share: an etcd holds it, and netagents in
// network namespaces of their own apply it and tell etcd how far they are. The README shows what to try.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/statekeel/statekeel/example/fleet/demo"
	"github.com/statekeel/statekeel/example/fleet/store"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	os.Exit(run(ctx, os.Args[1:]))
}

const usage = `fleet keeps the network namespaces of five agents at what an etcd says.

  fleet                           run a store and agents, and show how far they are

and, while that runs, in another terminal:

  fleet put KEY VALUE...          change what the store wants, all keys in one transaction
  fleet del KEY...
  fleet status                    how far each agent is
  fleet why AGENT KEY             why an agent has applied a key, or has not
  fleet shell AGENT COMMAND...    run a command of the agent's shell
  fleet store stop|start|compact|wipe|seed
  fleet kill AGENT
  fleet start AGENT               also of a new name

A KEY is links/NAME, addresses/DEV/CIDR, routes/TABLE/DST, routes/TABLE/DST/METRIC or sysctls/NAME.
All take -dir DIRECTORY. fleet runs itself as: fleet server, fleet agent.
`

// errUsage is returned for wrong arguments, after they were reported.
var errUsage = errors.New("wrong arguments")

// run runs a command, and returns the exit code: 1 for a failure, 2 for wrong arguments.
func run(ctx context.Context, args []string) int {
	commands := map[string]func(context.Context, []string) error{
		"run": runDemo, "server": runServer, "agent": runAgent, "put": runPut, "del": runDelete, "status": runStatus,
		"why": runWhy, "shell": runShell, "store": runStore, "kill": runKill, "start": runStart,
	}
	name := "run"
	if len(args) > 0 && args[0] != "-dir" {
		name, args = args[0], args[1:]
	}
	command, ok := commands[name]
	if !ok {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	err := command(ctx, args)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	fmt.Fprintf(os.Stderr, "fleet %s: %v\n", name, err)
	return 1
}

// newFlags returns the flags of a command; dir is that of -dir, or the default.
func newFlags(name string) (flags *flag.FlagSet, dir *string) {
	flags = flag.NewFlagSet("fleet "+name, flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	return flags, flags.String("dir", string(demo.DefaultDir()), "the `directory` of the fleet")
}

// parse parses flags, and rejects another number of arguments than least to most.
func parse(flags *flag.FlagSet, args []string, least, most int) error {
	err := flags.Parse(args)
	if n := flags.NArg(); err == nil && (n < least || n > most) {
		flags.Usage()
		return errUsage
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return err
}

// withParent returns a context that ends with ctx. If with is true, it also ends when standard input
// ends, which is when the parent process has ended.
func withParent(ctx context.Context, with bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if with {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	return ctx, cancel
}

func runServer(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("fleet server", flag.ContinueOnError)
	data := flags.String("data", "", "the `directory` of the data of etcd")
	listen := flags.String("listen", "", "the `URL` that clients use, such as unix:///tmp/store.sock")
	with := flags.Bool("with-parent", false, "stop when standard input ends")
	if err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	ctx, cancel := withParent(ctx, *with)
	defer cancel()
	return store.Serve(ctx, *data, *listen, func() { fmt.Println(demo.ReadyLine) })
}

// connect returns a connection to a store. It does not wait for the store.
func connect(url string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: []string{url}, Logger: zap.NewNop(),
		// By default gRPC keeps a connection from which nothing comes any more.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		// By default gRPC waits for up to two minutes before it tries to connect again.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		})},
	})
}
