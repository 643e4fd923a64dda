// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package long says how long random tests run: briefly, unless STATEKEEL_LONG asks for more.
package long

import (
	"os"
	"strconv"
	"testing"
)

// Variable names the environment variable that makes random tests longer, see [Times]. make test-long sets it.
const Variable = "STATEKEEL_LONG"

// Times returns n times the factor in STATEKEEL_LONG, and n if the variable is unset. A test calls it with the number
// of random runs that tell a newcomer whether the promise holds at all. It panics if the variable has anything but a
// whole number of 1 or more.
func Times(n int) int {
	text, set := os.LookupEnv(Variable)
	if !set {
		return n
	}
	factor, err := strconv.Atoi(text)
	if err != nil || factor < 1 {
		panic(Variable + " must be a whole number of 1 or more, not " + strconv.Quote(text))
	}
	return n * factor
}

// Only skips a test that says little in a short run: it waits for long, or repeats what a shorter test checks.
func Only(t testing.TB) {
	t.Helper()
	if _, set := os.LookupEnv(Variable); !set {
		t.Skip("runs in make test-long")
	}
}
