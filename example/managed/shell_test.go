// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shellIn returns a program that makes its sockets below dir and runs without a umask.
func shellIn(dir string, args ...string) *exec.Cmd {
	cmd := program(args...)
	cmd.Args = append([]string{"sh", "-c", `umask 0; exec "$0" "$@"`}, cmd.Args...)
	cmd.Path = "/bin/sh"
	cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR=", "TMPDIR="+dir)
	return cmd
}

func TestShellIsPrivateUnderAPermissiveUmask(t *testing.T) {
	dir, err := os.MkdirTemp("", "m")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	agent := shellIn(dir, "agent", "-file", filepath.Join(dir, "tunnels.yaml"), "-listen", "127.0.0.1:0", "-with-parent")
	stdin, err := agent.StdinPipe()
	require.NoError(t, err)
	stdout, err := agent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, agent.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "http://")

	// The client waits for the socket.
	out, err := shellIn(dir, "shell", "help", "reconciler").CombinedOutput()
	assert.NoError(t, err, "%s", out)
	directory := filepath.Join(dir, fmt.Sprintf("managed-%d", os.Getuid()))
	info, err := os.Lstat(directory)
	if assert.NoError(t, err, "%s", out) {
		assert.Equal(t, os.ModeDir|0o700, info.Mode())
	}
	require.NoError(t, stdin.Close())
	require.NoError(t, agent.Wait())
}

func TestShellIsRefusedWhereOthersCanReplaceIt(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "open"), 0o777))
	require.NoError(t, os.Chmod(filepath.Join(dir, "open"), 0o777))
	path := filepath.Join(dir, "open", "s")
	out, err := program("agent", "-listen", "127.0.0.1:0", "-shell", path, "-with-parent").CombinedOutput()
	assert.Error(t, err, "the agent")
	assert.Contains(t, string(out), "open to others")

	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Write([]byte(strings.Repeat("caught", 2) + "\n<<end>>\n"))
			_ = conn.Close()
		}
	}()
	out, err = program("shell", "--shell-sock-path", path, "help").CombinedOutput()
	assert.Error(t, err, "the client")
	assert.NotContains(t, string(out), "caught")
	assert.Contains(t, string(out), "open to others")
}
