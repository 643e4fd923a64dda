// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package dropin

import (
	"go/ast"
	"go/parser"
	"go/types"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/exported"
)

// loader loads the packages it was made for, and everything that the programs import.
type loader struct{ *exported.Loader }

func newLoader(t *testing.T, paths ...string) loader {
	t.Helper()
	return loader{exported.New(t, append(paths, "./"+programsDir)...)}
}

// loadPrograms type-checks the source of the programs.
func (l loader) loadPrograms(t *testing.T) (*types.Package, *types.Info) {
	t.Helper()
	var files []*ast.File
	for _, name := range programFiles(t) {
		file, err := parser.ParseFile(l.Fset, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	return l.check(t, programsDir, files...)
}

// check type-checks files as one package.
func (l loader) check(t *testing.T, path string, files ...*ast.File) (*types.Package, *types.Info) {
	t.Helper()
	info := &types.Info{
		Types:      map[ast.Expr]types.TypeAndValue{},
		Uses:       map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	return l.Check(t, path, info, files...), info
}
