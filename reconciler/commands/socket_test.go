// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build unix

package commands

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDirectoryIsPrivateUnderAnyUmask(t *testing.T) {
	dir := t.TempDir()
	for i, umask := range []int{0, 0o022, 0o077} {
		path := filepath.Join(dir, strconv.Itoa(i), "s")
		old := syscall.Umask(umask)
		err := PrepareSocket(path)
		syscall.Umask(old)
		require.NoError(t, err)
		require.NoError(t, PrepareSocket(path), "the directory exists")
		info, err := os.Lstat(filepath.Dir(path))
		require.NoError(t, err)
		assert.Equal(t, os.ModeDir|0o700, info.Mode())
	}
}

func TestSharedDirectoryIsRejectedByServerAndClient(t *testing.T) {
	dir := t.TempDir()
	private, open, readable := filepath.Join(dir, "private"), filepath.Join(dir, "open"), filepath.Join(dir, "readable")
	for path, mode := range map[string]os.FileMode{private: 0o700, open: 0o777, readable: 0o750} {
		require.NoError(t, os.Mkdir(path, 0o700))
		require.NoError(t, os.Chmod(path, mode))
	}
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	require.NoError(t, os.Symlink(private, link))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	strangers := "/" // root's, where the tests are not
	if os.Geteuid() == 0 {
		strangers = filepath.Join(dir, "strangers")
		require.NoError(t, os.Mkdir(strangers, 0o700))
		require.NoError(t, os.Chown(strangers, 65534, 65534))
	}
	for directory, want := range map[string]string{
		private:   "",
		open:      "is open to others: its mode is 0777, must be 0700",
		readable:  "is open to others: its mode is 0750, must be 0700",
		link:      "is not a directory",
		file:      "is not a directory",
		strangers: "belongs to another user",
	} {
		path := filepath.Join(directory, "s")
		for side, check := range map[string]func(string) error{"server": PrepareSocket, "client": CheckSocket} {
			if err := check(path); want == "" {
				assert.NoError(t, err, "%s %s", side, directory)
			} else {
				assert.ErrorContains(t, err, want, "%s %s", side, directory)
			}
		}
	}
	assert.ErrorContains(t, CheckSocket(filepath.Join(dir, "absent", "s")), "no such file")
	assert.ErrorContains(t, PrepareSocket(filepath.Join(dir, "absent", "absent", "s")), "no such file")
}

func TestSocketInUseIsRejected(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // with a short name, as a socket needs
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	assert.ErrorContains(t, PrepareSocket(path), "another program listens on")
	require.NoError(t, listener.Close())
	assert.NoError(t, PrepareSocket(path))
}

func TestPathIsInADirectoryOfTheUser(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7")
	assert.Equal(t, "/run/user/7/agent.sock", SocketPath("agent"))
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", "/tmp/x")
	assert.Equal(t, "/tmp/x/agent-"+strconv.Itoa(os.Getuid())+"/socket", SocketPath("agent"))
}
