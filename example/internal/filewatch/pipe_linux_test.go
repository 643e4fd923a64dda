// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package filewatch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A pipe changes while it is read, and has its content only once.
func TestReadReturnsWhatAPipeHad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	pipe, err := os.OpenFile(path, os.O_RDWR, 0) // so that no open blocks
	require.NoError(t, err)
	defer func() { _ = pipe.Close() }()
	write(t, pipe, "al")
	require.NoError(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
	read := make(chan string, 1)
	go func() {
		data, err := Read(t.Context(), path, 3)
		assert.NoError(t, err)
		read <- string(data)
	}()
	require.Eventually(t, func() bool {
		unread, err := unix.IoctlGetInt(int(pipe.Fd()), unix.TIOCINQ)
		return err == nil && unread == 0
	}, time.Minute, time.Millisecond)
	write(t, pipe, "l")
	select {
	case data := <-read:
		require.Equal(t, "all", data)
	case <-time.After(10 * time.Second):
		write(t, pipe, "end") // for the second read
		require.Equal(t, "all", <-read)
	}
}
