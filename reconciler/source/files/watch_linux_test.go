// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package files

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/signal"
)

func TestKernelTellsWhetherAFileIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	writing, err := os.Create(path)
	require.NoError(t, err)
	reading, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = reading.Close() }()
	is, known := isWritten(reading)
	require.Equal(t, []bool{true, true}, []bool{is, known})
	require.NoError(t, writing.Close())
	is, known = isWritten(reading)
	require.Equal(t, []bool{false, true}, []bool{is, known})
	// It is not held: nobody who opens the file has to wait.
	file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	dir, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer func() { _ = dir.Close() }()
	_, known = isWritten(dir)
	require.False(t, known)
}

func TestEventsTellWhenWritersAreDone(t *testing.T) {
	dir := t.TempDir()
	wake := signal.New()
	made, err := newWatcher(wake)
	require.NoError(t, err)
	defer made.close()
	w := made.(*inotify)
	only := map[string]struct{}{dir: {}}
	fresh, err := w.follow(only)
	require.NoError(t, err)
	require.Equal(t, only, fresh)
	fresh, err = w.follow(only)
	require.NoError(t, err)
	require.Empty(t, fresh)
	path := filepath.Join(dir, "a")
	is := func(want writer) {
		t.Helper()
		eventually(t, "the events are there", func() bool { return w.of(path) == want }, nil)
	}
	file, err := os.Create(path)
	require.NoError(t, err)
	is(writerCreated)
	<-wake
	_, err = file.WriteString("x")
	require.NoError(t, err)
	is(writerWrites)
	require.NoError(t, file.Close())
	is(writerClosed)
	<-wake
	require.Equal(t, writerClosed, w.take(path))
	require.Equal(t, writerUnseen, w.of(path))
	w.restore(path, writerWrites)
	require.Equal(t, writerWrites, w.of(path))
	w.restore(path, writerClosed)
	require.Equal(t, writerWrites, w.of(path), "there was a change since")

	// Events were lost: what is known of writers is not known.
	w.mu.Lock()
	w.event(-1, syscall.IN_Q_OVERFLOW, "")
	w.mu.Unlock()
	require.Equal(t, writerUnseen, w.of(path))
	fresh, err = w.follow(only)
	require.NoError(t, err)
	require.Equal(t, only, fresh)
	<-wake
	require.NoError(t, os.Remove(path))
	<-wake

	// A folder that is replaced is another one.
	require.NoError(t, os.Remove(dir))
	<-wake
	require.NoError(t, os.Mkdir(dir, 0o755))
	eventually(t, "it is watched again", func() bool {
		fresh, err := w.follow(only)
		return err == nil && len(fresh) == 1
	}, nil)
	fresh, err = w.follow(nil)
	require.NoError(t, err)
	require.Empty(t, fresh)
	require.Empty(t, w.folders)
	require.Empty(t, w.watches)
	_, err = w.follow(map[string]struct{}{filepath.Join(dir, "none"): {}})
	require.NoError(t, err, "a folder that is missing is no error of the system")
}

// meddler is a watcher that changes something in the middle of a look.
type meddler struct {
	*events
	meddle func()
}

func (m *meddler) of(path string) writer {
	m.meddle()
	return m.events.of(path)
}

// To open a pipe that nobody writes would last for ever.
func TestFileThatBecomesAPipeIsNotOpened(t *testing.T) {
	e := newEnv(t)
	e.put("a", "1=a")
	s := e.source(nil)
	m := &meddler{events: &events{writers: map[string]writer{}}}
	m.meddle = sync.OnceFunc(func() {
		e.remove("a")
		require.NoError(t, syscall.Mkfifo(e.path("a"), 0o600))
	})
	s.newWatcher = func(signal.Signal) (watcher, error) { return m, nil }
	e.run(s)
	require.ErrorContains(t, s.Loaded(t.Context(), e.dir), "has no file that is read")
}
