// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package dropin

import (
	"flag"
	"runtime/debug"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

// peerPath is the import path that the programs are written against.
const peerPath = "github.com/cilium/statedb/reconciler"

// targetPath is the import path that replaces it. Setting it to peerPath tries the driver
// on itself.
var targetPath = flag.String("dropin.target", "github.com/statekeel/statekeel/reconciler",
	"import path to run the programs and the peer's own tests with")

// peerCount is for races that show themselves in one run of many.
var peerCount = flag.Int("dropin.count", 1, "how often to run the peer's own tests")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// buildFlags are the flags of the go command that this test was itself built with and
// that what it builds should share: results are then found in the build cache.
func buildFlags() []string {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return []string{"-race"}
	}
	return nil
}
