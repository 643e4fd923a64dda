// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import "github.com/statekeel/statekeel/reconciler"

// This dialect is that of peer.go with another import path, which is all that a program changes to migrate.
var statekeel = dialect[reconciler.Status, reconciler.StatusSet, reconciler.Option]{
	pending: reconciler.StatusPending,
	kind:    statekeelKind,

	newSet:  reconciler.NewStatusSet,
	fromSet: reconciler.StatusSet.Get,
	intoSet: reconciler.StatusSet.Set,

	withName:        reconciler.WithName,
	withRetry:       reconciler.WithRetry,
	withRefreshing:  reconciler.WithRefreshing,
	withRoundLimits: reconciler.WithRoundLimits,
	withMore:        statekeelOptions,

	registerPlain: registerStatekeel[reconciler.Status],
	registerSet:   registerStatekeel[reconciler.StatusSet],
}

// Statekeel starts Statekeel with its outcomes in the rows.
func Statekeel(o Options) (System, error) { return statekeel.start(o) }

// statekeelOptions returns the options that the peer does not have.
func statekeelOptions(o Options) []reconciler.Option {
	return []reconciler.Option{reconciler.WithSettings(func(s *reconciler.Settings) {
		if o.Workers > 0 {
			s.Concurrency = o.Workers
		}
		if o.BreakerFailures > 0 {
			s.BreakerFailures = o.BreakerFailures
		}
	})}
}

func statekeelKind(s reconciler.Status) Kind {
	switch s.Kind {
	case reconciler.StatusKindDone:
		return Done
	case reconciler.StatusKindError:
		return Failed
	default:
		return Waiting
	}
}

func registerStatekeel[S any](rt Runtime, r registration[S, reconciler.Status], options []reconciler.Option) error {
	if r.listed != nil {
		_, err := reconciler.RegisterConfig(rt.Params(), withListing(reconciler.Config[*object[S]]{
			Table: r.table, Clone: (*object[S]).clone, SetStatus: r.setStatus, GetStatus: r.getStatus,
			Operations: r.ops, Options: options,
		}, r.listed))
		return err
	}
	_, err := reconciler.Register(
		rt.Params(), r.table, (*object[S]).clone, r.setStatus, r.getStatus, r.ops, nil, options...)
	return err
}
