// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import "github.com/cilium/statedb/reconciler"

var peer = dialect[reconciler.Status, reconciler.StatusSet, reconciler.Option]{
	pending: reconciler.StatusPending,
	kind:    peerKind,

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

// Peer starts statedb/reconciler.
func Peer(o Options) (System, error) { return peer.start(o) }

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

func registerPeer[S any](rt Runtime, r registration[S, reconciler.Status], options []reconciler.Option) error {
	_, err := reconciler.Register(
		reconciler.Params{Log: rt.Log, DB: rt.DB, JobGroup: rt.JobGroup, ModuleID: rt.ModuleID},
		r.table, (*object[S]).clone, r.setStatus, r.getStatus, r.ops, nil, options...)
	return err
}
