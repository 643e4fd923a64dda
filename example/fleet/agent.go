// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/statekeel/statekeel/example/fleet/demo"
	"github.com/statekeel/statekeel/example/fleet/feed"
	"github.com/statekeel/statekeel/example/netagent/agent"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/kernel"
	"github.com/statekeel/statekeel/example/netagent/sandbox"
	"github.com/statekeel/statekeel/example/netagent/view"
	"github.com/statekeel/statekeel/reconciler"
)

// The intervals of the agents are short, so that what happens to the store or in the kernel shows within
// seconds.
const (
	check  = 2 * time.Second
	ttl    = 5 * time.Second
	resync = 5 * time.Second
)

// runAgent runs a netagent that is fed from the store. As in netagent, the outer process starts an inner
// one in a user and a network namespace of its own, and passes signals on.
func runAgent(ctx context.Context, args []string) error {
	flags, dir := newFlags("agent")
	name := flags.String("name", "", "the `name` of the agent")
	url := flags.String("store", "", "the `URL` of the store")
	with := flags.Bool("with-parent", false, "stop when standard input ends")
	if err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	inside, err := sandbox.Inside()
	if err != nil {
		return err
	}
	if inside {
		return runInside(ctx, *name, *url, demo.Dir(*dir).Shell(*name))
	}
	ctx, cancel := withParent(ctx, *with)
	defer cancel()
	// sandbox.Run passes the signal on. An error would mean that this process does not exist.
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) })
	defer stop()
	code, err := sandbox.Run(append([]string{"agent"}, args...))
	if err == nil && code != 0 {
		err = fmt.Errorf("agent %s: exit code %d", *name, code)
	}
	return err
}

func runInside(ctx context.Context, name, url, shell string) error {
	if err := kernel.Check(); err != nil {
		return sandbox.Forbidden(err)
	}
	client, err := connect(url)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // the process is about to end
	log := func(level slog.Level) *slog.Logger {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("agent", name)
	}
	fmt.Println(demo.ReadyLine)
	return agent.Run(ctx, agent.Options{
		Fill: feed.Cell(feed.Options{Agent: name, Client: client, Check: check, TTL: ttl, Log: log(slog.LevelInfo)}),
		Target: func(in desired.Surroundings) desired.Target {
			return kernel.NewTarget(in, log(slog.LevelInfo))
		},
		Resync:  resync,
		Shell:   shell,
		View:    view.Watcher{View: view.NewLines(os.Stdout)},
		Metrics: reconciler.NewUnpublishedExpVarMetrics(),
		Log:     log(slog.LevelInfo),
		HiveLog: log(slog.LevelWarn),
	})
}
