// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Cut returns s if it has no more than most bytes. Else it returns the beginning of s, of whole
// runes, and how many bytes were left out, together in at most that many bytes: most must be at
// least 64. What is left out is not held on to.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const room = 40
	end := most - room
	for range utf8.UTFMax - 1 {
		if utf8.RuneStart(s[end]) {
			break
		}
		end--
	}
	return fmt.Sprintf("%s... (%d bytes left out)", s[:end], len(s)-end)
}

// Short returns s if it has no more than most bytes, else the beginning of s, of whole runes, and
// "…", together in at most that many bytes. What is left out is not held on to.
func Short(s string, most int) string {
	const more = "…"
	if len(s) <= most {
		return s
	}
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end]) + more
}
