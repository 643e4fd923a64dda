// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShellRejectsDirectoriesOfOthers(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	private, link := filepath.Join(dir, "private"), filepath.Join(dir, "link")
	require.NoError(t, os.Mkdir(private, 0o700))
	require.NoError(t, os.Symlink(private, link))
	for directory, want := range map[string]string{dir: "is open to others", link: "is not a directory"} {
		path := filepath.Join(directory, "s")
		code, _, stderr := finish(t, netagent(t, "-state", write(t, small), "-once", "-listen", "", "-shell", path))
		assert.Equal(t, 1, code, "the agent")
		assert.Contains(t, stderr, want, "the agent")

		listener, err := net.Listen("unix", path)
		require.NoError(t, err)
		go func() {
			if conn, err := listener.Accept(); err == nil {
				_, _ = conn.Write([]byte("caught\n<<end>>\n"))
				_ = conn.Close()
			}
		}()
		code, stdout, stderr := finish(t, netagent(t, "shell", "--shell-sock-path", path, "help"))
		assert.Equal(t, 2, code, "the client")
		assert.NotContains(t, stdout, "caught")
		assert.Contains(t, stderr, want, "the client")
		require.NoError(t, listener.Close())
	}
}
