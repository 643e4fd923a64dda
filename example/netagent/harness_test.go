// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/hive/shell"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/statekeel/statekeel/example/netagent/sandbox"
	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// The tests run netagent as a process of its own, which is this test binary. The variable selects that; its
// values are below.
const asVariable = "NETAGENT_TEST_AS"

const (
	asNetagent  = "netagent"
	asForbidden = "forbidden" // netagent, where no more user namespaces can be created
	asInside    = "inside"    // the inner process alone, in the namespaces of the test
)

// A thread in another namespace ends with its goroutine, except the first thread of the process: so no test
// may run on that one.
func init() { runtime.LockOSThread() }

// TestMain runs netagent if the variable says so, and otherwise the tests. An unprivileged user's tests run
// in namespaces of their own, since they need rights over the agent's namespace to look into it.
func TestMain(m *testing.M) {
	switch os.Getenv(asVariable) {
	case asForbidden:
		if os.Getuid() == 0 {
			if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(3)
			}
		}
		os.Exit(run(os.Args[1:], os.Stderr))
	case asNetagent:
		os.Exit(run(os.Args[1:], os.Stderr))
	case asInside:
		s, err := parseFlags(os.Args[1:], os.Stderr)
		if err == nil {
			err = runInside(s)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Geteuid() != 0 {
		code, err := sandbox.Run(os.Args[1:])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}
	if inside, err := sandbox.Inside(); err != nil || inside {
		lo, loErr := netlink.LinkByName("lo")
		if err == nil {
			err = loErr
		}
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what takes milliseconds on an idle machine.
const patience = 3 * time.Minute

// process is a running netagent.
type process struct {
	*testing.T
	cmd            *exec.Cmd
	stdout, stderr *testlog.Buffer
	ended          chan struct{} // closed when the process has ended
	stopped        bool

	// From the output of the process.
	pid   int // of the inner process
	shell string
}

// netagent returns a netagent command with these arguments, in a directory of this test that every user may
// enter.
func netagent(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "netagent"
	cmd.Env = append(os.Environ(), asVariable+"="+asNetagent, "GORACE=halt_on_error=1 atexit_sleep_ms=0")
	return cmd
}

// shortDir returns a directory with a short name: the path of a socket is limited.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "na")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o777))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// write writes a state file into a directory of its own, and returns its path.
func write(t *testing.T, state string) string {
	path := filepath.Join(shortDir(t), "state.yaml")
	require.NoError(t, os.WriteFile(path, []byte(state), 0o644))
	return path
}

// shellOf returns the path of the shell's socket for the agent of a state file, in a directory that the
// agent creates.
func shellOf(state string) string { return filepath.Join(filepath.Dir(state), "sh", "s") }

// finish runs a netagent to its end, and returns its exit code and its output.
func finish(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs testlog.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait() // the exit code has the result
	require.NotContains(t, errs.String(), "DATA RACE")
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

var startLine = regexp.MustCompile(`pid=(\d+) shell=(\S+)`)

// start runs a netagent on a state file until the test ends.
func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	return startCommand(t, netagent(t, append([]string{"-state", path, "-shell", shellOf(path)}, args...)...))
}

func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	return startIn(t, "/proc/self/ns/net", cmd)
}

// startIn starts a command in a network namespace.
func startIn(t *testing.T, namespace string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{T: t, cmd: cmd, stdout: &testlog.Buffer{}, stderr: &testlog.Buffer{}, ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.stderr
	}
	within(t, namespace, cmd.Start)
	go func() {
		_ = cmd.Wait() // the exit code has the result
		close(p.ended)
	}()
	t.Cleanup(func() {
		if !p.stopped {
			require.Equal(t, 0, p.stop(syscall.SIGTERM), "exit code")
		}
	})
	p.until("it says where it is", func() bool {
		m := startLine.FindStringSubmatch(p.stderr.String())
		if m == nil {
			return false
		}
		p.pid, _ = strconv.Atoi(m[1])
		p.shell = m[2]
		return true
	})
	return p
}

// stop sends a signal, and returns the exit code.
func (p *process) stop(signal syscall.Signal) int {
	p.Helper()
	p.stopped = true
	_ = p.cmd.Process.Signal(signal) // it may have ended already
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		require.Fail(p, "it does not stop", "standard error:\n%s", p.stderr)
	}
	require.NotContains(p, p.stderr.String(), "DATA RACE")
	return p.cmd.ProcessState.ExitCode()
}

// until polls a condition every few milliseconds until it holds.
func (p *process) until(what string, condition func() bool) {
	p.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			require.Fail(p, "timed out: "+what, "standard output:\n%s\nstandard error:\n%s", p.stdout, p.stderr)
		}
		select {
		case <-p.ended:
			require.True(p, condition(), "it ended before %s; standard error:\n%s", what, p.stderr)
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// untilHealthy waits until all is Done.
func (p *process) untilHealthy() {
	p.Helper()
	p.until("all is Done", func() bool { return strings.HasPrefix(p.ask("netagent/status"), "ok, ") })
}

// ask sends a command to the agent's shell, and returns what it prints. The command must not fail.
func (p *process) ask(format string, args ...any) string {
	p.Helper()
	p.untilItListens()
	var out strings.Builder
	require.NoError(p, shell.ShellExchange(shell.Config{ShellSockPath: p.shell}, &out, format, args...))
	return strings.TrimSpace(out.String())
}

// untilItListens waits until the agent's shell accepts a connection.
func (p *process) untilItListens() {
	p.Helper()
	p.until("the shell listens", func() bool {
		conn, err := net.Dial("unix", p.shell)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// askJSON is ask for a command that prints JSON.
func (p *process) askJSON(into any, format string, args ...any) {
	p.Helper()
	text := p.ask(format, args...)
	require.NoError(p, json.Unmarshal([]byte(text), into), text)
}

// explain returns what a reconciler or a derivation says of a key.
func (p *process) explain(name, key string) (x inspect.Explanation) {
	p.Helper()
	p.askJSON(&x, "reconciler/explain %s %s --format=json", name, key)
	return x
}

// vars holds the values of the metrics that the tests use.
type vars struct {
	Errors map[string]int `json:"reconciliation_total_errors"`
	Prunes map[string]int `json:"prune_count"`
	Writes map[string]int `json:"kernel_writes"`

	Figures map[string]struct{ Unheld int } `json:"reconciliation_figures"`
}

func (p *process) vars() (v vars) {
	p.Helper()
	p.askJSON(&v, "netagent/vars")
	return v
}

// inside runs a function in the agent's network namespace.
func (p *process) inside(f func() error) {
	p.Helper()
	within(p.T, fmt.Sprintf("/proc/%d/ns/net", p.pid), f)
}

// list is inside for a function that lists objects, until no change has interrupted it.
func (p *process) list(f func() error) {
	p.Helper()
	p.inside(func() (err error) {
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			if err = f(); !errors.Is(err, netlink.ErrDumpInterrupted) {
				break
			}
		}
		return err
	})
}

// within runs a function in a network namespace. The function must not end the test, since it runs in another
// goroutine.
func within(t *testing.T, namespace string, f func() error) {
	t.Helper()
	errs := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		ns, err := os.Open(namespace)
		if err == nil {
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			_ = ns.Close()
		}
		if err == nil {
			err = f()
		}
		errs <- err
	}()
	require.NoError(t, <-errs)
}

// routes returns the routes of a table that the kernel did not make, as "dst via gw".
func (p *process) routes(table int) (all []string) {
	p.Helper()
	p.list(func() error {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
		all = nil
		for _, r := range routes {
			if r.Protocol != unix.RTPROT_KERNEL {
				all = append(all, fmt.Sprintf("%s via %s", r.Dst, r.Gw))
			}
		}
		return err
	})
	slices.Sort(all)
	return all
}

// links returns the names of the bridges and veths.
func (p *process) links() (names []string) {
	p.Helper()
	p.list(func() error {
		links, err := netlink.LinkList()
		names = nil
		for _, l := range links {
			if l.Type() == "bridge" || l.Type() == "veth" {
				names = append(names, l.Attrs().Name)
			}
		}
		return err
	})
	slices.Sort(names)
	return names
}

// addresses returns the addresses of a link, except those that the kernel added.
func (p *process) addresses(dev string) (all []string) {
	p.Helper()
	p.list(func() error {
		link, err := netlink.LinkByName(dev)
		if err != nil {
			return err
		}
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		all = nil
		for _, a := range addrs {
			if !a.IP.IsLinkLocalUnicast() {
				all = append(all, a.IPNet.String())
			}
		}
		return err
	})
	slices.Sort(all)
	return all
}

// sysctl returns a setting of the agent's namespace.
func (p *process) sysctl(name string) (value string) {
	p.Helper()
	p.inside(func() error {
		// The files of the thread's namespace, not of the process's first thread.
		data, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
		value = strings.TrimSpace(string(data))
		return err
	})
	return value
}

func route(dst string) *net.IPNet {
	_, network, err := net.ParseCIDR(dst)
	if err != nil {
		panic(err)
	}
	return network
}

// eventually is process.until without a process.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); {
		require.True(t, time.Now().Before(deadline), "timed out waiting until %s", what)
		<-time.After(5 * time.Millisecond)
	}
}

// untilResyncs waits until the kernel has been listed n more times.
func (p *process) untilResyncs(n int) {
	p.Helper()
	before := p.vars().Prunes
	for _, name := range []string{"netagent/links", "netagent/addresses", "netagent/routes", "netagent/sysctls"} {
		p.until("some more listings", func() bool { return p.vars().Prunes[name] >= before[name]+n })
	}
}
