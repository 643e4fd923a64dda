// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Managed is an example of managed resources: an agent that keeps the tunnels at a broker as a file
// lists them, and the broker, an outside system that fails on purpose. The README shows what it does.
//
//	managed demo      run both, kill the agent now and then, and compare
//	managed broker    run a broker
//	managed agent     run an agent
//	managed shell     talk to an agent that has a shell
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
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	os.Exit(run(ctx, os.Args[1:]))
}

const usage = `managed keeps the tunnels at a broker as a file lists them.

  managed demo [flags]      run a broker and agents, and compare
  managed broker [flags]    run a broker
  managed agent [flags]     run an agent
  managed shell [command]   talk to an agent

-h after a command lists its flags.
`

// errUsage is returned for wrong arguments, after they were reported.
var errUsage = errors.New("wrong arguments")

// run runs a command, and returns the exit code: 1 for a failure, 2 for wrong arguments.
func run(ctx context.Context, args []string) int {
	commands := map[string]func(context.Context, []string) error{
		"demo": runDemo, "broker": runBroker, "agent": runAgent, "shell": runShell,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	err := commands[args[0]](ctx, args[1:])
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2
	}
	fmt.Fprintf(os.Stderr, "managed %s: %v\n", args[0], err)
	return 1
}

// parse parses flags, and rejects further arguments.
func parse(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
		fmt.Fprintln(flags.Output(), err)
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
