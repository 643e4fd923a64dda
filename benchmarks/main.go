// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Benchmarks compares Statekeel with its peers: the same workloads on the same machine, in turns. Each run is
// a process of its own and is checked at its end.
//
//	go run .                                  everything, as text
//	go run . -quick                           a first look, in a minute or two
//	go run . -workloads refresh,idle -json    two workloads, for programs
//	go run . -report ../docs/PERFORMANCE.md   the page, its chart and its data
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/statekeel/statekeel/benchmarks/internal/series"
)

// The exit codes of the program.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	os.Exit(run())
}

func run() int {
	if len(os.Args) > 1 && os.Args[1] == series.ChildFlag {
		if err := series.Child(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFailed
		}
		return 0
	}

	cfg, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = cfg.measure(ctx, os.Stdout, os.Stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "benchmarks: interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		return exitFailed
	}
	return 0
}
