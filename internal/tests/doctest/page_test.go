// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package doctest

import (
	"strings"
)

// page replaces the three quotes in a literal with fences.
func page(text string) string { return strings.ReplaceAll(text, "'''", fence) }
