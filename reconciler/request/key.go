// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/cilium/statedb/index"
)

// separator separates the parts of a key. Inside a part it is escaped.
const separator = '/'

var escape = strings.NewReplacer(`\`, `\\`, "/", `\/`)

// keyOf returns the default function for Config.KeyOf. The key of a string, an integer or a boolean
// is its text. The key of a struct or an array is the texts of its parts in order, separated by
// slashes. The error is returned if Req has a part of another kind.
func keyOf[Req comparable]() (func(Req) index.Key, error) {
	var zero Req
	switch any(zero).(type) {
	case string:
		return func(req Req) index.Key { return index.String(any(req).(string)) }, nil
	case Request:
		return func(req Req) index.Key { return any(req).(Request).key() }, nil
	case NamespacedName:
		return func(req Req) index.Key { return any(req).(NamespacedName).key() }, nil
	}
	of := reflect.TypeFor[Req]()
	if part := opaque(of); part != nil {
		return nil, fmt.Errorf("Config.KeyOf is nil, and no key can be made of %s: it has a part of type %s", of, part)
	}
	return func(req Req) index.Key {
		var parts []string
		collect(reflect.ValueOf(req), &parts)
		return joined(parts)
	}, nil
}

// key returns the key that collect and joined would make, at a lower cost.
func (n NamespacedName) key() index.Key {
	if strings.ContainsAny(n.Namespace, `/\`) {
		return index.String(escape.Replace(n.Namespace) + "/" + n.Name)
	}
	return index.String(n.Namespace + "/" + n.Name)
}

// joined returns the key of parts. The last part is not escaped: no other part follows that it
// could be confused with.
func joined(parts []string) index.Key {
	key := index.Key{}
	for i, part := range parts {
		if i == len(parts)-1 {
			return append(key, part...)
		}
		key = append(append(key, escape.Replace(part)...), separator)
	}
	return key
}

// opaque returns the first part of a type that has no text which distinguishes all its values, or
// nil if there is none.
func opaque(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.String, reflect.Bool,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return nil
	case reflect.Array:
		return opaque(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if part := opaque(t.Field(i).Type); part != nil {
				return part
			}
		}
		return nil
	}
	return t
}

// collect appends the texts of the parts of a value.
func collect(v reflect.Value, parts *[]string) {
	switch {
	case v.Kind() == reflect.String:
		*parts = append(*parts, v.String())
	case v.Kind() == reflect.Bool:
		*parts = append(*parts, strconv.FormatBool(v.Bool()))
	case v.CanInt():
		*parts = append(*parts, strconv.FormatInt(v.Int(), 10))
	case v.CanUint():
		*parts = append(*parts, strconv.FormatUint(v.Uint(), 10))
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			collect(v.Index(i), parts)
		}
	default:
		for i := range v.NumField() {
			collect(v.Field(i), parts)
		}
	}
}
