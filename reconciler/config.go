// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/prune"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Config is what a reconciler is made from: see [New] and [RegisterConfig].
//
// The status functions are arguments, not methods that the object has to have, so that
// an object can have several reconcilers, each with a status of its own. They and Clone are
// called from several goroutines at once.
type Config[Obj comparable] struct {
	// DB holds the table. Required for New; RegisterConfig takes it from Params.
	DB *statedb.DB
	// Table holds the objects. Required.
	Table statedb.RWTable[Obj]

	// Clone returns a copy of an object that can be changed without changing the
	// object; a shallow copy will do if the operations do no more. Required.
	Clone func(Obj) Obj
	// SetStatus sets this reconciler's status on a clone and returns it. Required.
	SetStatus func(Obj, Status) Obj
	// GetStatus returns this reconciler's status of an object. Required.
	GetStatus func(Obj) Status

	// Operations are called one object at a time, unless there are operations for
	// batches, in which case they only prune. Required if there are none.
	Operations Operations[Obj]
	// BatchOperations are called with many objects at a time.
	BatchOperations BatchOperations[Obj]
	// RoundOperations are called once a round, with deletions and updates
	// together. Not to be set with BatchOperations.
	RoundOperations RoundOperations[Obj]
	// Pruner prunes. nil means Operations, or else whichever of the operations for
	// batches has the method.
	Pruner Pruner[Obj]
	// Sweeper lists what the target has, for the reconciler to delete what nobody
	// wants; then nothing else prunes. Not to be set with Pruner.
	Sweeper Sweeper[Obj]

	// Merge keeps what an operation set on its object when another reconciler has written the
	// object meanwhile: it gets a clone of the row as it stands in the table and the object as
	// the operation left it, copies onto the first what the operation sets, and returns it. It
	// leaves status fields alone. nil means that the operation's changes are lost in that case,
	// though not its status.
	Merge func(current, reconciled Obj) Obj

	// SerialBy returns the group of an object, such as the device of a route. Objects of one
	// group are worked on one at a time, in the order in which their turns come, whatever
	// [Settings].Concurrency is; those of the empty group do not wait for each other. While a
	// group is busy, its objects whose turn has come wait in memory. A batch holds at most one
	// object of a group. It is called from the loop, and must return the same group for an object
	// at any time. nil means that there are no groups.
	SerialBy func(obj Obj) string

	// ErrorClass returns the class of an error that an operation returned: log, health and a
	// breaker by class treat errors of one class as one problem. It may be called from several
	// goroutines at once, should be quick, and of what it returns the first 1,024 bytes
	// count. An error of the empty class counts for no breaker by class, and for the log as
	// without this function. nil means that the class is the text of the error without the
	// key of the object and without digits.
	ErrorClass func(err error) string

	// PanicPropagation lets a panic of an operation, of ErrorClass, or of the function of a trigger
	// end the program, for those who would rather have the crash. If it is false, a panic is an
	// error of the object, with the stack in the log.
	PanicPropagation bool

	// ModuleID is what metrics are told. RegisterConfig takes it from Params.
	ModuleID cell.FullModuleID
	// Log is where the reconciler says what it cannot say in a status. nil means
	// nowhere; RegisterConfig takes it from Params.
	Log *slog.Logger
	// Health is told how the reconciler does. nil means nobody; with
	// RegisterConfig the health of its jobs is used.
	Health cell.Health

	// Options change the settings from their defaults.
	Options []Option

	// defaultMetrics are for a reconciler without WithMetrics; may be nil.
	defaultMetrics Metrics
}

// Config returns the configuration that the loop was made with, with defaults in place of what it
// left out. Options are as they were given: [Loop.Settings] returns what they make of the settings.
func (l *Loop[Obj]) Config() Config[Obj] { return l.cfg }

// id says which reconciler it is made for, also if the configuration is wrong.
func (cfg *Config[Obj]) id(opts *options) inspect.ID {
	id := inspect.ID{Module: cfg.ModuleID.String(), Name: opts.name}
	if cfg.Table != nil {
		id.Table = cfg.Table.Name()
	}
	return id
}

// resolve applies the options and the defaults and returns everything that is wrong.
func (cfg *Config[Obj]) resolve() (options, error) {
	opts := defaultOptions()
	for _, opt := range cfg.Options {
		opt(&opts)
	}
	errs := []error{cfg.validate(), opts.validate()}

	if cfg.Pruner == nil && cfg.Sweeper == nil {
		cfg.Pruner = cfg.pruner()
	}
	if cfg.Pruner == nil && cfg.Sweeper == nil {
		if opts.pruneAsked {
			errs = append(errs, fmt.Errorf("Settings.PruneInterval is %s, but Config.Pruner is nil and no operations have a Prune method", opts.PruneInterval))
		}
		opts.PruneInterval = 0
	}
	if opts.budget != (prune.Budget{}) && cfg.Sweeper == nil {
		errs = append(errs, fmt.Errorf("WithSweepBudget: %d objects and fraction %v, but Config.Sweeper is nil", opts.budget.Objects, opts.budget.Fraction))
	}
	if opts.metrics == nil {
		opts.metrics = cfg.defaultMetrics
	}
	if opts.metrics == nil {
		opts.metrics = metrics.NewExpVar()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return opts, errors.Join(errs...)
}

func (cfg *Config[Obj]) pruner() Pruner[Obj] {
	if cfg.Operations != nil {
		return cfg.Operations
	}
	if p, ok := cfg.BatchOperations.(Pruner[Obj]); ok {
		return p
	}
	if p, ok := cfg.RoundOperations.(Pruner[Obj]); ok {
		return p
	}
	return nil
}

func (cfg *Config[Obj]) validate() error {
	var errs []error
	missing := func(isNil bool, field string) {
		if isNil {
			errs = append(errs, fmt.Errorf("%s is nil", "Config."+field))
		}
	}
	missing(cfg.DB == nil, "DB")
	missing(cfg.Table == nil, "Table")
	missing(cfg.Clone == nil, "Clone")
	missing(cfg.SetStatus == nil, "SetStatus")
	missing(cfg.GetStatus == nil, "GetStatus")
	if cfg.Operations == nil && cfg.BatchOperations == nil && cfg.RoundOperations == nil {
		errs = append(errs, errors.New("Config.Operations, BatchOperations and RoundOperations are all nil"))
	}
	if cfg.BatchOperations != nil && cfg.RoundOperations != nil {
		errs = append(errs, fmt.Errorf("Config.BatchOperations (%T) and Config.RoundOperations (%T) are both set", cfg.BatchOperations, cfg.RoundOperations))
	}
	if cfg.Pruner != nil && cfg.Sweeper != nil {
		errs = append(errs, fmt.Errorf("Config.Pruner (%T) and Config.Sweeper (%T) are both set", cfg.Pruner, cfg.Sweeper))
	}
	return errors.Join(errs...)
}

// called returns what logs and errors call a reconciler: its name, or else what [inspect.ID.String]
// returns.
func called(id inspect.ID) string {
	if id.Name != "" {
		return id.Name
	}
	return id.String()
}
