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

// sameMeta reports whether two versions of a row have the same finalizers, conditions and
// annotations.
func sameMeta(a, b Resource) bool {
	return slices.Equal(a.GetFinalizers(), b.GetFinalizers()) &&
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
	size := t.Elem().Size()
	return func(a, b T) bool { return bytes.Equal(bytesOf(a, size), bytesOf(b, size)) }
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
