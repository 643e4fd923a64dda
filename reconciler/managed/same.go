// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"unsafe"
)

// sameMeta reports whether two versions of a row have the same finalizers, conditions, annotations
// and policies, and the same past.
func sameMeta(a, b Resource) bool {
	return a.meta().past == b.meta().past && policiesOf(a).same(policiesOf(b)) &&
		slices.Equal(a.GetFinalizers(), b.GetFinalizers()) &&
		slices.Equal(a.GetConditions(), b.GetConditions()) &&
		maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

// untouched returns a function that reports whether one row is a shallow copy of another in
// which nothing was set. Most polls change nothing, and to find that out by comparing all that
// the rows point to would be the largest part of them. It may say no where nothing was changed,
// and says so of all rows that are not pointers.
func untouched[T any]() func(a, b T) bool {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		return func(T, T) bool { return false }
	}
	size, fields := t.Elem().Size(), appendFields(nil, t.Elem(), 0)
	return func(a, b T) bool {
		as, bs := bytesOf(a, size), bytesOf(b, size)
		if as == nil || bs == nil {
			return as == nil && bs == nil
		}
		for _, f := range fields {
			if !bytes.Equal(as[f.from:f.to], bs[f.from:f.to]) {
				return false
			}
		}
		return true
	}
}

// extent is a part of the memory of a row.
type extent struct{ from, to uintptr }

// appendFields appends where the fields are of a value at an offset, in order, those without a
// gap as one. What is in the gaps says nothing: it comes along with a copy or not, as the
// compiler has it.
func appendFields(fields []extent, t reflect.Type, at uintptr) []extent {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			fields = appendFields(fields, f.Type, at+f.Offset)
		}
		return fields
	case reflect.Array:
		for i := range t.Len() {
			fields = appendFields(fields, t.Elem(), at+uintptr(i)*t.Elem().Size())
		}
		return fields
	}
	if last := len(fields) - 1; last >= 0 && fields[last].to == at {
		fields[last].to += t.Size()
		return fields
	}
	return append(fields, extent{at, at + t.Size()})
}

// bytesOf returns the memory of so many bytes that a pointer points to, none if it is nil.
func bytesOf[T any](pointer T, size uintptr) []byte {
	at := *(*unsafe.Pointer)(unsafe.Pointer(&pointer))
	if at == nil {
		return nil
	}
	return unsafe.Slice((*byte)(at), size)
}

// sameMap reports whether two maps are one.
func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
