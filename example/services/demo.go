// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/cilium/hive/cell"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/sandbox"
	"github.com/statekeel/statekeel/example/services/demo"
	"github.com/statekeel/statekeel/example/services/input"
)

// listenerFD is the descriptor of the HTTP listener in the inner process.
const listenerFD = 3

// runDemo runs the proxy in namespaces of its own. The outer process opens what the host can reach, and starts the
// inner one, which is the proxy and the demo.
func runDemo(ctx context.Context, flags *flag.FlagSet, args []string, stdout io.Writer) error {
	var o options
	file := flags.String("file", "services.yaml", "the YAML `file` with the services")
	every := flags.Duration("every", 5*time.Second,
		"how often to change a copy of the file; 0 changes nothing, and follows edits of the file itself")
	o.add(flags)
	if err := parse(flags, args); err != nil {
		return err
	}
	if *every < 0 {
		return fmt.Errorf("%w: -every is %s, must not be negative", errUsage, *every)
	}
	inside, err := sandbox.Inside()
	if err != nil {
		return err
	}
	if inside {
		return o.demo(ctx, *file, *every, stdout)
	}
	if _, err := input.ReadFile(*file); err != nil && *every > 0 {
		return err // the first chapter needs it
	}
	listener, err := o.listen()
	if err != nil {
		return err
	}
	var files []*os.File
	if listener != nil {
		defer func() { _ = listener.Close() }() // the process is about to end
		handed, err := listener.(*net.TCPListener).File()
		if err != nil {
			return err
		}
		files = append(files, handed)
		fmt.Fprintf(stdout, "http://%s has a page and metrics\n", listener.Addr())
	}
	// Inside, every user's number is 0, so the default path would be another one.
	code, err := sandbox.Run(append(append([]string{"demo"}, args...), "-shell="+o.shell), files...)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	return err
}

// demo is the inner process.
func (o *options) demo(ctx context.Context, file string, every time.Duration, stdout io.Writer) (err error) {
	unix.Umask(0o077)
	network, err := demo.NewNetwork()
	if errors.Is(err, os.ErrPermission) {
		return sandbox.Forbidden(err)
	} else if err != nil {
		return err
	}
	if every > 0 {
		copied, remove, err := copyOf(file)
		if err != nil {
			return err
		}
		defer remove()
		file = copied
	}
	p := program{Input: input.File(file), Table: o.table, Resync: o.resync, Shell: o.shell, Log: o.log()}
	p.More = []cell.Cell{demo.Demo{Network: network, Out: stdout, File: file, Every: every}.Cell()}
	if o.http != "" {
		inherited := os.NewFile(listenerFD, "http listener")
		if p.Listener, err = net.FileListener(inherited); err != nil {
			return fmt.Errorf("take over the HTTP listener: %w", err)
		}
		_ = inherited.Close() // FileListener has a copy
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, name := filepath.Split(program)
	fmt.Fprintf(stdout, "in another terminal: cd %s; ./%[2]s status; ./%[2]s why default/web:http; ./%[2]s shell db/show frontends\n"+
		"the services are those of %[3]s; Ctrl-C ends\n\n", dir, name, file)
	return p.run(ctx)
}

// copyOf copies a file into a directory of its own, which remove removes.
func copyOf(file string) (path string, remove func(), err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "services")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "services.yaml")
	return path, func() { _ = os.RemoveAll(dir) }, os.WriteFile(path, text, 0o600)
}
