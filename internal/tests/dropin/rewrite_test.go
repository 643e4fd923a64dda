// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package dropin

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// programsDir is the folder of the programs, relative to this one.
const programsDir = "programs"

// writeOverlay copies every program that imports the path from, with the path to instead, to a temporary
// folder. It returns the file for the flag -overlay of the go command, which then compiles the copies
// instead.
func writeOverlay(t *testing.T, from, to string) string {
	t.Helper()
	tmp := t.TempDir()
	replace := map[string]string{}
	for _, name := range programFiles(t) {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		rewritten, n := rewriteImport(t, name, source, from, to)
		if n == 0 {
			continue
		}
		copied := filepath.Join(tmp, filepath.Base(name))
		require.NoError(t, os.WriteFile(copied, rewritten, 0o600))
		replace[name] = copied
	}
	require.NotEmpty(t, replace, "no program imports %q", from)

	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(tmp, "overlay.json")
	require.NoError(t, os.WriteFile(file, overlay, 0o600))
	return file
}

// programFiles returns the absolute paths of the programs' files.
func programFiles(t *testing.T) []string {
	t.Helper()
	dir, err := filepath.Abs(programsDir)
	require.NoError(t, err)
	names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

// rewriteImport returns the source with the import path from replaced by to, and the number of changed
// imports. Everything else stays, including the path in comments and strings.
func rewriteImport(t *testing.T, name string, source []byte, from, to string) ([]byte, int) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ImportsOnly)
	require.NoError(t, err)
	var out []byte
	n, at := 0, 0
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		if path != from {
			continue
		}
		out = append(out, source[at:fset.Position(spec.Path.Pos()).Offset]...)
		out = strconv.AppendQuote(out, to)
		at = fset.Position(spec.Path.End()).Offset
		n++
	}
	return append(out, source[at:]...), n
}
