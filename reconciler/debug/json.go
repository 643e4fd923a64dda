// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package debug

// listed returns list, or an empty list instead of nil: that is [] in JSON, not null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
