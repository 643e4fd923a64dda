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

// sameMeta reports whether two versions of a row have the same finalizers, conditions, annotations,
// policies, and the record.
func sameMeta(a, b Resource) bool {
	ma, mb := a.meta(), b.meta()
	return ma.lineage.record == mb.lineage.record && ma.DeletionPolicy == mb.DeletionPolicy &&
		slices.Equal(ma.ManagementPolicies, mb.ManagementPolicies) &&
		slices.Equal(a.GetFinalizers(), b.GetFinalizers()) &&
		slices.Equal(a.GetConditions(), b.GetConditions()) &&
		maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

// untouched returns a function that reports whether one row is a shallow copy of another in which
// nothing was set. Most polls change nothing, and comparing everything that the rows point to would be
// most of their cost. The function may return false where nothing was changed. It always does for rows
// that are not pointers.
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

// extent is a range of bytes in the memory of a row.
type extent struct{ from, to uintptr }

// appendFields appends the ranges of the fields of a value at an offset, in order. Fields without a gap
// become one range. The gaps are left out: whether a copy includes them depends on the compiler.
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

// bytesOf returns the size bytes that a pointer points to, nil if the pointer is nil.
func bytesOf[T any](pointer T, size uintptr) []byte {
	at := *(*unsafe.Pointer)(unsafe.Pointer(&pointer))
	if at == nil {
		return nil
	}
	return unsafe.Slice((*byte)(at), size)
}
