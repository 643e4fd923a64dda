// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cilium/hive/cell"
	"github.com/cilium/statedb"
	"golang.org/x/time/rate"

	"github.com/statekeel/statekeel/internal/optional"
	"github.com/statekeel/statekeel/internal/resync"
	"github.com/statekeel/statekeel/metrics"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Config is the configuration of a reconciler: see [New] and [RegisterConfig].
//
// The status functions are fields, not methods of the object, so that an object can have several
// reconcilers, each with a status of its own. Clone, SetStatus and GetStatus are called from several
// goroutines at once.
type Config[Obj any] struct {
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
	Operations ObjectOperations[Obj]
	// BatchOperations are called with many objects at a time. nil means that Operations or
	// RoundOperations are called.
	BatchOperations BatchOperations[Obj]
	// RoundOperations are called with the deletions and the updates of a round together. It must not
	// be set together with BatchOperations.
	RoundOperations RoundOperations[Obj]
	// Pruner prunes the target. nil means Operations, or if that is nil, the BatchOperations or
	// RoundOperations if they have a Prune method.
	Pruner Pruner[Obj]

	// Lister lists what the target has: the reconciler compares that with the table. It replaces pruning, and must not
	// be set together with Pruner. nil means that nothing is compared. It may also be a [Getter], which needs Equal.
	Lister Lister[Obj]
	// OrphansOnly is for a target that lists keys only, or whose rows must not be repaired: the reconciler deletes what
	// no row wants, and compares nothing else. It needs a Lister, and must not be set together with Equal.
	OrphansOnly bool
	// Equal reports whether an object of the target is as the row wants it: then no operation is called. found is an
	// object that Lister has listed. Compare everything that Update writes, and nothing else.
	//
	// With Equal the reconciler adopts what an earlier process has left: no operation is called before Lister has
	// listed the target once, and a row whose object is there and equal is Done at once. Such an object is attempted
	// and applied for waits, and its operation in the journal has the cause "adopted". An Update that would return
	// [Requeue], or delete the object, is not called for it, either: let Equal be false if it has to be.
	//
	// Equal is called from several goroutines at once, and must change neither object. If it panics while the
	// reconciler adopts, nothing more is adopted; in a resync the listing fails. nil means that all objects with
	// the same key are equal, and that nothing is adopted.
	Equal func(wanted, found Obj) bool
	// Diff returns the difference between two objects that are not equal, for people: see [inspect.Difference]. It is
	// called for a few objects of a resync. At most 1 KiB of the text is kept. nil means no texts. It needs Equal. A panic
	// means no text.
	Diff func(wanted, found Obj) string

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

	// PanicPropagation lets a panic of an operation, or of the function of a trigger, end the program. If it is false, the
	// default, a panic is an error of the object, and the stack is logged.
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
}

// setup is a complete configuration: every field has its value or its default, and is checked. Nothing
// changes it.
type setup[Obj any] struct {
	cfg  Config[Obj]
	opts options
	id   inspect.ID
	log  *slog.Logger
}

// options are what the options of a Config set. They hold the start values of the settings.
type options struct {
	settings Settings

	name     string
	metrics  Metrics
	hook     OperationHook
	registry *inspect.Registry
	budget   resync.Budget
}

