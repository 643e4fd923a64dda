// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package filewatch

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
)

// A writer that takes its time is not disturbed; one that never ends does not hide other changes for ever.
func TestFileIsNotReadWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		events, changed := make(chan fsnotify.Event), make(chan struct{}, 1)
		go follow(ctx, events, nil, changed, func() {})
		write := func(d time.Duration) {
			for begin := time.Now(); time.Since(begin) < d && ctx.Err() == nil; time.Sleep(settle / 2) {
				select {
				case events <- fsnotify.Event{}:
				case <-ctx.Done():
				}
			}
		}
		<-changed // the first look
		write(4 * poll)
		require.Empty(t, changed, "in the middle")
		end := time.Now()
		<-changed
		require.Less(t, time.Since(end), 2*settle)

		begin := time.Now()
		go write(time.Hour)
		<-changed
		require.Greater(t, time.Since(begin), 4*poll)
		<-changed
		require.LessOrEqual(t, time.Since(begin), 2*(skips+1)*poll)
		cancel()
		time.Sleep(settle) // until the writer sees it
	})
}

// open is a file that a program has open for writing.
func open(t *testing.T) *os.File {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func write(t *testing.T, file *os.File, text string) {
	_, err := file.WriteString(text)
	require.NoError(t, err)
}

func TestReadWaitsUntilTheWriterIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := open(t)
		begin := time.Now()
		go func() {
			for range 5 {
				time.Sleep(patience - time.Second)
				write(t, file, "x")
			}
			_ = file.Close()
		}()
		data, err := Read(t.Context(), file.Name(), math.MaxInt64)
		require.NoError(t, err)
		require.Equal(t, "xxxxx", string(data))
		require.Less(t, time.Since(begin), 5*patience)
	})
}

// A program may replace a file, and go on writing to the one that has no name any more.
func TestReadLeavesAFileThatWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := open(t)
		begin := time.Now()
		go func() {
			time.Sleep(time.Second)
			require.NoError(t, os.WriteFile(file.Name()+"~", []byte("whole"), 0o600))
			require.NoError(t, os.Rename(file.Name()+"~", file.Name()))
		}()
		data, err := Read(t.Context(), file.Name(), 3)
		require.NoError(t, err)
		require.Equal(t, "who", string(data))
		require.Less(t, time.Since(begin), unseen)
	})
}

func TestReadEndsThoughAFileIsNeverClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := open(t)
		write(t, file, "x")
		data, err := Read(t.Context(), file.Name(), math.MaxInt64)
		require.NoError(t, err)
		require.Equal(t, "x", string(data))

		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		write(t, file, "x")
		_, err = Read(ctx, file.Name(), math.MaxInt64)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// It must not take two seconds to start on a file that is not being written.
func TestReadDoesNotWaitWithoutReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, begin := open(t), time.Now()
		require.NoError(t, file.Close())
		_, err := Read(t.Context(), file.Name(), math.MaxInt64)
		require.NoError(t, err)
		require.NoError(t, os.Remove(file.Name()))
		_, err = Read(t.Context(), file.Name(), math.MaxInt64)
		require.ErrorIs(t, err, os.ErrNotExist)
		require.Zero(t, time.Since(begin))
	})
}
