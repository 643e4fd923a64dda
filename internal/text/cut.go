// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Cut returns s if it is no longer than most bytes. Otherwise it returns the beginning of s, cut
// between runes, and the number of bytes that were left out, together no longer than most bytes. most
// must be at least 64. A result that was cut does not keep s in memory.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const room = 40
	begin := beginning(s, most-room)
	return fmt.Sprintf("%s... (%d bytes left out)", begin, len(s)-len(begin))
}

// Short returns s if it is no longer than most bytes. Otherwise it returns the beginning of s, cut
// between runes, and "…", together no longer than most bytes. A result that was cut does not keep s
// in memory.
func Short(s string, most int) string {
	const more = "…"
	if len(s) <= most {
		return s
	}
	return strings.Clone(beginning(s, most-len(more))) + more
}

// beginning returns at most n bytes of s, cut between runes.
func beginning(s string, n int) string {
	for range utf8.UTFMax - 1 {
		if n == 0 || utf8.RuneStart(s[n]) {
			break
		}
		n--
	}
	return s[:n]
}

// FirstKeys returns the first keys of a map, in order, at most most of them.
func FirstKeys[V any](of map[string]V, most int) (first []string) {
	for key := range of {
		if at, _ := slices.BinarySearch(first, key); at < most {
			first = slices.Insert(first, at, key)
			first = first[:min(len(first), most)]
		}
	}
	return first
}
