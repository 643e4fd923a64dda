// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

// maxErrors bounds how many errors are checked in one error tree, counted once per path to each. A
// client's error may wrap itself, or reach shared errors by very many paths, so that [errors.Is] would
// not return.
const maxErrors = 1000

// wraps reports whether an error is the target, or wraps it among its first maxErrors errors.
func wraps(err, target error) bool {
	left := maxErrors
	return search(err, target, &left)
}

func search(err, target error, left *int) bool {
	if err == nil || *left == 0 {
		return false
	}
	*left--
	if err == target {
		return true
	}
	if own, ok := err.(interface{ Is(error) bool }); ok && own.Is(target) {
		return true
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return search(err.Unwrap(), target, left)
	case interface{ Unwrap() []error }:
		for _, inner := range err.Unwrap() {
			if search(inner, target, left) {
				return true
			}
		}
	}
	return false
}
