// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package statefile

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/example/internal/health"
	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/internal/tests/testlog"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	one = "links: [{name: one, kind: bridge}]\n"
	two = "links: [{name: two, kind: bridge}]\n"
)

// follower is a file that is followed until the test ends.
type follower struct {
	*testing.T
	db     *statedb.DB
	tables *desired.Tables
	health *health.Registry
	log    *testlog.Buffer
}

func follow(t *testing.T, path string) *follower {
	file, err := Open(t.Context(), path)
	require.NoError(t, err)
	db := statedb.New()
	tables, err := desired.NewTables(db)
	require.NoError(t, err)
	registry, root := health.New()
	f := &follower{t, db, tables, registry, &testlog.Buffer{}}
	reconcilertest.Go(t, func(ctx context.Context) error {
		return file.Follow(ctx, root.NewScope("file"), desired.NewStore(db, tables), slog.New(slog.NewTextHandler(f.log, nil)))
	})
	return f
}

func (f *follower) links() (names string) {
	s, _ := f.tables.Snapshot(f.db.ReadTxn())
	for _, i := range s.Items {
		names += i.Key
	}
	return names
}

// until waits for events whose time depends on the kernel and the clock.
func (f *follower) until(what string, condition func() bool) {
	f.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); {
		require.True(f, time.Now().Before(deadline), "timed out waiting until %s; links: %s\nlog:\n%s", what, f.links(), f.log)
		<-time.After(5 * time.Millisecond)
	}
}

func put(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func TestAllWaysOfEditingAreFollowed(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "state.yaml"), one)
	f := follow(t, path)
	f.until("the file is applied", func() bool { return f.links() == "one" })

	put(t, path, two) // in place
	f.until("the new text is applied", func() bool { return f.links() == "two" })

	put(t, path+"~", one) // another file in its place
	require.NoError(t, os.Rename(path+"~", path))
	f.until("the new file is applied", func() bool { return f.links() == "one" })

	require.NoError(t, os.Remove(path)) // missing for a while
	f.until("it is missed", func() bool { return len(f.health.Degraded()) == 1 })
	assert.Equal(t, "one", f.links())
	put(t, path, two)
	f.until("it is back", func() bool { return f.links() == "two" && len(f.health.Degraded()) == 0 })
}

func TestFileBehindASymbolicLinkIsFollowed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"v1": one, "v2": two} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		put(t, filepath.Join(dir, name, "state.yaml"), text)
	}
	path := filepath.Join(dir, "state.yaml")
	require.NoError(t, os.Symlink("v1/state.yaml", path))
	f := follow(t, path)
	f.until("the file is applied", func() bool { return f.links() == "one" })

	require.NoError(t, os.Symlink("v2/state.yaml", path+"~"))
	require.NoError(t, os.Rename(path+"~", path))
	f.until("the other file is applied", func() bool { return f.links() == "two" })

	put(t, filepath.Join(dir, "v2", "state.yaml"), one)
	f.until("an edit of the other file is applied", func() bool { return f.links() == "one" })
}

func TestReplacedDirectoryIsFollowed(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	dir := filepath.Join(root, "etc")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	path := put(t, filepath.Join(dir, "state.yaml"), one)
	f := follow(t, path)
	f.until("the file is applied", func() bool { return f.links() == "one" })
	// The directory itself does not change, so there is no event.
	require.NoError(t, os.Rename(root, root+"-old"))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	put(t, path, two)
	f.until("the file in the new directory is applied", func() bool { return f.links() == "two" })
}

func TestInvalidFileIsLoggedOnceAndChangesNothing(t *testing.T) {
	path := put(t, filepath.Join(t.TempDir(), "state.yaml"), one)
	file, err := Open(t.Context(), path)
	require.NoError(t, err)
	db := statedb.New()
	tables, err := desired.NewTables(db)
	require.NoError(t, err)
	store := desired.NewStore(db, tables)
	registry, root := health.New()
	f := &follower{t, db, tables, registry, &testlog.Buffer{}}
	scope, log := root.NewScope("file"), slog.New(slog.NewTextHandler(f.log, nil))
	file.apply(scope, store, log)
	revision := tables.Links.Revision(db.ReadTxn())

	put(t, path, "links: 1\nroutes: 2\n")
	for range 3 {
		file.reload(t.Context(), scope, store, log)
	}
	require.Len(t, registry.Degraded(), 1)
	assert.Equal(t, "file: the state file is broken, its last good state stays in force: "+
		path+":1: cannot unmarshal !!int `1` into []yaml.Node\n"+path+":2: cannot unmarshal !!int `2` into []yaml.Node", registry.Degraded()[0].String())
	assert.Equal(t, 1, strings.Count(f.log.String(), "!!int `1`"), f.log)
	assert.Equal(t, 1, strings.Count(f.log.String(), "!!int `2`"), f.log)

	put(t, path, "links: 3\n")
	file.reload(t.Context(), scope, store, log)
	assert.Equal(t, 1, strings.Count(f.log.String(), "!!int `3`"), "another problem is logged too")

	put(t, path, one) // the state in force
	file.reload(t.Context(), scope, store, log)
	assert.Empty(t, registry.Degraded())
	assert.Equal(t, revision, tables.Links.Revision(db.ReadTxn()), "nothing was written meanwhile")

	require.NoError(t, os.Remove(path))
	file.reload(t.Context(), scope, store, log)
	require.Len(t, registry.Degraded(), 1)
	assert.Contains(t, registry.Degraded()[0].String(), "no such file")
}

// Writers write in place, and pause in the middle: what they have written so far may be a valid file.
func TestHalfWrittenFileIsNotApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.yaml")
		write := func() {
			writer, err := os.Create(path)
			require.NoError(t, err)
			_, err = writer.WriteString(one)
			require.NoError(t, err)
			go func() {
				time.Sleep(3 * time.Second)
				_, err := writer.WriteString("sysctls: {net.ipv4.ip_forward: 1}\n")
				assert.NoError(t, err)
				assert.NoError(t, writer.Close())
			}()
		}
		write()
		file, err := Open(t.Context(), path)
		require.NoError(t, err)
		assert.Len(t, file.state.Sysctls, 1, "at the start")

		db := statedb.New()
		tables, err := desired.NewTables(db)
		require.NoError(t, err)
		_, scope := health.New()
		file.state = config.State{}
		file.data = nil
		write()
		file.reload(t.Context(), scope, desired.NewStore(db, tables), slog.New(slog.DiscardHandler))
		assert.Len(t, file.state.Sysctls, 1, "at an edit")
	})
}

func TestMissingOrInvalidFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(t.Context(), filepath.Join(dir, "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(t.Context(), dir)
	assert.ErrorContains(t, err, "is a directory")
	path := put(t, filepath.Join(dir, "large"), "{}"+strings.Repeat(" ", 2<<20))
	_, err = Open(t.Context(), path)
	assert.EqualError(t, err, path+": larger than a megabyte")
	path = put(t, filepath.Join(dir, "broken"), "links: 1")
	_, err = Open(t.Context(), path)
	assert.EqualError(t, err, path+":1: cannot unmarshal !!int `1` into []yaml.Node")
}
