// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/reconciler"
)

var peer = dialect[reconciler.Status, reconciler.StatusSet, reconciler.Option]{
	pending:   reconciler.StatusPending,
	done:      reconciler.StatusDone,
	kind:      peerKind,
	updatedAt: func(s reconciler.Status) time.Time { return s.UpdatedAt },
	setTime:   func(s *reconciler.Status, at time.Time) { s.UpdatedAt = at },

	newSet:  reconciler.NewStatusSet,
	fromSet: reconciler.StatusSet.Get,
	intoSet: reconciler.StatusSet.Set,

	withName:        reconciler.WithName,
	withRetry:       reconciler.WithRetry,
	withRefreshing:  reconciler.WithRefreshing,
	withRoundLimits: reconciler.WithRoundLimits,

	registerPlain: registerPeer[reconciler.Status],
	registerSet:   registerPeer[reconciler.StatusSet],
}

type peerVariant = variant[reconciler.Option]

func startPeer(v peerVariant) func(Options) (System, error) {
	return func(o Options) (System, error) { return peer.start(o, v) }
}

func peerKind(s reconciler.Status) Kind {
	switch s.Kind {
	case reconciler.StatusKindDone:
		return Done
	case reconciler.StatusKindError:
		return Failed
	default:
		return Waiting
	}
}

func registerPeer[S any](rt runtime, r registration[S, reconciler.Status], options []reconciler.Option) error {
	var batch reconciler.BatchOperations[*object[S]]
	if r.batch {
		batch = peerBatch[S]{r.ops.target}
	}
	_, err := reconciler.Register(
		reconciler.Params{Log: rt.Log, DB: rt.DB, JobGroup: rt.JobGroup, ModuleID: rt.ModuleID},
		r.table, (*object[S]).clone, r.setStatus, r.getStatus, r.ops, batch, options...)
	return err
}

type peerBatch[S any] struct{ target *Target }

func (b peerBatch[S]) UpdateBatch(_ context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object[S]]) {
	b.target.UpdateBatch()
	for i := range batch {
		batch[i].Result = b.target.Update(batch[i].Object.id)
	}
}

func (b peerBatch[S]) DeleteBatch(_ context.Context, _ statedb.ReadTxn, batch []reconciler.BatchEntry[*object[S]]) {
	for i := range batch {
		batch[i].Result = b.target.Delete(batch[i].Object.id)
	}
}
