// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package check

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"strings"
	"time"
)

var seed = maphash.MakeSeed()

// location is read when a time is first formatted.
var location = reflect.TypeFor[time.Location]()

// Hash returns a hash of a value and of all it refers to, without locks, functions, channels, atomics and caches,
// which may change in a value that does not.
func Hash(value any) uint64 {
	w := walker{seen: map[visit]int{}}
	w.h.SetSeed(seed)
	w.walk(reflect.ValueOf(value))
	return w.h.Sum64()
}

type visit struct {
	at  uintptr
	typ reflect.Type
}

type walker struct {
	h    maphash.Hash
	seen map[visit]int
	maps int // maps around this value: a cycle through maps has an end
}

// once reports whether a reference was not followed before, and hashes which it is.
func (w *walker) once(v reflect.Value) bool {
	at := visit{v.Pointer(), v.Type()}
	n, seen := w.seen[at]
	if !seen {
		n = len(w.seen)
		w.seen[at] = n
	}
	fmt.Fprintf(&w.h, "@%d", n)
	return !seen
}

func (w *walker) walk(v reflect.Value) {
	if !v.IsValid() {
		w.h.WriteByte('-')
		return
	}
	pkg := v.Type().PkgPath()
	if pkg == "sync" || strings.HasPrefix(pkg, "sync/") || pkg == "google.golang.org/protobuf/internal/impl" || v.Type() == location {
		return
	}
	fmt.Fprintf(&w.h, "(%d", v.Kind())
	switch v.Kind() {
	case reflect.Bool:
		fmt.Fprint(&w.h, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		fmt.Fprint(&w.h, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		fmt.Fprint(&w.h, v.Uint())
	case reflect.Float32, reflect.Float64:
		fmt.Fprint(&w.h, v.Float())
	case reflect.Complex64, reflect.Complex128:
		fmt.Fprint(&w.h, v.Complex())
	case reflect.String:
		fmt.Fprintf(&w.h, "%q", v.String())
	case reflect.Pointer:
		if !v.IsNil() && w.once(v) {
			w.walk(v.Elem())
		}
	case reflect.Interface:
		w.walk(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "sizeCache" { // of protobuf
				w.walk(v.Field(i))
			}
		}
	case reflect.Array, reflect.Slice:
		fmt.Fprint(&w.h, v.Len())
		for i := range v.Len() {
			w.walk(v.Index(i))
		}
	case reflect.Map:
		// The order of a map is random: the sum of the hashes of its entries has none.
		var sum uint64
		for entries := v.MapRange(); entries.Next(); {
			if w.maps > 10 {
				break
			}
			entry := walker{seen: map[visit]int{}, maps: w.maps + 1}
			entry.h.SetSeed(seed)
			entry.walk(entries.Key())
			entry.walk(entries.Value())
			sum += entry.h.Sum64()
		}
		fmt.Fprint(&w.h, v.Len(), sum)
	}
	w.h.WriteByte(')')
}
