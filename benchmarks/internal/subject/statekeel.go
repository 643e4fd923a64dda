// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// This file is peer.go with another import path, which is all that a program changes to migrate. Features
// that the peer lacks are in variants.go.
var statekeel = dialect[reconciler.Status, reconciler.StatusSet, reconciler.Option]{
	pending:   reconciler.StatusPending,
	done:      reconciler.StatusDone,
	kind:      statekeelKind,
	updatedAt: func(s reconciler.Status) time.Time { return s.UpdatedAt },
	setTime:   func(s *reconciler.Status, at time.Time) { s.UpdatedAt = at },

	newSet:  reconciler.NewStatusSet,
	fromSet: reconciler.StatusSet.Get,
	intoSet: reconciler.StatusSet.Set,

	withName:        reconciler.WithName,
	withRetry:       reconciler.WithRetry,
	withRefreshing:  reconciler.WithRefreshing,
	withRoundLimits: reconciler.WithRoundLimits,

	registerPlain: registerStatekeel[reconciler.Status],
	registerSet:   registerStatekeel[reconciler.StatusSet],
}

func statekeelKind(s reconciler.Status) Kind {
	switch s.Kind {
	case reconciler.StatusKindDone:
		return Done
	case reconciler.StatusKindError:
		return Failed
	case reconciler.StatusKindBlocked:
		return Blocked
	default:
		return Waiting
	}
}

func registerStatekeel[S any](rt runtime, r registration[S, reconciler.Status], options []reconciler.Option) error {
	var batch reconciler.BatchOperations[*object[S]]
	if r.batch {
		batch = statekeelBatch[S]{r.ops.target}
	}
	if r.listed != nil {
		loop, err := reconciler.RegisterConfig(rt.params(), withListing(reconciler.Config[*object[S]]{
			Table: r.table, Clone: (*object[S]).clone, SetStatus: r.setStatus, GetStatus: r.getStatus,
			Operations: r.ops, BatchOperations: batch, Options: options,
		}, r.listed))
		noteLoop(r.listed, loop)
		return err
	}
	_, err := reconciler.Register(
		rt.params(), r.table, (*object[S]).clone, r.setStatus, r.getStatus, r.ops, batch, options...)
	return err
}

type statekeelBatch[S any] struct{ target *Target }

func (b statekeelBatch[S]) UpdateBatch(_ context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object[S]]) {
	b.target.UpdateBatch()
	for i := range batch {
		batch[i].Result = b.target.Update(batch[i].Object.id)
	}
}

func (b statekeelBatch[S]) DeleteBatch(_ context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object[S]]) {
	for i := range batch {
		batch[i].Result = b.target.Delete(batch[i].Object.id)
	}
}
