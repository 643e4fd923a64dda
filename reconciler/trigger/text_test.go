// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package trigger_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"

	"github.com/statekeel/statekeel/reconciler"
)

// The value of a panic may have any length and any bytes.
func TestPanicTextOfDependentsIsCutAndPrintable(t *testing.T) {
	withPorts(t, func(f *followed) {
		said := "\x1b[2J" + strings.Repeat("x", 1<<20)
		f.follow(func(change statedb.Change[*port]) []statedb.Query[*object] {
			if change.Object.Name == "bad" {
				panic(said)
			}
			return onPort(change)
		})
		f.set(1, "bad")
		synctest.Wait()
		_, message, err := f.health.Now()
		require.Less(f, len(message), reconciler.MaxErrorText)
		require.NotContains(f, message+err.Error(), "\x1b")
		require.ErrorContains(f, err, `panic: \x1b[2Jxxx`)
		require.Less(f, len(err.Error()), reconciler.MaxErrorText+100)
		require.Less(f, len(f.Logged()), 2*reconciler.MaxErrorText)
	})
}
