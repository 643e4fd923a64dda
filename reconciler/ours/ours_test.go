// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package ours_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/statekeel/statekeel/reconciler/ours"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *ours.Names {
	t.Helper()
	names, err := ours.Open(path)
	require.NoError(t, err)
	return names
}

func TestNamesOutliveTheProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "ours")
	names := open(t, path)
	all := []string{"", ".", "..", "../../etc/passwd", "10.0.0.0/8 dev eth0", "Größe", "a", "line\nend", "percent%2Fslash", "\xff"}
	for _, name := range all {
		require.False(t, names.Has(name))
		require.NoError(t, names.Add(t.Context(), name), name)
		require.NoError(t, names.Add(t.Context(), name), name)
		require.True(t, names.Has(name))
	}
	require.NoError(t, os.WriteFile(filepath.Join(path, "README"), nil, 0o600)) // of somebody else
	require.ElementsMatch(t, all, names.All())
	require.ElementsMatch(t, all, open(t, path).All())

	for i, name := range all {
		names = open(t, path)
		require.True(t, names.Has(name))
		require.NoError(t, names.Remove(t.Context(), name))
		require.NoError(t, names.Remove(t.Context(), name))
		require.False(t, names.Has(name))
		require.ElementsMatch(t, all[i+1:], open(t, path).All())
	}
	require.FileExists(t, filepath.Join(path, "README"))
}

// A name that could not be written down does not count as ours, and one that could not be struck out still does.
func TestAChangeThatFailsIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ours")
	names := open(t, path)
	long := strings.Repeat("n", 251)
	require.ErrorContains(t, names.Add(t.Context(), long), "file name too long")
	require.False(t, names.Has(long))
	require.NoError(t, names.Add(t.Context(), long[:250]))

	require.NoError(t, os.RemoveAll(path))
	require.ErrorIs(t, names.Add(t.Context(), "a"), os.ErrNotExist)
	require.ErrorIs(t, names.Remove(t.Context(), long[:250]), os.ErrNotExist)
	require.Equal(t, []string{long[:250]}, names.All())
	require.NoError(t, os.Mkdir(path, 0o700))
	require.NoError(t, names.Remove(t.Context(), long[:250])) // the file is gone
	require.Empty(t, names.All())
}

func TestAFolderThatCannotBeReadIsAnError(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, "a%zz.ours"), nil, 0o600))
	_, err := ours.Open(path)
	require.ErrorContains(t, err, "a%zz.ours is no name that was written down")
	_, err = ours.Open(filepath.Join(path, "a%zz.ours"))
	require.ErrorContains(t, err, "not a directory")
}
