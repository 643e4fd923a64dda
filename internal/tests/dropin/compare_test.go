// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package dropin

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
)

// comparison compares the exported names of the package theirs with those of ours. A difference that can
// break a program is a problem. Ours may have more, except where a program would notice: methods of an
// interface that it implements, and fields of a struct that it writes without field names.
type comparison struct {
	theirs, ours *types.Package
	// problems are the differences, by name ("Status", "Status.Error").
	problems map[string]string
}

// comparePackages returns the problems of a comparison.
func comparePackages(theirs, ours *types.Package) map[string]string {
	c := &comparison{theirs, ours, map[string]string{}}
	for _, name := range theirs.Scope().Names() {
		if their := theirs.Scope().Lookup(name); their.Exported() {
			c.object(name, their, ours.Scope().Lookup(name))
		}
	}
	return c.problems
}

func (c *comparison) problem(name, format string, args ...any) {
	c.problems[name] = fmt.Sprintf(format, args...)
}

func (c *comparison) object(name string, their, our types.Object) {
	if our == nil {
		c.problem(name, "is missing")
		return
	}
	switch their := their.(type) {
	case *types.Const:
		our, ok := our.(*types.Const)
		if !ok || !c.same(their.Type(), our.Type()) || !constant.Compare(their.Val(), token.EQL, our.Val()) {
			c.problem(name, "is %s, want %s", our, their)
		}
	case *types.Var:
		// Ours may be a constant: a program that reads the variable compiles with it.
		switch our.(type) {
		case *types.Var, *types.Const:
			if c.same(their.Type(), our.Type()) {
				return
			}
		}
		c.problem(name, "is %s, want %s", our, their)
	case *types.Func:
		if our, ok := our.(*types.Func); !ok || !c.same(their.Type(), our.Type()) {
			c.problem(name, "is %s, want %s", our, their)
		}
	case *types.TypeName:
		our, ok := our.(*types.TypeName)
		if !ok {
			c.problem(name, "is not a type")
			return
		}
		c.typeName(name, their.Type().(*types.Named), types.Unalias(our.Type()))
	}
}

func (c *comparison) typeName(name string, their *types.Named, ourType types.Type) {
	our, ok := ourType.(*types.Named)
	if !ok {
		c.problem(name, "is %s, want a named type", ourType)
		return
	}
	our = our.Origin()
	if !c.sameParams(their.TypeParams(), our.TypeParams()) {
		c.problem(name, "has type parameters %s, want %s", our, their)
		return
	}
	if types.Comparable(their) && !types.Comparable(our) {
		c.problem(name, "is not comparable")
	}
	switch underlying := their.Underlying().(type) {
	case *types.Interface:
		c.iface(name, underlying, our)
		return
	case *types.Struct:
		c.structure(name, underlying, our)
	default:
		if !c.same(underlying, our.Underlying()) {
			c.problem(name, "is %s, want %s", our.Underlying(), underlying)
		}
	}
	c.methods(name, their, our)
}

// iface compares interfaces. Programs call and implement them, so the methods must be the same, no fewer and
// no more.
func (c *comparison) iface(name string, their *types.Interface, ourNamed *types.Named) {
	our, ok := ourNamed.Underlying().(*types.Interface)
	if !ok {
		c.problem(name, "is not an interface")
		return
	}
	ours := map[string]*types.Func{}
	for m := range our.Methods() {
		ours[m.Name()] = m
	}
	for m := range their.Methods() {
		switch our := ours[m.Name()]; {
		case our == nil:
			c.problem(name+"."+m.Name(), "is missing")
		case !c.same(m.Type(), our.Type()):
			c.problem(name+"."+m.Name(), "is %s, want %s", our.Type(), m.Type())
		}
		delete(ours, m.Name())
	}
	for method := range ours {
		c.problem(name+"."+method, "is an additional method")
	}
}

// structure compares the exported fields of structs. A program can write a struct that has only exported
// fields without their names, and can convert it: there everything must be the same.
func (c *comparison) structure(name string, their *types.Struct, ourNamed *types.Named) {
	var exported []int
	for i := range their.NumFields() {
		if their.Field(i).Exported() {
			exported = append(exported, i)
		}
	}
	if len(exported) == 0 {
		return // opaque: ours may be anything
	}
	our, ok := ourNamed.Underlying().(*types.Struct)
	if !ok {
		c.problem(name, "is not a struct")
		return
	}
	if len(exported) == their.NumFields() && !c.same(their, our) {
		c.problem(name, "is %s, want %s", our, their)
	}
	for _, i := range exported {
		field := their.Field(i)
		found := false
		for j := range our.NumFields() {
			if our.Field(j).Name() != field.Name() {
				continue
			}
			found = true
			if !c.same(field.Type(), our.Field(j).Type()) || their.Tag(i) != our.Tag(j) || field.Embedded() != our.Field(j).Embedded() {
				c.problem(name+"."+field.Name(), "is %s %q, want %s %q", our.Field(j), our.Tag(j), field, their.Tag(i))
			}
		}
		if !found {
			c.problem(name+"."+field.Name(), "is missing")
		}
	}
}

