// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package exported loads packages as the compiler exports them, for tests that hold what packages
// offer and use against something.
package exported

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Loader type-checks packages from the compiler's export data. All packages of one loader
// share their dependencies, so that an object of a package is the same for all.
type Loader struct {
	// Fset is for files that are checked with what the loader has.
	Fset     *token.FileSet
	importer types.Importer
}

// New has the go command compile packages and all that they and their tests depend on, which is
// mostly found in the build cache. args are import paths, or flags of go list before them.
func New(t *testing.T, args ...string) *Loader {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go",
		slices.Concat([]string{"list", "-export", "-deps", "-test", "-json=ImportPath,Export"}, args)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	listed, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)

	exports := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(listed)); ; {
		var p struct{ ImportPath, Export string }
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	return &Loader{fset, importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
}

// Load returns the package of an import path.
func (l *Loader) Load(t *testing.T, path string) *types.Package {
	t.Helper()
	pkg, err := l.importer.Import(path)
	require.NoError(t, err)
	return pkg
}

// Check type-checks files of Fset as one package, which may import what the loader has. info is
// filled in as far as it has maps.
func (l *Loader) Check(t *testing.T, path string, info *types.Info, files ...*ast.File) *types.Package {
	t.Helper()
	config := types.Config{Importer: l.importer}
	pkg, err := config.Check(path, l.Fset, files, info)
	require.NoError(t, err)
	return pkg
}
