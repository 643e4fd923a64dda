// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"bytes"
	"maps"
	"reflect"
	"unsafe"
)

// same reports whether an object has the values of its row. If Clone is shallow, the memory of the two structs
// mostly is the same, which takes a tenth of the time to see: what both point to belongs to the row, and was not
// changed. A deep clone is compared value by value, since a client may change in place what Clone has copied.
func same[T any](obj, row T) bool {
	return sameMemory(obj, row) || reflect.DeepEqual(obj, row)
}

// sameMemory reports whether the structs that a and b point to have the same bytes. It is false if rows are no
// pointers.
func sameMemory[T any](a, b T) bool {
	t := reflect.TypeFor[T]()
	return t.Kind() == reflect.Pointer && bytes.Equal(memoryOf(&a, t.Elem().Size()), memoryOf(&b, t.Elem().Size()))
}

func memoryOf[T any](pointer *T, size uintptr) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(pointer)), size)
}

// sameMap reports whether two maps have the same entries. Mostly they are the same map.
func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() || maps.Equal(a, b)
}
