// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"testing"

	"github.com/cilium/statedb"
	"github.com/stretchr/testify/require"
)

// pass is what a pass of the loop tells a gate that is open.
func (g *refreshGate) pass(seen statedb.Revision) {
	if !g.open.Load() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen, g.flying = seen, 0
	g.check()
}

// A refresher whose settings are replaced while it waits is followed by another. A pass that ends
// the wait of the first between the two does not close the gate to the second.
func TestRefreshGateStaysOpenForTheNextRefresher(t *testing.T) {
	var g refreshGate
	g.begin()
	g.wait(0, 5)
	g.begin()
	g.pass(5)
	through := g.wait(5, 9)
	g.pass(9)
	select {
	case <-through:
	default:
		require.Fail(t, "the batch is through, and the refresher is not told")
	}
	require.False(t, g.open.Load(), "the loop pays nothing while no refresher waits")
}
