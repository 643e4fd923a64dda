// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package dropin

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/long"
)

// peerFiles are the files with the external tests of the peer, which use it as programs do.
var peerFiles = []string{"multi_test.go", "progress_test.go", "script_test.go"}

func TestPeersOwnTestsPassWithTheImportPathChanged(t *testing.T) {
	dir := peerDir(t)
	require.Equal(t, peerFiles, externalTests(t, dir), "the external tests of the peer have changed")
	files := copyPeerTests(t, dir, *targetPath)
	// Some races show in few runs only.
	count := long.Times(1)
	run := runTests(t, slices.Concat([]string{fmt.Sprintf("-count=%d", count), "-timeout=" + timeLeft(t)}, files)...)

	for _, name := range slices.Concat(declaredTests(t, files), peerScripts(t, dir)) {
		t.Run(name, func(t *testing.T) {
			if problem := passedEachTime(run, name, count); problem != "" {
				t.Error(problem)
			}
		})
	}
	if !t.Failed() && !run.passed {
		t.Error(run.output)
	}
}

// timeLeft returns a -timeout for a test run that has to end before this test's own deadline.
func timeLeft(t *testing.T) string {
	deadline, ok := t.Deadline()
	if !ok {
		return "0"
	}
	return max(time.Second, time.Until(deadline)-10*time.Second).String()
}

// peerDir returns the folder of the peer's source.
func peerDir(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", peerPath)
	cmd.Stderr = t.Output()
	dir, err := cmd.Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(dir))
}

// externalTests returns the names of the files with external tests (package name_test), sorted. Tests in the
// package itself use unexported names.
func externalTests(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly)
		require.NoError(t, err)
		if strings.HasSuffix(file.Name.Name, "_test") {
			names = append(names, filepath.Base(name))
		}
	}
	return names
}

// copyPeerTests copies the peer's tests, with the import path changed, and their scripts to a temporary
// folder, and returns the files.
func copyPeerTests(t *testing.T, dir, to string) (files []string) {
	t.Helper()
	tmp := t.TempDir()
	for _, name := range peerFiles {
		source, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		rewritten, n := rewriteImport(t, name, source, peerPath, to)
		require.Equal(t, 1, n, "imports of %s in %s", peerPath, name)
		file := filepath.Join(tmp, name)
		require.NoError(t, os.WriteFile(file, rewritten, 0o600))
		files = append(files, file)
	}
	require.NoError(t, os.Symlink(filepath.Join(dir, "testdata"), filepath.Join(tmp, "testdata")))
	return files
}

// peerScripts returns the names of the subtests that run the scripts of the peer.
func peerScripts(t *testing.T, dir string) (names []string) {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join(dir, "testdata", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	for _, script := range scripts {
		names = append(names, "TestScript/"+filepath.Base(script))
	}
	return names
}

// passedEachTime returns a message with the output of the test if it did not pass count times; empty if it
// did.
func passedEachTime(run testRun, name string, count int) string {
	test := run.tests[name]
	switch {
	case test == nil:
		return "did not run\n" + run.output
	case test.passes != count:
		return fmt.Sprintf("passed %d times of %d:\n%s", test.passes, count, test.output)
	}
	return ""
}
