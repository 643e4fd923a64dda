// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	// The packages that the programs in the pages import. Without these imports a cached result of this test
	// would outlive a change in them.
	_ "github.com/statekeel/statekeel/metrics"
	_ "github.com/statekeel/statekeel/reconciler"
	_ "github.com/statekeel/statekeel/reconciler/commands"
	_ "github.com/statekeel/statekeel/reconciler/derive"
	_ "github.com/statekeel/statekeel/reconciler/event"
	_ "github.com/statekeel/statekeel/reconciler/managed"
	_ "github.com/statekeel/statekeel/reconciler/object"
	_ "github.com/statekeel/statekeel/reconciler/reconcilertest"
	_ "github.com/statekeel/statekeel/reconciler/request"
	_ "github.com/statekeel/statekeel/reconciler/source"
	_ "github.com/statekeel/statekeel/reconciler/stateful"
	_ "github.com/statekeel/statekeel/reconciler/stepper"
	_ "github.com/statekeel/statekeel/reconciler/trigger"
	_ "github.com/statekeel/statekeel/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const module = "github.com/statekeel/statekeel"

// projectRoot returns the folder of the module's go.mod.
func projectRoot(t *testing.T) string {
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "go.mod"))
	return root
}

// files returns the files of the repository with an extension, relative to its root. Hidden folders, such as
// .git, and testdata are left out.
func files(t *testing.T, root, ext string) (found []string) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != root && (name == "testdata" || name[0] == '.' && name != ".github") {
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() && filepath.Ext(name) == ext {
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found = append(found, relative)
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

// pages returns the Markdown files of the repository, relative to its root.
func pages(t *testing.T, root string) []string {
	found := files(t, root, ".md")
	require.Subset(t, found, []string{"README.md", "docs/GUIDE.md", "example/README.md"})
	return found
}

// read returns the text of a file of the repository.
func read(t *testing.T, root, name string) string {
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}
