// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package outcome

// Wraps reports whether an error is the target, or wraps it among the first errors that it visits: see maxNodes.
func Wraps(err, target error) bool {
	nodes := maxNodes
	return wraps(err, target, &nodes)
}

func wraps(err, target error, nodes *int) bool {
	if err == nil || *nodes == 0 {
		return false
	}
	*nodes--
	if err == target {
		return true
	}
	if own, ok := err.(interface{ Is(error) bool }); ok && own.Is(target) {
		return true
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		return wraps(err.Unwrap(), target, nodes)
	case interface{ Unwrap() []error }:
		for _, inner := range err.Unwrap() {
			if wraps(inner, target, nodes) {
				return true
			}
		}
	}
	return false
}
