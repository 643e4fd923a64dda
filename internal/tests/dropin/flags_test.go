// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package dropin

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// peerPath is the import path that the programs are written against.
const peerPath = "github.com/cilium/statedb/reconciler"

// targetPath is the import path that replaces peerPath. With peerPath itself the tests compare the peer with
// itself, which checks the driver.
var targetPath = flag.String("dropin.target", "github.com/statekeel/statekeel/reconciler",
	"import path to run the programs and the peer's own tests with")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
