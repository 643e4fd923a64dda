// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"maps"
	"reflect"
	"slices"
	"unsafe"
)

// sameMeta reports whether two versions of a row have the same finalizers, conditions, annotations and
// policies.
func sameMeta(a, b Resource) bool {
	return a.meta().DeletionPolicy == b.meta().DeletionPolicy &&
		slices.Equal(a.meta().ManagementPolicies, b.meta().ManagementPolicies) &&
		slices.Equal(a.meta().Finalizers, b.meta().Finalizers) &&
		slices.Equal(a.meta().Conditions, b.meta().Conditions) &&
		maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

// sizeOfRow returns the size of the structs to which rows point, zero if rows are no pointers.
func sizeOfRow[T any]() uintptr {
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		return t.Elem().Size()
	}
	return 0
}

// memoryOf returns the memory of a row, nil if its size is zero.
func memoryOf[T any](row T, size uintptr) []byte {
	if size == 0 {
		return nil
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&row)), size)
}
