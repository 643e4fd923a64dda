// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/fleet/demo"
	"github.com/statekeel/statekeel/example/fleet/status"
)

// asFleet is the variable that makes this test binary a fleet: the store, the agents and the commands of
// the tests are processes of their own.
const asFleet = "FLEET_TEST_AS_FLEET"

func TestMain(m *testing.M) {
	if os.Getenv(asFleet) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// self returns the command that runs a fleet's command in a process of its own.
func self(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), asFleet+"=1")
	return cmd
}

// patience is how long a test waits for what takes a second or two on an idle machine.
const patience = 3 * time.Minute

// fleet is a fleet of a test.
type fleet struct {
	*testing.T
	dir    demo.Dir
	client *clientv3.Client
}

// newDir returns a directory with a short name, which a fleet may create: the path of a socket is
// limited.
func newDir(t *testing.T) demo.Dir {
	dir, err := os.MkdirTemp("", "fl")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return demo.Dir(filepath.Join(dir, "d"))
}

// follow returns the fleet of a directory.
func follow(t *testing.T, dir demo.Dir) *fleet {
	client, err := connect(dir.Store())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return &fleet{t, dir, client}
}

// start runs a fleet of two agents, a and b, that have applied the seed, until the test ends. No process
// may have failed then. Fleets mostly wait, so their tests run beside each other.
func start(t *testing.T) *fleet {
	t.Helper()
	t.Parallel()
	dir := newDir(t)
	d, err := demo.Start(t.Context(), dir, self, "a", "b")
	require.NoError(t, err)
	f := &fleet{T: t, dir: dir}
	t.Cleanup(func() {
		log, err := os.ReadFile(dir.Log())
		require.NoError(t, err)
		stopped := d.Stop()
		if t.Failed() {
			t.Logf("the log:\n%s", log)
		}
		require.NoError(t, stopped)
		require.Empty(t, leftovers(t, dir))
	})
	f = follow(t, dir)
	f.applied(f.put(seed...), "a", "b")
	return f
}

// leftovers returns the command lines of processes that have the directory in it.
func leftovers(t *testing.T, dir demo.Dir) (found []string) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(line), string(dir)) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// run runs a command of the fleet, and returns what it prints.
func (f *fleet) run(command string, args ...string) (string, error) {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := self(append([]string{command, "-dir", string(f.dir)}, args...)...)
	cmd = withContext(ctx, cmd)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}

func withContext(ctx context.Context, cmd *exec.Cmd) *exec.Cmd {
	limited := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	limited.Env = cmd.Env
	return limited
}

// must is run for a command that must not fail.
func (f *fleet) must(command string, args ...string) string {
	f.Helper()
	out, err := f.run(command, args...)
	require.NoError(f, err, "fleet %s %q", command, args)
	return out
}

// put puts keys and values, and returns the revision.
func (f *fleet) put(pairs ...string) uint64 { f.Helper(); return f.change("put", pairs...) }

// del deletes keys, and returns the revision.
func (f *fleet) del(keys ...string) uint64 { f.Helper(); return f.change("del", keys...) }

func (f *fleet) change(command string, args ...string) uint64 {
	f.Helper()
	out := f.must(command, args...)
	revision, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(out, "revision ")), 10, 64)
	require.NoError(f, err, out)
	return revision
}

// read returns the status; a zero one if the store does not answer.
func (f *fleet) read() (status.Fleet, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return status.Read(ctx, f.client)
}

// agent returns what the status has of an agent.
func (f *fleet) agent(name string) status.Agent {
	read, err := f.read()
	at := slices.IndexFunc(read.Agents, func(a status.Agent) bool { return a.Name == name })
	if err != nil || at < 0 {
		return status.Agent{}
	}
	return read.Agents[at]
}

// until polls a condition until it holds.
func (f *fleet) until(what string, condition func() bool) {
	f.Helper()
	for deadline := time.Now().Add(patience); !condition(); {
		if !time.Now().Before(deadline) {
			read, err := f.read()
			require.Fail(f, "timed out: "+what, "the status is, %v:\n%s", err, strings.Join(read.Lines(), "\n"))
		}
		<-time.After(20 * time.Millisecond)
	}
}

// applied waits until the status says that these agents, and no others that are alive, have applied all
// up to a revision.
func (f *fleet) applied(revision uint64, agents ...string) {
	f.Helper()
	f.until(fmt.Sprintf("revision %d is applied by %q", revision, agents), func() bool {
		read, err := f.read()
		var names []string
		for _, a := range read.Agents {
			if a.Alive && a.Applied && a.Revision == revision {
				names = append(names, a.Name)
			}
		}
		return err == nil && read.Revision == revision && slices.Equal(names, agents)
	})
}

// untilApplied waits until the command says that n agents have applied all, and returns what it prints. On a busy machine
// an agent may lose its lease: then it begins again.
func (f *fleet) untilApplied(n int) (out string) {
	f.Helper()
	f.until(fmt.Sprintf("%d agents are applied", n), func() bool {
		out = f.must("status")
		return strings.Count(out, "applied")-strings.Count(out, "not applied") == n
	})
	return out
}

// inside runs a command in the namespace of an agent.
func (f *fleet) inside(agent string, command ...string) string {
	f.Helper()
	return f.must("shell", append([]string{agent, "exec"}, command...)...)
}

// hasBridge reports whether the kernel has a link in the namespace of an agent.
func (f *fleet) hasLink(agent, name string) bool {
	f.Helper()
	return strings.Contains(f.inside(agent, "cat", "/proc/net/dev"), name+":")
}

// route returns the gateway of 10.1.0.0/16 in the namespace of an agent, as /proc has it; empty if there
// is no route.
func (f *fleet) gateway(agent string) string {
	f.Helper()
	for line := range strings.Lines(f.inside(agent, "cat", "/proc/net/route")) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "0000010A" {
			return fields[2]
		}
	}
	return ""
}

// says reports whether the status of an agent has a problem with all these texts.
func (f *fleet) says(agent string, texts ...string) bool {
	return slices.ContainsFunc(f.agent(agent).Problems, func(problem string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(problem, text) })
	})
}

// exitCode returns the exit code of a command.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}
