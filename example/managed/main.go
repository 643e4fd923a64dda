// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Managed is an example of managed resources: an agent that keeps tunnels at a broker, and the
// broker, which is an outside system that fails on purpose. See the README for what to see.
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

const usage = `managed keeps tunnels at a broker at what a file says.

  managed demo [flags]      run a broker and agents, and see
  managed broker [flags]    run a broker
  managed agent [flags]     run an agent
  managed shell [command]   talk to an agent

-h after a command says which flags it has.
`

// errUsage is that the arguments are wrong, which has been said.
var errUsage = errors.New("wrong arguments")

// run is main: it returns the exit code, 1 for what went wrong and 2 for wrong arguments.
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

// parse parses flags, and refuses other arguments.
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

// withParent returns a context that ends when standard input does, too: when the process that
// started this one has died.
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
