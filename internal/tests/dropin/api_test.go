// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package dropin

import (
	"go/types"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/statekeel/statekeel/internal/tests/exported"
)

// byText are methods of the peer's status kind that ours does not have: ours has MarshalText and
// UnmarshalText, which the JSON and YAML packages call. The programs check that the documents are the same.
var byText = []string{
	"StatusKind.MarshalJSON",
	"StatusKind.MarshalYAML",
	"StatusKind.UnmarshalJSON",
	"StatusKind.UnmarshalYAML",
}

// A name that a program uses exists in both packages: otherwise the program would not compile with one of them.
func TestProgramsUseEveryExportedName(t *testing.T) {
	l := newLoader(t, peerPath)
	peer := l.Load(t, peerPath)
	programs, info := l.loadPrograms(t)
	unused := unusedNames(peer, programs, info)
	unused = slices.DeleteFunc(unused, func(name string) bool { return slices.Contains(byText, name) })
	assert.Empty(t, unused, "names that no program uses")
}

// unusedNames returns the exported names of pkg that user does not use, sorted. user uses a name that it
// writes or selects, and the methods of an interface that one of its types implements.
func unusedNames(pkg, user *types.Package, info *types.Info) []string {
	unused := exported.Names(pkg)
	for _, obj := range info.Uses {
		delete(unused, exported.Origin(obj))
	}
	for _, tv := range info.Types {
		named, ok := tv.Type.(*types.Named)
		if !ok || named.Obj().Pkg() != pkg {
			continue
		}
		iface, ok := named.Underlying().(*types.Interface)
		if !ok || !implementedIn(user, iface) {
			continue
		}
		for m := range iface.Methods() {
			delete(unused, exported.Origin(m))
		}
	}
	return slices.Sorted(maps.Values(unused))
}

// implementedIn reports whether a type of pkg implements the interface.
func implementedIn(pkg *types.Package, iface *types.Interface) bool {
	for _, name := range pkg.Scope().Names() {
		obj, ok := pkg.Scope().Lookup(name).(*types.TypeName)
		if ok && !types.IsInterface(obj.Type()) && types.Implements(types.NewPointer(obj.Type()), iface) {
			return true
		}
	}
	return false
}
