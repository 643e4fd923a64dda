// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build unix

package commands_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The shell runs in /tmp, where other users can create links.
func TestOutDoesNotFollowLinks(t *testing.T) {
	s := newShell(t, routes())
	victim := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o644))
	at := func(name string) string { return filepath.Join(s.dir, name) }
	require.NoError(t, os.Symlink(victim, at("link")))
	require.NoError(t, os.Symlink(victim+"-none", at("dangling")))
	require.NoError(t, syscall.Mkfifo(at("fifo"), 0o600))
	require.NoError(t, os.Mkdir(at("dir"), 0o755))
	for _, name := range []string{"link", "dangling", "dir", "fifo"} {
		// Without a reader, opening the FIFO would block.
		if name == "fifo" {
			reader, err := os.OpenFile(at(name), os.O_RDWR, 0)
			require.NoError(t, err)
			defer reader.Close()
		}
		s.fails("--out: "+at(name)+" is not a regular file", "reconciler --out="+name)
	}
	require.NoFileExists(t, victim+"-none")
	left, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "precious", string(left))
	entries, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	require.Len(t, entries, 4, "no temporary file is left")
}

func TestOutFileIsReadableByItsOwnerOnly(t *testing.T) {
	s := newShell(t, routes())
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path, hard := filepath.Join(s.dir, "out"), filepath.Join(s.dir, "hard")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o666))
	require.NoError(t, os.Link(path, hard))
	for _, name := range []string{"out", "new"} {
		s.prints("", "reconciler --out="+name)
		info, err := os.Lstat(filepath.Join(s.dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), name)
	}
	left, err := os.ReadFile(hard)
	require.NoError(t, err)
	require.Equal(t, "old", string(left), "the old file, by its second name")
}
