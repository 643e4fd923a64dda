// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package optional checks interfaces that a value may implement or not.
package optional

import (
	"fmt"
	"reflect"
)

// Check returns an error if a value has the method of an interface that it need not implement, but with another
// signature, so that it would never be called. Want is an interface type. A nil value has no methods.
func Check[Want any](impl any, method string) error {
	if _, ok := impl.(Want); ok || impl == nil {
		return nil
	}
	m := reflect.ValueOf(impl).MethodByName(method)
	if !m.IsValid() {
		return nil
	}
	want, _ := reflect.TypeFor[Want]().MethodByName(method)
	return fmt.Errorf("%T.%s is a %s, must be a %s", impl, method, m.Type(), want.Type)
}
