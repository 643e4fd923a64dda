// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/cilium/statedb/index"
)

// escape escapes a namespace in a key, in which a slash ends it.
var escape = strings.NewReplacer(`\`, `\\`, "/", `\/`)

// keyOf returns the default function for Config.KeyOf, or an error if there is none for the type.
func keyOf[Req comparable]() (func(Req) index.Key, error) {
	var zero Req
	switch any(zero).(type) {
	case Request:
		return func(req Req) index.Key { return any(req).(Request).key() }, nil
	case NamespacedName:
		return func(req Req) index.Key { return any(req).(NamespacedName).key() }, nil
	}
	if of := reflect.TypeFor[Req](); of.Kind() != reflect.String {
		return nil, fmt.Errorf("Config.KeyOf is nil, and %s has no default key", of)
	}
	return func(req Req) index.Key { return index.String(reflect.ValueOf(req).String()) }, nil
}

func (n NamespacedName) key() index.Key {
	return index.String(escape.Replace(n.Namespace) + "/" + n.Name)
}
