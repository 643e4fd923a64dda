// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// New makes a loop, to be run with [reconciler.Loop.Run]. Operations, BatchOperations and
// RoundOperations of the configuration have to be nil. The error names every setting that is
// wrong.
//
// Some options of the loop have other defaults, which the configuration's take the place of:
// what the reconciler notes is merged (Merge is [Reconciler.Merge]), and nothing is
// pruned unless Pruner or Sweeper is set. There is no need for refreshes, since every object is
// polled; but a row that is Done when the loop starts is not polled until the program makes it
// Pending. A Sweeper lists objects that have [FinalizerName], the external name, and what the
// client needs to delete them. What was left on purpose it must not list, which [WithLeaveHook] can
// mark: New itself leaves out what this process has left, and nothing else.
func New[T Managed](cfg reconciler.Config[T], opts ...Option) (*reconciler.Loop[T], error) {
	inner, err := configure(cfg, opts)
	if err != nil {
		return nil, err
	}
	return reconciler.New(inner)
}

// RegisterConfig makes a loop as [New] does and adds its jobs to the hive, as
// [reconciler.RegisterConfig] does. DB, Log and ModuleID of the configuration are taken from
// params.
func RegisterConfig[T Managed](params reconciler.Params, cfg reconciler.Config[T], opts ...Option) (*reconciler.Loop[T], error) {
	cfg.DB, cfg.Log, cfg.ModuleID = params.DB, params.Log, params.ModuleID
	inner, err := configure(cfg, opts)
	if err != nil {
		return nil, err
	}
	return reconciler.RegisterConfig(params, inner)
}

// Register is [RegisterConfig] with arguments, as [reconciler.Register] has them. Options of the
// loop go through [WithLoop].
func Register[T Managed](
	params reconciler.Params,
	table statedb.RWTable[T],
	clone func(T) T,
	setStatus func(T, reconciler.Status) T,
	getStatus func(T) reconciler.Status,
	connecter ExternalConnecter[T],
	opts ...Option,
) (reconciler.Reconciler[T], error) {
	loop, err := RegisterConfig(params, reconciler.Config[T]{
		Table: table, Clone: clone, SetStatus: setStatus, GetStatus: getStatus,
	}, append([]Option{WithExternalConnecter(connecter)}, opts...)...)
	if err != nil {
		return nil, err
	}
	return loop, nil
}

// configure returns the configuration of the loop.
func configure[T Managed](cfg reconciler.Config[T], opts []Option) (reconciler.Config[T], error) {
	var errs []error
	foreign := func(field string, is any) {
		errs = append(errs, fmt.Errorf("%s is %T, must be nil: the operations are those of the managed reconciler", "Config."+field, is))
	}
	if cfg.Operations != nil {
		foreign("Operations", cfg.Operations)
	}
	if cfg.BatchOperations != nil {
		foreign("BatchOperations", cfg.BatchOperations)
	}
	if cfg.RoundOperations != nil {
		foreign("RoundOperations", cfg.RoundOperations)
	}
	r, err := newReconciler(cfg, opts)
	if err = errors.Join(append(errs, err)...); err != nil {
		return cfg, fmt.Errorf("managed: %w", err)
	}
	cfg.Operations = r
	if cfg.Sweeper != nil {
		cfg.Sweeper = &sweeper[T]{cfg.Sweeper, &r.departed}
	}
	if cfg.Merge == nil {
		cfg.Merge = r.Merge
	}
	var defaults []reconciler.Option
	if cfg.Pruner == nil && cfg.Sweeper == nil {
		// In front, so that an option of the program takes its place.
		defaults = append(defaults, reconciler.WithoutPruning())
	}
	cfg.Options = slices.Concat(defaults, cfg.Options, r.opts.loop)
	return cfg, nil
}
