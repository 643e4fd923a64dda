// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"context"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/observed"
	"github.com/statekeel/statekeel/reconciler"
)

// Target is what makes the rows come true.
type Target struct {
	// The operations of four reconcilers, which may run at the same time. Those of
	// Addresses and Routes may be called from several goroutines.
	Links     reconciler.Operations[*Link]
	Addresses reconciler.Operations[*Address]
	Routes    reconciler.Operations[*Route]
	Sysctls   reconciler.Operations[*Sysctl]

	// Observe keeps [Surroundings].Links as the target's links are, until the context
	// ends. It is a job, and returns nil.
	Observe func(ctx context.Context, health cell.Health) error
}

// Surroundings are what a target works with besides what it changes.
type Surroundings struct {
	DB     *statedb.DB
	Tables *Tables

	// Links are the links that the target has, for operations to wait for.
	Links statedb.RWTable[*observed.Link]

	// Undid is to be called with what a change to a link may have taken along, as
	// [Again.Undid]: it does not block.
	Undid func(link string, effect Effect)
}
