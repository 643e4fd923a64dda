// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package dropin

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// loader type-checks packages from the compiler's export data. All packages of one loader
// share their dependencies, so that a type of a third package is the same in both.
type loader struct {
	fset     *token.FileSet
	importer types.Importer
}

// newLoader has the go command compile the packages, the programs, and all that these
// depend on, which is mostly found in the build cache.
func newLoader(t *testing.T, paths ...string) *loader {
	t.Helper()
	args := slices.Concat([]string{"list", "-export", "-deps", "-test", "-json=ImportPath,Export"},
		buildFlags(), paths, []string{"./" + programsDir})
	cmd := exec.CommandContext(t.Context(), "go", args...)
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
	return &loader{fset, importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
}

// load returns the package of an import path.
func (l *loader) load(t *testing.T, path string) *types.Package {
	t.Helper()
	pkg, err := l.importer.Import(path)
	require.NoError(t, err)
	return pkg
}

// loadPrograms type-checks the programs from their source.
func (l *loader) loadPrograms(t *testing.T) (*types.Package, *types.Info) {
	t.Helper()
	var files []*ast.File
	for _, name := range programFiles(t) {
		file, err := parser.ParseFile(l.fset, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	return l.check(t, programsDir, files...)
}

// check type-checks files as one package.
func (l *loader) check(t *testing.T, path string, files ...*ast.File) (*types.Package, *types.Info) {
	t.Helper()
	info := &types.Info{
		Types:      map[ast.Expr]types.TypeAndValue{},
		Uses:       map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	config := types.Config{Importer: l.importer}
	pkg, err := config.Check(path, l.fset, files, info)
	require.NoError(t, err)
	return pkg, info
}

// checkSource type-checks a package given as text, which may import what the loader has.
func (l *loader) checkSource(t *testing.T, path, source string) (*types.Package, *types.Info) {
	t.Helper()
	file, err := parser.ParseFile(l.fset, path+".go", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	return l.check(t, path, file)
}
