// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"maps"
	"reflect"
	"slices"

	"github.com/statekeel/statekeel/reconciler"
)

// claims records what [Writer.Apply] has set on a row.
type claims struct {
	// fields holds the fields that were not zero, and the keys of the maps.
	fields map[claim]struct{}
	// annotations holds the annotations that were applied, with their values.
	annotations map[string]string
}

// claim is a field, or one key of a field that is a map.
type claim struct {
	field string
	key   any
}

func (c *claims) has(of claim) bool {
	if c == nil {
		return false
	}
	_, ok := c.fields[of]
	return ok
}

// said reports whether an annotation was applied with this value.
func (c *claims) said(key, value string) bool {
	if c == nil {
		return false
	}
	was, ok := c.annotations[key]
	return ok && was == value
}

func (c *claims) same(other *claims) bool {
	return other != nil && maps.Equal(c.fields, other.fields) && maps.Equal(c.annotations, other.annotations)
}

// applying is one call of [Writer.Apply]: it puts the desired row onto a clone of the stored row.
type applying struct {
	onto, desired Resource
	was, now      *claims
	fields        []field
	// ontoValue and desiredValue are the structs of the two rows.
	ontoValue, desiredValue reflect.Value
}

// newApplying returns the state of one Apply. onto is a clone of the row in the table.
func newApplying[T Managed](onto, desired *T) *applying {
	a := &applying{
		onto: *onto, desired: *desired, was: (*onto).meta().past.applied,
		now:       &claims{fields: map[claim]struct{}{}, annotations: maps.Clone((*desired).GetAnnotations())},
		ontoValue: structOf(onto), desiredValue: structOf(desired),
	}
	a.fields = fieldsOf(a.ontoValue.Type(), nil, "")
	return a
}

// structOf returns the struct of a row. row may point to a struct or to a pointer to one.
func structOf[T any](row *T) reflect.Value {
	v := reflect.ValueOf(row).Elem()
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}

// field is a field of a row that a program may set.
type field struct {
	name  string
	index []int
	// status reports whether it is the status of a reconciler, or a set of statuses.
	status bool
}

var metaType = reflect.TypeFor[Meta]()

// fieldsOf returns the fields of a row type that programs may set: the exported ones, including those
// of embedded structs, and the policies of [Meta].
func fieldsOf(t reflect.Type, at []int, path string) (fields []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		index, name := append(slices.Clone(at), i), path+f.Name
		isStatus := f.Type == reflect.TypeFor[reconciler.Status]() || f.Type == reflect.TypeFor[reconciler.StatusSet]()
		switch {
		case f.Type == metaType || f.Type == reflect.PointerTo(metaType):
			for _, policy := range []string{"ManagementPolicies", "DeletionPolicy"} {
				of, _ := metaType.FieldByName(policy)
				fields = append(fields, field{name: policy, index: append(slices.Clone(index), of.Index...)})
			}
		case f.Anonymous && f.Type.Kind() == reflect.Struct && !isStatus:
			fields = append(fields, fieldsOf(f.Type, index, name+".")...)
		case f.IsExported():
			fields = append(fields, field{name, index, isStatus})
		}
	}
	return fields
}

// applyFields sets the desired fields, and clears those that were applied before and are not desired
// now. It reports whether a field changed.
func (a *applying) applyFields() (changed bool) {
	for _, f := range a.fields {
		to, from := a.ontoValue.FieldByIndex(f.index), a.desiredValue.FieldByIndex(f.index)
		switch {
		case f.status:
		case to.Kind() == reflect.Map:
			changed = a.applyMap(f.name, to, from) || changed
		case !from.IsZero():
			a.now.fields[claim{f.name, nil}] = struct{}{}
			changed = set(to, from) || changed
		case a.was.has(claim{f.name, nil}):
			changed = set(to, reflect.Zero(to.Type())) || changed
		}
	}
	return changed
}

// applyMap does the same for the keys of a map.
func (a *applying) applyMap(name string, to, from reflect.Value) (changed bool) {
	next := reflect.MakeMap(to.Type())
	for entries := to.MapRange(); entries.Next(); {
		key := entries.Key()
		if from.MapIndex(key).IsValid() || !a.was.has(claim{name, key.Interface()}) {
			next.SetMapIndex(key, entries.Value())
		}
	}
	for entries := from.MapRange(); entries.Next(); {
		a.now.fields[claim{name, entries.Key().Interface()}] = struct{}{}
		next.SetMapIndex(entries.Key(), entries.Value())
	}
	if next.Len() == 0 && to.Len() == 0 {
		return false
	}
	if next.Len() == 0 {
		next = reflect.Zero(to.Type())
	}
	// Set it even if it is equal: the program may change its own map afterwards.
	changed = !reflect.DeepEqual(to.Interface(), next.Interface())
	to.Set(next)
	return changed
}

// set sets a value unless it is equal already.
func set(to, value reflect.Value) (changed bool) {
	if reflect.DeepEqual(to.Interface(), value.Interface()) {
		return false
	}
	to.Set(value)
	return true
}

// applyAnnotations does the same for annotations. It changes an annotation that the reconciler or a
// create has written only if the program sets another value than last time.
func (a *applying) applyAnnotations() (changed bool) {
	before := a.onto.GetAnnotations()
	creates := createdIn(before)
	isNoted := func(key string) bool { return slices.Contains(noted[:], key) || creates.about(key) }
	for key, value := range a.desired.GetAnnotations() {
		if !isNoted(key) || !a.was.said(key, value) {
			a.onto.SetAnnotation(key, value)
		}
	}
	if a.was != nil {
		for key := range a.was.annotations {
			if _, still := a.desired.GetAnnotations()[key]; !still && !isNoted(key) {
				a.onto.RemoveAnnotation(key)
			}
		}
	}
	return !maps.Equal(before, a.onto.GetAnnotations())
}

// applyStatuses resets the statuses of other reconcilers on a row that has changed: it copies the
// statuses that the program sets, and makes all statuses of a set Pending. This alone does not count as
// a change of the row.
func (a *applying) applyStatuses() {
	for _, f := range a.fields {
		if !f.status {
			continue
		}
		to, from := a.ontoValue.FieldByIndex(f.index), a.desiredValue.FieldByIndex(f.index)
		if all, ok := to.Addr().Interface().(*reconciler.StatusSet); ok {
			*all = all.Pending()
		} else if !from.IsZero() {
			to.Set(from)
		}
	}
}

// claim stores on the row what was applied, and reports whether that differs from last time.
func (a *applying) claim() (changed bool) {
	if a.now.same(a.was) {
		return false
	}
	a.onto.meta().past.applied = a.now
	return true
}
