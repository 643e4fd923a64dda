// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

// maxErrors bounds the errors that are looked at in one, each as often as there are ways to it: a
// client's error may wrap itself, or others that share what they wrap, which [errors.Is] never
// comes to an end of.
const maxErrors = 1000

// wraps reports whether an error is the target, or wraps it among its first 1,000 errors.
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
