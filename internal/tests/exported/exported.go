// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package exported loads type information of packages from the export data of the compiler, for tests that
// check which names packages export and use.
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
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Loader loads packages from export data. All packages of one loader share their dependencies, so an object
// of a package is the same in all of them.
type Loader struct {
	// Fset has the positions of the files that Check gets.
	Fset     *token.FileSet
	importer types.Importer
}

// BuildFlags returns the flags of the go command that the test was built with. With the same flags the go
// command finds most packages in the build cache.
func BuildFlags() []string {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return []string{"-race"}
	}
	return nil
}

// New returns a loader for packages, given by import path or folder, and for everything that they and their
// tests import. The go command compiles what is not in its cache.
func New(t *testing.T, packages ...string) *Loader {
	t.Helper()
	// Not -export at once: it would compile the tests, too, which takes minutes and is of no use here.
	imported := list(t, append([]string{"-deps", "-test", "-f", "{{if not .ForTest}}{{.ImportPath}}{{end}}"}, packages...)...)
	paths := slices.DeleteFunc(strings.Fields(string(imported)), func(path string) bool { return strings.HasSuffix(path, ".test") })
	listed := list(t, append([]string{"-export", "-json=ImportPath,Export"}, paths...)...)

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

// list returns the output of go list.
func list(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", slices.Concat([]string{"list"}, BuildFlags(), args)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	listed, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	return listed
}

// Load returns the package with an import path. New must have been called with it, or with a package that
// imports it.
func (l *Loader) Load(t *testing.T, path string) *types.Package {
	t.Helper()
	pkg, err := l.importer.Import(path)
	require.NoError(t, err)
	return pkg
}

// Check type-checks files, parsed with Fset, as one package that may import what the loader has. It fills the
// maps of info that are not nil.
func (l *Loader) Check(t *testing.T, path string, info *types.Info, files ...*ast.File) *types.Package {
	t.Helper()
	config := types.Config{Importer: l.importer}
	pkg, err := config.Check(path, l.Fset, files, info)
	require.NoError(t, err)
	return pkg
}

// Names returns the exported objects of a package, with the fields and methods that its types declare, and their names:
// "Status", "Status.Error".
func Names(pkg *types.Package) map[types.Object]string {
	names := map[types.Object]string{}
	for _, name := range pkg.Scope().Names() {
		obj := pkg.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		names[obj] = name
		named, ok := obj.Type().(*types.Named)
		if _, isType := obj.(*types.TypeName); !isType || !ok {
			continue
		}
		for _, member := range members(named) {
			if member.Exported() {
				names[member] = name + "." + member.Name()
			}
		}
	}
	return names
}

// members returns the fields and methods that a type declares.
func members(named *types.Named) []types.Object {
	var all []types.Object
	for m := range named.Methods() {
		all = append(all, m)
	}
	switch u := named.Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			all = append(all, f)
		}
	case *types.Interface:
		for m := range u.ExplicitMethods() {
			all = append(all, m)
		}
	}
	return all
}

// Origin returns the generic field or function that obj is an instance of; obj itself if it is none.
func Origin(obj types.Object) types.Object {
	switch obj := obj.(type) {
	case *types.Var:
		return obj.Origin()
	case *types.Func:
		return obj.Origin()
	}
	return obj
}
