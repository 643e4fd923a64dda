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

// Config is the configuration of a reconciler: see [New] and [RegisterConfig].
//
// The status functions are fields, not methods of the object, so that an object can have several
// reconcilers, each with a status of its own. Clone, SetStatus and GetStatus are called from several
// goroutines at once.
type Config[Obj comparable] struct {
	// DB holds the table. Required for New; RegisterConfig takes it from [Params].
	DB *statedb.DB
	// Table holds the objects. Required. It has to be a [statedb.RWTable] if the rows carry a status;
	// otherwise the reconciler never writes it, and it may belong to another part of the program.
	Table statedb.Table[Obj]

	// Clone, SetStatus and GetStatus choose where outcomes are written. With all three, the rows carry
	// the status of this reconciler. Without any of them, outcomes are written beside the table: every
	// change of a row is wanted, operations get the row itself and must not change it, and
	// [Loop.Status] returns the status. To set one or two of them is an error.

	// Clone returns a copy of an object. Changes of the copy must not change the object: a shallow
	// copy suffices if the operations and SetStatus change nothing that it shares.
	Clone func(Obj) Obj
	// SetStatus sets this reconciler's status on a clone, and returns the clone.
	SetStatus func(Obj, Status) Obj
	// GetStatus returns this reconciler's status of an object.
	GetStatus func(Obj) Status

	// Operations are called with one object at a time. If BatchOperations or RoundOperations is set,
	// they are only used to prune. Required if neither of these is set.
	Operations Operations[Obj]
	// BatchOperations are called with many objects at a time. nil means that Operations or
	// RoundOperations are called.
	BatchOperations BatchOperations[Obj]
	// RoundOperations are called with the deletions and the updates of a round together. It must not
	// be set together with BatchOperations.
	RoundOperations RoundOperations[Obj]
	// Pruner prunes the target. nil means Operations, or if that is nil, the BatchOperations or
	// RoundOperations if they have a Prune method.
	Pruner Pruner[Obj]
	// Sweeper lists what the target has; the reconciler deletes what the table does not have. It
	// replaces pruning, and must not be set together with Pruner. nil means that Pruner prunes.
	Sweeper Sweeper[Obj]

	// Merge is for rows that carry the status. It keeps the changes that an update made to its object
	// when another reconciler has written the row while the operation ran. current is a clone of the
	// row in the table, reconciled is the object as the operation left it. Merge copies the fields
	// that the operation sets from reconciled to current, and returns current. It must not change
	// status fields. nil means that the changes of the operation are lost in that case; its status is
	// still written.
	Merge func(current, reconciled Obj) Obj

	// SerialBy returns the group of an object, such as the device of a route. At most one object of a
	// group is in flight, whatever [Settings].Concurrency is; the others wait in memory, and run in
	// the order in which they began to wait. A batch holds at most one object of a group. Objects of
	// the empty group do not wait for each other.
	//
	// SerialBy is called by the goroutine of the loop, and must always return the same group for an
	// object. nil means no groups.
	SerialBy func(obj Obj) string

	// ErrorClass returns the class of an error that an operation returned. The log, [Loop.Snapshot]
	// and a breaker with [Breaker].ByClass treat errors of one class as one problem. The first
	// [MaxErrorClass] bytes count, for the log and Snapshot the first 120. An error of the empty class
	// counts for no breaker by class; the log treats it as if ErrorClass were nil.
	//
	// ErrorClass may be called from several goroutines at once, and should be quick. nil means that
	// the class is the text of the error without the key of the object and without digits.
	ErrorClass func(err error) string

	// PanicPropagation lets a panic of an operation, of ErrorClass, or of the function of a trigger
	// end the program. If it is false, the default, a panic is an error of the object, and the stack
	// is logged.
	PanicPropagation bool

	// ModuleID is the module that metrics and [Loop.ID] report. RegisterConfig takes it from Params.
	ModuleID cell.FullModuleID
	// Log receives failures of operations and outcomes that cannot be written. nil means no log;
	// RegisterConfig takes it from Params.
	Log *slog.Logger
	// Health receives the health of the reconciler, in the scopes "reconcile" and "refresh", each
	// with "-" and the reconciler's name appended if it has one. nil means that health is not
	// reported. A reconciler made by RegisterConfig reports to the health of its jobs instead.
	Health cell.Health

	// Options change settings from their defaults. A later option overrides an earlier one.
	Options []Option

	// defaultMetrics are used if there is no WithMetrics; may be nil.
	defaultMetrics Metrics
}

// Config returns the configuration that the loop was made with, with defaults for the fields that
// were not set. Options are returned as they were given; [Loop.Settings] returns the resulting
// settings.
func (l *Loop[Obj]) Config() Config[Obj] { return l.cfg }

// id returns the ID of the reconciler. It works for an invalid configuration, too.
func (cfg *Config[Obj]) id(opts *options) inspect.ID {
	id := inspect.ID{Module: cfg.ModuleID.String(), Name: opts.name}
	if cfg.Table != nil {
		id.Table = cfg.Table.Name()
	}
	return id
}

// resolve applies the options and the defaults. The error joins everything that is wrong.
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

// validateStatusFunctions returns an error for each of the status functions that is missing while
// another one is set.
func (cfg *Config[Obj]) validateStatusFunctions() error {
	var missing, set []string
	for _, f := range []struct {
		name  string
		isNil bool
	}{{"Clone", cfg.Clone == nil}, {"SetStatus", cfg.SetStatus == nil}, {"GetStatus", cfg.GetStatus == nil}} {
		if f.isNil {
			missing = append(missing, f.name)
		} else {
			set = append(set, f.name)
		}
	}
	var errs []error
	for _, name := range missing {
		errs = append(errs, fmt.Errorf("%s is nil, but Config.%s is set", "Config."+name, set[0]))
	}
	return errors.Join(errs...)
}

// statusInRows reports whether the rows carry the status.
func (cfg *Config[Obj]) statusInRows() bool {
	return cfg.Clone != nil || cfg.SetStatus != nil || cfg.GetStatus != nil
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
	if cfg.statusInRows() {
		errs = append(errs, cfg.validateStatusFunctions())
		if _, writable := cfg.Table.(statedb.RWTable[Obj]); cfg.Table != nil && !writable {
			errs = append(errs, fmt.Errorf("Config.Table is a %T, must be a statedb.RWTable because Config.SetStatus is set", cfg.Table))
		}
	} else if cfg.Merge != nil {
		errs = append(errs, errors.New("Config.Merge is set, but Config.Clone, SetStatus and GetStatus are not: without a status in its rows the table is never written"))
	}
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

// called returns the name that logs and errors use for a reconciler: its own name, or
// [inspect.ID.String] if it has none.
func called(id inspect.ID) string {
	if id.Name != "" {
		return id.Name
	}
	return id.String()
}
