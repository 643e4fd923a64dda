// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"maps"
	"reflect"
	"slices"

	"github.com/statekeel/statekeel/reconciler"
)

// claims are what [Writer.Apply] has set on a row.
type claims struct {
	// fields are the fields that were not zero, and the keys of the maps.
	fields map[claim]struct{}
	// annotations are those that were applied, with their values.
	annotations map[string]string
}

// claim is a field, or one key of one that is a map.
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

// said reports whether an annotation was applied with a value.
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

// applying is one call of [Writer.Apply]: what is desired goes onto a clone of the stored row.
type applying struct {
	onto, desired Resource
	was, now      *claims
	fields        []field
	// ontoValue and desiredValue are the structs.
	ontoValue, desiredValue reflect.Value
}

// newApplying returns what applies a desired row. onto is a clone of the row in the table.
func newApplying[T Managed](onto, desired *T) *applying {
	a := &applying{
		onto: *onto, desired: *desired, was: (*onto).meta().past.applied,
		now:       &claims{fields: map[claim]struct{}{}, annotations: maps.Clone((*desired).GetAnnotations())},
		ontoValue: structOf(onto), desiredValue: structOf(desired),
	}
	a.fields = fieldsOf(a.ontoValue.Type(), nil, "")
	return a
}

// structOf returns the struct of a row, which may be a pointer to it.
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
	// status: it is the status of a reconciler, or a set of them.
	status bool
}

var metaType = reflect.TypeFor[Meta]()

// fieldsOf returns the fields of a type of rows: the exported ones, those of embedded structs
// included, and of [Meta] the policies.
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

// applyFields sets the fields that are desired, and takes back those that were and are not any
// more. It reports whether that changed anything.
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

// applyMap is [applying.applyFields] for the keys of a map.
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
	// Also if it is the same: the program may go on to change its own.
	changed = !reflect.DeepEqual(to.Interface(), next.Interface())
	to.Set(next)
	return changed
}

// set sets a value, unless it is that already.
func set(to, value reflect.Value) (changed bool) {
	if reflect.DeepEqual(to.Interface(), value.Interface()) {
		return false
	}
	to.Set(value)
	return true
}

// applyAnnotations does the same for annotations. What the reconciler or a create has noted is
// changed only if the program says something else than last time.
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

// applyStatuses asks the other reconcilers of a row that has changed: by the statuses that the
// program sets, and those of a set all. That is no change by itself.
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

// claim notes on the row what was applied, and reports whether that is something else than last
// time.
func (a *applying) claim() (changed bool) {
	if a.now.same(a.was) {
		return false
	}
	a.onto.meta().past.applied = a.now
	return true
}
