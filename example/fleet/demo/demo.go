// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build unix

// Package demo runs a store and agents as processes, and starts and stops them on request.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
)

// Demo is a running fleet.
type Demo struct {
	command func(args ...string) *exec.Cmd
	dir     Dir
	lock    *os.File // makes the directory that of this fleet
	log     *os.File
	control *net.UnixListener
	stop    context.CancelFunc
	serving sync.WaitGroup

	// The processes, by name. They belong to the goroutine that serves, and before and after that to the
	// caller of Start and Stop.
	processes map[string]*process
}

// storeName is the name of the process of the store.
const storeName = "store"

// Start starts a store and agents in a directory, and returns when they run. command returns the command
// that runs this program with arguments. From then on [Ask] reaches the fleet. The caller must stop it.
func Start(ctx context.Context, dir Dir, command func(args ...string) *exec.Cmd, agents ...string) (*Demo, error) {
	lock, err := dir.create()
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &Demo{command: command, dir: dir, lock: lock, stop: stop, processes: make(map[string]*process)}
	err = d.start(ctx, serving, agents)
	if err != nil && ctx.Err() != nil {
		// Nothing has failed.
		if err := d.Stop(); err != nil {
			return nil, err
		}
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(err, d.end(), lock.Close())
	}
	return d, nil
}

func (d *Demo) start(ctx, serving context.Context, agents []string) (err error) {
	if d.log, err = os.OpenFile(d.dir.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if err := d.startStore(ctx); err != nil {
		return err
	}
	for _, name := range agents {
		if err := d.startAgent(ctx, name); err != nil {
			return err
		}
	}
	if d.control, err = net.ListenUnix("unix", &net.UnixAddr{Name: d.dir.control(), Net: "unix"}); err != nil {
		return err
	}
	d.serving.Go(func() { d.serve(serving) })
	return nil
}

// Stop stops all processes and removes the directory. If a process has failed, the directory stays, with
// its log.
func (d *Demo) Stop() error {
	defer func() { _ = d.lock.Close() }() // nothing was written
	if err := d.end(); err != nil {
		return fmt.Errorf("%w\nsee %s", err, d.dir.Log())
	}
	return d.dir.remove()
}

// end stops all processes.
func (d *Demo) end() error {
	d.stop()
	if d.control != nil {
		_ = d.control.Close() // removes the socket
	}
	d.serving.Wait()
	store := d.processes[storeName]
	delete(d.processes, storeName)
	// The agents first: they tell the store that they go.
	failed := make(chan error, len(d.processes))
	for _, p := range d.processes {
		go func() { failed <- p.stop() }()
	}
	var errs []error
	for range d.processes {
		errs = append(errs, <-failed)
	}
	if store != nil {
		errs = append(errs, store.stop())
	}
	if d.log != nil {
		errs = append(errs, d.log.Close())
	}
	return errors.Join(errs...)
}

func (d *Demo) startStore(ctx context.Context) error {
	return d.run(ctx, storeName, "server", "-data", d.dir.data(), "-listen", d.dir.Store())
}

var agentName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)

func (d *Demo) startAgent(ctx context.Context, name string) error {
	if !agentName.MatchString(name) || name == storeName {
		return fmt.Errorf("an agent cannot be named %q", name)
	}
	return d.run(ctx, name, "agent", "-name", name, "-store", d.dir.Store(), "-dir", string(d.dir))
}

// run starts a process that does not run.
func (d *Demo) run(ctx context.Context, name string, args ...string) error {
	if p := d.processes[name]; p != nil && p.running() {
		return fmt.Errorf("%s runs already", name)
	}
	p, err := start(ctx, name, d.command(append(args, "-with-parent")...), d.log)
	if err == nil {
		d.processes[name] = p
	}
	return err
}

// endOne ends a process that runs: with SIGKILL if kill is true.
func (d *Demo) endOne(name string, kill bool) error {
	p := d.processes[name]
	if p == nil || !p.running() {
		return fmt.Errorf("%s does not run", name)
	}
	delete(d.processes, name)
	if kill {
		p.kill()
		return nil
	}
	return p.stop()
}

// Requests are the requests that [Ask] takes. NAME is that of an agent; start may start new ones.
var Requests = []string{"store stop", "store start", "store wipe", "kill NAME", "start NAME"}

// carryOut carries out a request.
func (d *Demo) carryOut(ctx context.Context, request string) error {
	verb, name, _ := strings.Cut(request, " ")
	switch {
	case request == "store stop":
		return d.endOne(storeName, false)
	case request == "store start":
		return d.startStore(ctx)
	case request == "store wipe":
		if p := d.processes[storeName]; p != nil && p.running() {
			if err := d.endOne(storeName, true); err != nil {
				return err
			}
		}
		if err := os.RemoveAll(d.dir.data()); err != nil {
			return err
		}
		return d.startStore(ctx)
	case verb == "kill" && name != storeName:
		return d.endOne(name, true)
	case verb == "start":
		return d.startAgent(ctx, name)
	}
	return fmt.Errorf("unknown request %q; known are %s", request, strings.Join(Requests, ", "))
}
