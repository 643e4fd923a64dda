// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/cilium/hive/shell"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/term"

	"github.com/statekeel/statekeel/example/fleet/demo"
	"github.com/statekeel/statekeel/example/fleet/feed"
	"github.com/statekeel/statekeel/example/fleet/status"
	"github.com/statekeel/statekeel/example/internal/screen"
	"github.com/statekeel/statekeel/example/netagent/desired"
)

// seed is what the store of the demo wants at the start, as keys and values.
var seed = []string{
	"links/lo", "{name: lo, kind: loopback}",
	"links/br0", "{name: br0, kind: bridge}",
	"addresses/br0/10.0.0.1/24", "{dev: br0, cidr: 10.0.0.1/24}",
	"routes/main/10.1.0.0/16", "{dst: 10.1.0.0/16, via: 10.0.0.2, dev: br0}",
	"sysctls/net.ipv4.ip_forward", "{name: net.ipv4.ip_forward, value: 1}",
}

// agents are the names of the agents of the demo.
var agents = []string{"agent-1", "agent-2", "agent-3", "agent-4", "agent-5"}

// every is how often the status is read and shown.
const every = 250 * time.Millisecond

// runDemo runs a fleet until the context ends.
func runDemo(ctx context.Context, args []string) (err error) {
	flags, dir := newFlags("run")
	if err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	d, err := demo.Start(ctx, demo.Dir(*dir), func(args ...string) *exec.Cmd { return exec.Command("/proc/self/exe", args...) }, agents...)
	if err != nil {
		if err == ctx.Err() {
			return nil
		}
		return err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	fmt.Println("fleet: five agents and a store; its directory, with the log, is", *dir)
	if err := put(ctx, *dir, seed); err != nil && ctx.Err() == nil {
		return err
	}
	return show(ctx, *dir)
}

// show shows the status until the context ends.
func show(ctx context.Context, dir string) error {
	client, err := connect(demo.Dir(dir).Store())
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // the process is about to end
	var view interface{ Show(lines []string) error } = &status.Log{Out: os.Stdout}
	if out := int(os.Stdout.Fd()); term.IsTerminal(out) {
		view = &screen.Screen{Out: os.Stdout, Size: func() (width, height int) {
			width, height, _ = term.GetSize(out) // 0 is no limit
			return width, height
		}}
	}
	var last status.Fleet
	for {
		reading, cancel := context.WithTimeout(ctx, time.Second)
		fleet, err := status.Read(reading, client)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		var lines []string
		if err == nil {
			last = fleet
		} else {
			lines = append(lines, "The store does not answer. This is what it had:")
		}
		if err := view.Show(append(lines, last.Lines()...)); err != nil {
			return err
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil
		}
	}
}

// timeout bounds what a command asks of the store, which may be stopped.
const timeout = 3 * time.Second

// ask calls a function with a connection to the store of a running fleet.
func ask(ctx context.Context, dir string, f func(context.Context, *clientv3.Client) error) error {
	if err := demo.Check(demo.Dir(dir)); err != nil {
		return err
	}
	client, err := connect(demo.Dir(dir).Store())
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // the process is about to end
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = f(ctx, client)
	if ctx.Err() != nil {
		return fmt.Errorf("the store does not answer: %w", err)
	}
	return err
}

// change carries out puts and deletions of keys below [feed.Desired] in one transaction, and prints its
// revision. An error for a key that no table has, and for the deletion of one that is not there: that changes
// nothing, so no agent would acknowledge its revision.
func change(ctx context.Context, dir string, ops []clientv3.Op) error {
	changed := make(map[string]clientv3.Op)
	var there []clientv3.Cmp
	for _, op := range ops {
		table, _, err := split(strings.TrimPrefix(string(op.KeyBytes()), feed.Desired))
		if err != nil {
			return err
		}
		changed[table] = clientv3.OpPut(feed.Changed+table, "")
		if op.IsDelete() {
			there = append(there, clientv3.Compare(clientv3.CreateRevision(string(op.KeyBytes())), ">", 0))
		}
	}
	return ask(ctx, dir, func(ctx context.Context, client *clientv3.Client) error {
		done, err := client.Txn(ctx).If(there...).Then(slices.AppendSeq(ops, maps.Values(changed))...).Commit()
		if err != nil {
			return err
		} else if !done.Succeeded {
			return errors.New("the store has not all of these keys: nothing was deleted")
		}
		fmt.Println("revision", done.Header.Revision)
		return nil
	})
}

// put writes keys and values, which take turns in the list.
func put(ctx context.Context, dir string, pairs []string) error {
	var ops []clientv3.Op
	for pair := range slices.Chunk(pairs, 2) {
		if len(pair) != 2 {
			return fmt.Errorf("the key %q has no value", pair[0])
		}
		ops = append(ops, clientv3.OpPut(feed.Desired+pair[0], pair[1]))
	}
	return change(ctx, dir, ops)
}

func runPut(ctx context.Context, args []string) error {
	flags, dir := newFlags("put")
	if err := parse(flags, args, 2, math.MaxInt); err != nil {
		return err
	}
	return put(ctx, *dir, flags.Args())
}

func runDelete(ctx context.Context, args []string) error {
	flags, dir := newFlags("del")
	if err := parse(flags, args, 1, math.MaxInt); err != nil {
		return err
	}
	var ops []clientv3.Op
	for _, key := range flags.Args() {
		ops = append(ops, clientv3.OpDelete(feed.Desired+key))
	}
	return change(ctx, *dir, ops)
}

// split returns the table and the name of the row of a key.
func split(key string) (table, name string, err error) {
	table, name, _ = strings.Cut(key, "/")
	if !slices.Contains(feed.Tables, table) || name == "" {
		return "", "", fmt.Errorf("key %q does not begin with one of %s/", key, strings.Join(feed.Tables, "/, "))
	}
	return table, name, nil
}

func runStatus(ctx context.Context, args []string) error {
	flags, dir := newFlags("status")
	if err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	return ask(ctx, *dir, func(ctx context.Context, client *clientv3.Client) error {
		fleet, err := status.Read(ctx, client)
		if err != nil {
			return err
		}
		fmt.Println(strings.Join(fleet.Lines(), "\n"))
		return nil
	})
}

// runWhy asks an agent about a row. A value that does not decode is not in a row: the agent told that
// the store.
func runWhy(ctx context.Context, args []string) error {
	flags, dir := newFlags("why")
	if err := parse(flags, args, 2, 2); err != nil {
		return err
	}
	name, key := flags.Arg(0), flags.Arg(1)
	table, row, err := split(key)
	if err != nil {
		return err
	}
	err = ask(ctx, *dir, func(ctx context.Context, client *clientv3.Client) error {
		fleet, err := status.Read(ctx, client)
		for _, agent := range fleet.Agents {
			for _, problem := range agent.Problems {
				if agent.Name == name && strings.Contains(problem, fmt.Sprintf("%q", feed.Desired+key)) {
					fmt.Println(problem)
				}
			}
		}
		return err
	})
	if err != nil {
		fmt.Println(err) // the agent can be asked without the store
	}
	if table != desired.RoutesTable {
		return explain(*dir, name, table, row)
	}
	return errors.Join(
		explain(*dir, name, "derive-routes", string(feed.Source)+"/"+row), // it may lose to another metric
		explain(*dir, name, table, withoutMetric(row)),
	)
}

func explain(dir, agent, of, key string) error {
	if strings.Contains(key, "\n") {
		return errors.New("no row has a key with a line break")
	}
	// Two quotes are one within quotes.
	return shellCommand(dir, agent, "reconciler/explain "+of+" '"+strings.ReplaceAll(key, "'", "''")+"'")
}

// withoutMetric returns the key of a route without its metric: TABLE/IP/LENGTH.
func withoutMetric(key string) string {
	parts := strings.SplitN(key, "/", 4)
	return strings.Join(parts[:min(len(parts), 3)], "/")
}

func runShell(_ context.Context, args []string) error {
	flags, dir := newFlags("shell")
	if err := parse(flags, args, 2, math.MaxInt); err != nil {
		return err
	}
	return shellCommand(*dir, flags.Arg(0), strings.Join(flags.Args()[1:], " "))
}

// shellCommand runs a command in the shell of an agent.
func shellCommand(dir, agent, command string) error {
	path := demo.Dir(dir).Shell(agent)
	// ShellExchange would wait for a shell.
	conn, err := net.Dial("unix", path)
	if err != nil {
		return fmt.Errorf("agent %q does not run: %w", agent, err)
	}
	_ = conn.Close() // nothing was sent
	return shell.ShellExchange(shell.Config{ShellSockPath: path}, os.Stdout, "%s", command)
}

func runStore(ctx context.Context, args []string) error {
	flags, dir := newFlags("store")
	if err := parse(flags, args, 1, 1); err != nil {
		return err
	}
	switch action := flags.Arg(0); action {
	case "compact":
		return ask(ctx, *dir, func(ctx context.Context, client *clientv3.Client) error {
			now, err := client.Get(ctx, feed.Identity)
			if err != nil {
				return err
			}
			_, err = client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
			return err
		})
	case "seed":
		return put(ctx, *dir, seed)
	default:
		return demo.Ask(demo.Dir(*dir), "store "+action)
	}
}

func runKill(_ context.Context, args []string) error  { return request("kill", args) }
func runStart(_ context.Context, args []string) error { return request("start", args) }

func request(verb string, args []string) error {
	flags, dir := newFlags(verb)
	if err := parse(flags, args, 1, 1); err != nil {
		return err
	}
	return demo.Ask(demo.Dir(*dir), verb+" "+flags.Arg(0))
}
