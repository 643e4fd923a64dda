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

// Target is the system that the rows are applied to.
type Target struct {
	// The operations of four reconcilers, which may run at the same time. Those of Addresses and Routes may
	// be called from several goroutines.
	Links     reconciler.Operations[*Link]
	Addresses reconciler.Operations[*Address]
	Routes    reconciler.Operations[*Route]
	Sysctls   reconciler.Operations[*Sysctl]

	// Observe keeps [Surroundings].Links equal to the target's links, until the context ends. It is a job,
	// and returns nil.
	Observe func(ctx context.Context, health cell.Health) error
}

// Surroundings are the inputs of a target besides the objects that it applies.
type Surroundings struct {
	DB     *statedb.DB
	Tables *Tables

	// Links are the links of the target, for operations to wait for.
	Links statedb.RWTable[*observed.Link]

	// Undid receives a link and what a change of it may have undone, as [Again.Undid] does: it does not
	// block.
	Undid func(link string, effect Effect)
}
