// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package running

import (
	"errors"
	"fmt"
	"reflect"
)

// IsNil reports whether a value that the program has to set is nil, or a function that is nil.
func IsNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Func && v.IsNil()
}

// CheckStatus returns an error for the functions of a configuration that are missing, for an adapter
// that keeps notes in the rows: without a status in its rows a table is never written.
func CheckStatus(clone, setStatus, getStatus bool) error {
	var errs []error
	for _, f := range []struct {
		is   bool
		name string
	}{{clone, "Clone"}, {setStatus, "SetStatus"}, {getStatus, "GetStatus"}} {
		if !f.is {
			errs = append(errs, fmt.Errorf("%s is nil, but the adapter keeps notes in the rows", "Config."+f.name))
		}
	}
	return errors.Join(errs...)
}
