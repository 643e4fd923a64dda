// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package series

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test program is its own child, as the real one is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ChildFlag {
		if err := Child(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// With -race a process waits a second before it exits: children need not.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