// methods compares the methods of a value of the type, and those of a pointer to it.
func (c *comparison) methods(name string, their, our *types.Named) {
	for _, on := range []struct {
		what        string
		theirs, our *types.MethodSet
	}{
		{"a value", types.NewMethodSet(their), types.NewMethodSet(our)},
		{"a pointer", types.NewMethodSet(types.NewPointer(their)), types.NewMethodSet(types.NewPointer(our))},
	} {
		for method := range on.theirs.Methods() {
			if !method.Obj().Exported() {
				continue
			}
			full := name + "." + method.Obj().Name()
			switch found := on.our.Lookup(c.ours, method.Obj().Name()); {
			case found == nil:
				c.problem(full, "is missing on %s", on.what)
			case !c.same(method.Type(), found.Type()):
				c.problem(full, "is %s, want %s", found.Type(), method.Type())
			}
		}
	}
}

// same reports whether a program can use our type where it used theirs. The types must be identical, with two
// exceptions: an exported type of theirs is the same as the type of ours with that name, and all unexported
// types are the same, as no program names them.
func (c *comparison) same(their, our types.Type) bool {
	their, our = types.Unalias(their), types.Unalias(our)
	switch their := their.(type) {
	case *types.Named:
		our, ok := our.(*types.Named)
		return ok && c.sameNamed(their, our)
	case *types.TypeParam:
		our, ok := our.(*types.TypeParam)
		return ok && their.Index() == our.Index()
	case *types.Pointer:
		our, ok := our.(*types.Pointer)
		return ok && c.same(their.Elem(), our.Elem())
	case *types.Slice:
		our, ok := our.(*types.Slice)
		return ok && c.same(their.Elem(), our.Elem())
	case *types.Map:
		our, ok := our.(*types.Map)
		return ok && c.same(their.Key(), our.Key()) && c.same(their.Elem(), our.Elem())
	case *types.Signature:
		our, ok := our.(*types.Signature)
		return ok && their.Variadic() == our.Variadic() &&
			c.sameParams(their.TypeParams(), our.TypeParams()) &&
			c.sameTuple(their.Params(), our.Params()) && c.sameTuple(their.Results(), our.Results())
	case *types.Struct:
		our, ok := our.(*types.Struct)
		return ok && c.sameStruct(their, our)
	default:
		return types.Identical(their, our)
	}
}

func (c *comparison) sameNamed(their, our *types.Named) bool {
	if their.TypeArgs().Len() != our.TypeArgs().Len() {
		return false
	}
	for i := range their.TypeArgs().Len() {
		if !c.same(their.TypeArgs().At(i), our.TypeArgs().At(i)) {
			return false
		}
	}
	name := their.Obj()
	switch {
	case name.Pkg() != c.theirs:
		return their.Origin() == our.Origin()
	case !name.Exported():
		return !our.Obj().Exported()
	}
	counterpart := c.ours.Scope().Lookup(name.Name())
	if counterpart == nil {
		return false
	}
	named, ok := types.Unalias(counterpart.Type()).(*types.Named)
	return ok && named.Origin() == our.Origin()
}

func (c *comparison) sameStruct(their, our *types.Struct) bool {
	if their.NumFields() != our.NumFields() {
		return false
	}
	for i := range their.NumFields() {
		a, b := their.Field(i), our.Field(i)
		if a.Name() != b.Name() || a.Embedded() != b.Embedded() || their.Tag(i) != our.Tag(i) || !c.same(a.Type(), b.Type()) {
			return false
		}
	}
	return true
}

func (c *comparison) sameTuple(their, our *types.Tuple) bool {
	if their.Len() != our.Len() {
		return false
	}
	for i := range their.Len() {
		if !c.same(their.At(i).Type(), our.At(i).Type()) {
			return false
		}
	}
	return true
}

// sameParams compares type parameters by number and constraint. Constraints are compared as text: the peer
// has only "any" and "comparable". What accepts any type accepts the comparable ones.
func (c *comparison) sameParams(their, our *types.TypeParamList) bool {
	if their.Len() != our.Len() {
		return false
	}
	for i := range their.Len() {
		if our := our.At(i).Constraint().String(); our != "any" && our != their.At(i).Constraint().String() {
			return false
		}
	}
	return true
}
