// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"hash/maphash"
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

// hashOf returns the hash of the memory of a row, zero if rows are no pointers. If it is what it was, no field
// was set: the row in the table keeps alive what its clone points to.
func hashOf[T any](row T) uint64 {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		return 0
	}
	return maphash.Bytes(memorySeed, unsafe.Slice(*(**byte)(unsafe.Pointer(&row)), t.Elem().Size()))
}

var memorySeed = maphash.MakeSeed()

// sameMap reports whether a and b are the same map.
func sameMap(a, b map[string]string) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
