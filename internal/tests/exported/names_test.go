// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package exported

import (
	"flag"
	"fmt"
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/names.txt")

// A change of the file is a change for users: RELEASING.md says what it needs.
func TestExportedNamesAreThoseOfTheList(t *testing.T) {
	const prefix, golden = "github.com/statekeel/statekeel/", "testdata/names.txt"
	var names []string
	paths := slices.DeleteFunc(strings.Fields(string(list(t, prefix+"..."))), func(path string) bool {
		return strings.Contains(path, "/internal/")
	})
	loader := New(t, paths...)
	for _, path := range paths {
		scope := loader.Load(t, path).Scope()
		for _, name := range scope.Names() {
			if obj := scope.Lookup(name); obj.Exported() {
				names = append(names, namesOf(strings.TrimPrefix(path, prefix), obj)...)
			}
		}
	}
	text := strings.Join(names, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), text, "go test ./internal/tests/exported -update writes the list")
}

// namesOf returns the names of an object of a package: itself, and its exported fields and methods.
func namesOf(pkg string, obj types.Object) []string {
	name := pkg + "." + obj.Name()
	names := []string{name}
	declared, ok := obj.(*types.TypeName)
	if !ok || declared.IsAlias() {
		return names
	}
	for method := range types.NewMethodSet(types.NewPointer(obj.Type())).Methods() {
		if method.Obj().Exported() {
			names = append(names, name+"."+method.Obj().Name()+"()")
		}
	}
	switch under := obj.Type().Underlying().(type) {
	case *types.Struct:
		for field := range under.Fields() {
			if field.Exported() {
				names = append(names, fmt.Sprintf("%s.%s", name, field.Name()))
			}
		}
	case *types.Interface:
		for method := range under.Methods() {
			if method.Exported() {
				names = append(names, name+"."+method.Name()+"()")
			}
		}
	}
	return names
}
