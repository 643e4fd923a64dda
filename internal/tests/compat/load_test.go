// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package compat

import (
	"go/ast"
	"go/parser"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/internal/tests/exported"
)

const (
	module = "github.com/statekeel/statekeel"
	// peer is the package that reconciler is a drop-in for.
	peer = "github.com/cilium/statedb/reconciler"
	root = "../../.."
)

// packages are the import paths of the packages here, by name.
var packages = map[string]string{
	"reconciler": module + "/reconciler",
	"request":    module + "/reconciler/request",
	"stepper":    module + "/reconciler/stepper",
	"stateful":   module + "/reconciler/stateful",
	"managed":    module + "/reconciler/managed",
	"event":      module + "/reconciler/event",
	"object":     module + "/reconciler/object",
	"status":     module + "/status",
}

// loader finds the objects that names stand for.
type loader struct{ *exported.Loader }

func newLoader(t *testing.T) loader {
	t.Helper()
	return loader{exported.New(t, slices.AppendSeq([]string{peer}, maps.Values(packages))...)}
}

// find returns the object of a name such as "request.Result.Requeue"; nil if it does not exist or is not
// exported.
func (l loader) find(t *testing.T, name string) types.Object {
	t.Helper()
	pkgName, name, _ := strings.Cut(name, ".")
	name, member, isMember := strings.Cut(name, ".")
	if packages[pkgName] == "" {
		return nil
	}
	pkg := l.Load(t, packages[pkgName])
	obj := pkg.Scope().Lookup(name)
	if obj != nil && isMember {
		obj = memberOf(obj, pkg, member)
	}
	if obj == nil || !obj.Exported() {
		return nil
	}
	return obj
}

// memberOf returns a field or method of a type; nil if it does not exist.
func memberOf(owner types.Object, pkg *types.Package, name string) types.Object {
	of, ok := owner.(*types.TypeName)
	if !ok {
		return nil
	}
	t := types.Unalias(of.Type())
	if !types.IsInterface(t) {
		t = types.NewPointer(t)
	}
	member, _, _ := types.LookupFieldOrMethod(t, true, pkg, name)
	if member == nil {
		return nil
	}
	return exported.Origin(member)
}

// usage holds what the tests of a package use.
type usage struct {
	objects map[types.Object]bool
	// methods are the names of the methods that types of the tests declare. Tests use a method of an
	// interface by implementing it.
	methods map[string]bool
}

// usesOf returns what the external tests of a package use (those in package name_test).
func (l loader) usesOf(t *testing.T, pkg string) usage {
	t.Helper()
	folder := filepath.Join(root, strings.TrimPrefix(pkg, module))
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "tests of %s", pkg)
	var parsed []*ast.File
	for _, name := range files {
		file, err := parser.ParseFile(l.Fset, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		if file.Name.Name == path.Base(pkg)+"_test" {
			parsed = append(parsed, file)
		}
	}
	return l.used(t, pkg+"_test", parsed...)
}

// used type-checks files as one package and returns what they use.
func (l loader) used(t *testing.T, path string, files ...*ast.File) usage {
	t.Helper()
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	l.Check(t, path, info, files...)
	u := usage{map[types.Object]bool{}, map[string]bool{}}
	for _, obj := range info.Uses {
		u.objects[exported.Origin(obj)] = true
	}
	for _, obj := range info.Defs {
		if f, ok := obj.(*types.Func); ok && f.Signature().Recv() != nil {
			u.methods[f.Name()] = true
		}
	}
	return u
}

// uses reports whether an object is used: it is named, or it is a method of an interface and a type of
// the tests has a method with its name.
func (u usage) uses(obj types.Object) bool {
	if u.objects[obj] {
		return true
	}
	f, ok := obj.(*types.Func)
	return ok && f.Signature().Recv() != nil && types.IsInterface(f.Signature().Recv().Type()) && u.methods[f.Name()]
}