// newSetup returns the setup that a configuration describes. fallback are the metrics if no option has
// some; nil means unpublished ones. The error joins everything that is wrong.
func newSetup[Obj any](cfg Config[Obj], fallback Metrics) (setup[Obj], error) {
	if cfg.Pruner == nil && cfg.Lister == nil {
		cfg.Pruner = cfg.pruner()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	opts := options{
		settings: defaultSettings(cfg.Pruner != nil, cfg.OrphansOnly),
	}
	for _, option := range cfg.Options {
		option(&opts)
	}
	if opts.metrics == nil {
		opts.metrics = fallback
	}
	if opts.metrics == nil {
		opts.metrics = metrics.NewExpVar()
	}
	id := inspect.ID{Module: cfg.ModuleID.String(), Name: opts.name}
	if cfg.Table != nil {
		id.Table = cfg.Table.Name()
	}
	if err := errors.Join(cfg.check(), opts.settings.check(cfg.Pruner != nil, cfg.Lister != nil), opts.check(cfg.Lister != nil)); err != nil {
		return setup[Obj]{}, fmt.Errorf("reconciler %q: %w", called(id), err)
	}
	return setup[Obj]{cfg: cfg, opts: opts, id: id, log: cfg.Log.With("reconciler", called(id))}, nil
}

// called returns the name that logs and errors use for a reconciler: its own name, or
// [inspect.ID.String] if it has none.
func called(id inspect.ID) string {
	if id.Name != "" {
		return id.Name
	}
	return id.String()
}

// pruner returns the operations that prune; nil if none do.
func (cfg *Config[Obj]) pruner() Pruner[Obj] {
	for _, operations := range []any{cfg.Operations, cfg.BatchOperations, cfg.RoundOperations} {
		if p, ok := operations.(Pruner[Obj]); ok {
			return p
		}
	}
	return nil
}

// statusInRows reports whether the rows carry the status.
func (cfg *Config[Obj]) statusInRows() bool {
	return cfg.Clone != nil || cfg.SetStatus != nil || cfg.GetStatus != nil
}

// faults are the errors of a configuration. Each names a field or an option, and its value.
type faults []error

// add adds an error if something is wrong.
func (f *faults) add(wrong bool, format string, args ...any) {
	if wrong {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// check returns everything that is wrong with the fields, or nil.
func (cfg *Config[Obj]) check() error {
	var f faults
	f.add(cfg.DB == nil, "Config.DB is nil")
	f.add(cfg.Table == nil, "Config.Table is nil")
	_, writable := cfg.Table.(statedb.RWTable[Obj])
	if cfg.statusInRows() {
		f.add(cfg.Clone == nil, "Config.Clone is nil, but SetStatus or GetStatus is set")
		f.add(cfg.SetStatus == nil, "Config.SetStatus is nil, but Clone or GetStatus is set")
		f.add(cfg.GetStatus == nil, "Config.GetStatus is nil, but Clone or SetStatus is set")
		f.add(cfg.Table != nil && !writable, "Config.Table is a %T, must be a statedb.RWTable because Config.SetStatus is set", cfg.Table)
	} else {
		f.add(cfg.Merge != nil, "Config.Merge is set, but Config.Clone, SetStatus and GetStatus are not: without a status in its rows the table is never written")
	}
	f.add(cfg.Operations == nil && cfg.BatchOperations == nil && cfg.RoundOperations == nil,
		"Config.Operations, BatchOperations and RoundOperations are all nil")
	for _, operations := range []any{cfg.Operations, cfg.BatchOperations, cfg.RoundOperations} {
		if err := optional.Check[Pruner[Obj]](operations, "Prune"); err != nil {
			f = append(f, err)
		}
	}
	f.add(cfg.BatchOperations != nil && cfg.RoundOperations != nil,
		"Config.BatchOperations (%T) and Config.RoundOperations (%T) are both set", cfg.BatchOperations, cfg.RoundOperations)
	f.add(cfg.Pruner != nil && cfg.Lister != nil, "Config.Pruner (%T) and Config.Lister (%T) are both set", cfg.Pruner, cfg.Lister)
	f.add(cfg.OrphansOnly && cfg.Lister == nil, "Config.OrphansOnly is set, but Config.Lister is nil")
	f.add(cfg.OrphansOnly && cfg.Equal != nil, "Config.OrphansOnly and Config.Equal are both set")
	f.add(cfg.Equal != nil && cfg.Lister == nil, "Config.Equal is set, but Config.Lister is nil")
	f.add(cfg.Diff != nil && cfg.Equal == nil, "Config.Diff is set, but Config.Equal is nil")
	_, gets := cfg.Lister.(Getter[Obj])
	f.add(gets && cfg.Equal == nil && !cfg.OrphansOnly, "Config.Equal is nil, but Config.Lister (%T) is a Getter, which needs it", cfg.Lister)
	return errors.Join(f...)
}

// maxConcurrency bounds the operations in flight, because each uses a goroutine.
const maxConcurrency = 10_000

// check returns everything that is wrong with the settings, or nil. prunes: something prunes; lists: there is a
// Lister.
func (s *Settings) check(prunes, lists bool) error {
	var f faults
	f.add(s.RoundSize < 1, "Settings.RoundSize is %d, must be at least 1", s.RoundSize)
	f.add(s.MinBackoff <= 0, "Settings.MinBackoff is %s, must be positive", s.MinBackoff)
	f.add(s.MaxBackoff <= 0, "Settings.MaxBackoff is %s, must be positive", s.MaxBackoff)
	f.add(s.MinBackoff > s.MaxBackoff, "Settings.MinBackoff is %s, above MaxBackoff, which is %s", s.MinBackoff, s.MaxBackoff)
	f.add(!(s.Jitter >= 0 && s.Jitter <= 1), "Settings.Jitter is %v, must be between 0 and 1", s.Jitter)
	f.add(s.Concurrency < 1 || s.Concurrency > maxConcurrency, "Settings.Concurrency is %d, must be between 1 and %d", s.Concurrency, maxConcurrency)
	f.add(s.MaxRetries < 0, "Settings.MaxRetries is %d, must not be negative", s.MaxRetries)
	f.add(s.BreakerFailures < 0, "Settings.BreakerFailures is %d, must not be negative", s.BreakerFailures)
	notNegative := func(d time.Duration, field string) {
		f.add(d < 0, "Settings.%s is %s, must not be negative", field, d)
	}
	notNegative(s.Timeout, "Timeout")
	notNegative(s.BlockedRecheck, "BlockedRecheck")
	notNegative(s.RefreshInterval, "RefreshInterval")
	notNegative(s.PruneInterval, "PruneInterval")
	notNegative(s.ResyncInterval, "ResyncInterval")
	notNegative(s.ListTimeout, "ListTimeout")
	f.add(s.PruneInterval > 0 && lists, "Settings.PruneInterval is %s, but Config.Lister is set: set ResyncInterval", s.PruneInterval)
	f.add(s.PruneInterval > 0 && !prunes && !lists, "Settings.PruneInterval is %s, but Config.Pruner is nil and no operations have a Prune method", s.PruneInterval)
	f.add(s.ResyncInterval > 0 && !lists, "Settings.ResyncInterval is %s, but Config.Lister is nil", s.ResyncInterval)
	allows := func(l *rate.Limiter, field, what string) {
		if l != nil && l.Limit() != rate.Inf {
			f.add(l.Burst() < 1, "Settings.%s has rate %v and burst %d, which never allows %s", field, l.Limit(), l.Burst(), what)
		}
	}
	allows(s.RoundLimiter, "RoundLimiter", "a round")
	allows(s.OperationLimiter, "OperationLimiter", "an operation")
	allows(s.RefreshLimiter, "RefreshLimiter", "a refresh")
	return errors.Join(f...)
}

// check returns everything that is wrong with the options besides the settings, or nil. lists: there is a Lister.
func (o *options) check(lists bool) error {
	var f faults
	b := o.budget
	f.add(b.Objects < 0 || !(b.Fraction >= 0 && b.Fraction <= 1),
		"WithOrphanBudget: %d objects and fraction %v, must not be negative, and the fraction at most 1", b.Objects, b.Fraction)
	f.add(b != resync.Budget{} && !lists, "WithOrphanBudget: %d objects and fraction %v, but Config.Lister is nil", b.Objects, b.Fraction)
	return errors.Join(f...)
}
