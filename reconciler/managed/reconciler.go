// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/running"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/event"
	"github.com/statekeel/statekeel/reconciler/object"
)

// Reconciler is the operations of a loop of managed resources: see [Configure]. It is for one table.
type Reconciler[T Managed] struct {
	db        *statedb.DB
	table     statedb.RWTable[T]
	clone     func(T) T
	setStatus func(T, reconciler.Status) T
	getStatus func(T) reconciler.Status

	opts         options
	connecter    ExternalConnecter[T]
	disconnecter ExternalDisconnecter
	critical     CriticalAnnotationUpdater[T]
	finalizer    Finalizer[T]
	leaveHook    func(ctx context.Context, obj T) error
	hook         PollIntervalHook[T]
	observed     func(row, observed T) T
	initializers []Initializer[T]
	publishers   []ConnectionPublisher[T]

	// lists: the configuration has a Lister.
	lists bool
	// finalizerName is the name of the finalizer that finalizer sets on a row.
	finalizerName string
	steps         []step[T]
	memory        memory[T]
	// began is when the reconciler was made: the creates of earlier processes were before that.
	began time.Time
}

// NewReconciler returns operations for the rows of a table, for programs that call or wrap them. Other
// programs use [Configure]. A loop with these operations needs [Reconciler.Merge] as Config.Merge, and
// [reconciler.WithoutPruning]. DB, Table, Clone, SetStatus and GetStatus of the configuration are
// required, and Log is used. Without options the outside system does nothing. The error names
// everything that is wrong.
func NewReconciler[T Managed](cfg reconciler.Config[T], opts ...ReconcilerOption) (*Reconciler[T], error) {
	r, err := newReconciler(cfg, opts)
	if err != nil {
		return nil, fmt.Errorf("managed: %w", err)
	}
	return r, nil
}

func newReconciler[T Managed](cfg reconciler.Config[T], opts []ReconcilerOption) (*Reconciler[T], error) {
	o := defaultOptions()
	for _, opt := range opts {
		opt(&o)
	}
	r := &Reconciler[T]{
		db: cfg.DB, table: writable(cfg), clone: cfg.Clone, setStatus: cfg.SetStatus, getStatus: cfg.GetStatus,
		opts: o, lists: cfg.Lister != nil, steps: stepsOf[T](),
		memory: memory[T]{byKey: map[object.Key]*known[T]{}}, began: time.Now(),
	}
	if err := errors.Join(complete(cfg), o.validate(), r.set()); err != nil {
		return nil, err
	}
	if r.opts.recorder == nil {
		r.opts.recorder = event.NewNopRecorder()
	}
	r.opts.log = cmp.Or(r.opts.log, cfg.Log, slog.New(slog.DiscardHandler)).With("table", cfg.Table.Name())
	return r, nil
}

// writable returns the table of a configuration; nil if it cannot be written.
func writable[T Managed](cfg reconciler.Config[T]) statedb.RWTable[T] {
	table, _ := cfg.Table.(statedb.RWTable[T])
	return table
}

// complete returns an error that names the required fields that are nil.
func complete[T Managed](cfg reconciler.Config[T]) error {
	var errs []error
	required := func(field string, isNil bool) {
		if isNil {
			errs = append(errs, fmt.Errorf("%s is nil", "Config."+field))
		}
	}
	required("DB", cfg.DB == nil)
	required("Table", cfg.Table == nil)
	if cfg.Table != nil && writable(cfg) == nil {
		errs = append(errs, fmt.Errorf("Config.Table is a %T, must be a statedb.RWTable: resources have their notes in their rows", cfg.Table))
	}
	required("Clone", cfg.Clone == nil)
	required("SetStatus", cfg.SetStatus == nil)
	required("GetStatus", cfg.GetStatus == nil)
	return errors.Join(errs...)
}

// set applies the options whose type depends on the type of the objects, and their defaults.
func (r *Reconciler[T]) set() error {
	var errs []error
	for _, set := range r.opts.typed {
		errs = append(errs, set(r))
	}
	for n, i := range r.initializers {
		if i == nil {
			errs = append(errs, fmt.Errorf("WithInitializers: initializer %d is nil", n))
		}
	}
	for n, p := range r.publishers {
		if p == nil {
			errs = append(errs, fmt.Errorf("WithConnectionPublishers: publisher %d is nil", n))
		}
	}
	if r.connecter == nil {
		r.connecter = &NopConnecter[T]{}
	}
	r.disconnecter, _ = r.connecter.(ExternalDisconnecter)
	if r.critical == nil {
		r.critical = NewRetryingCriticalAnnotationUpdater(r.db, r.table, r.clone)
	}
	if r.finalizer == nil {
		r.finalizer = NewFinalizer[T](FinalizerName)
	}
	r.finalizerName = FinalizerName
	if named, ok := r.finalizer.(interface{ Name() string }); ok {
		r.finalizerName = named.Name()
	}
	return errors.Join(errs...)
}

// Update runs one pass of the lifecycle. The loop calls it when a row is Pending, Refreshing or due
// again.
func (r *Reconciler[T]) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj T) error {
	p := r.begin(ctx, txn, obj)
	p.row, p.known = r.rowOf(ctx, txn, revision, obj)
	r.memory.set(p.key(), func(k *known[T]) {
		if p.known && k.base != p.row {
			k.base = p.row
		}
		p.was = *k
	})
	if WasDeleted(obj) {
		running.Deletion(ctx)
	}
	// Deferred, since a client may panic: what was set before is written, even if the panic repeats.
	defer p.close()
	return p.run()
}

// rowOf returns the row in the table that an object is a clone of.
func (r *Reconciler[T]) rowOf(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj T) (row T, ok bool) {
	if row, ok = running.Row[T](ctx); ok {
		return row, true
	}
	row, at, found := rowOf(r.table, txn, obj)
	return row, found && at == revision
}

// Delete deletes the external resource of a row that was removed without [Writer.Delete]. It does so if
// the row has the finalizer or a note about a create, or if a pass has seen the row: the removed
// version may be one that the program had put in its place. While the resource exists, Delete returns an
// outcome that asks for another call. If the row is paused, or its create unsure, that waits until a person
// puts the row back; Explain and an event report it. A row that returns under another external name waits
// until the old resource is gone.
//
// Two events report a resource that was left in place because the reconciler cannot tell whether it is still
// wanted: ExternalNameChanged that which a row named before (delete it, or name it again),
// CannotTellIfManaged that of a row that only named it, and was removed before a pass saw it.
func (r *Reconciler[T]) Delete(ctx context.Context, txn statedb.ReadTxn, _ statedb.Revision, obj T) error {
	key := object.KeyOf(obj)
	before := r.memory.get(key)
	var kept map[string]string
	if before.record != nil && notesIn(before.record.annotations) {
		kept = before.record.annotations
	}
	if before.dropped == obj || kept == nil && before.hasLeft(obj) {
		r.memory.forget(key)
		return nil
	}
	p := r.begin(ctx, txn, r.clone(obj))
	p.was, p.forced, p.listed = before, true, before.record == nil && !createNoted(obj)
	var none T
	if before.removed != none {
		// The row is gone, so that its conditions are remembered. They tell what is not news.
		p.obj.SetConditions(before.removed.meta().Conditions...)
	}
	for _, step := range []step[T]{(*pass[T]).finishRemoved, (*pass[T]).finishListed} {
		if over, err := step(p); over {
			return err
		}
	}
	is, was := GetExternalName(obj), kept[AnnotationExternalName]
	ours := hasFinalizer(obj, r.finalizerName) || createNoted(obj) || kept != nil && (is == "" || is == was)
	if !ours && !p.leavesNamed() {
		if is != "" {
			p.warn(reasonCannotTellIfManaged, errNeverSeen)
		}
		if kept == nil {
			r.memory.forget(key)
			return nil
		}
		// The process remembers another resource, that of the row before.
		p.obj.RemoveAnnotation(AnnotationExternalName)
	}
	if !WasDeleted(p.obj) {
		p.obj.meta().DeletionTime = time.Now()
	}
	if err := p.run(); err != nil {
		r.memory.set(key, func(k *known[T]) { k.removed, k.listed = p.obj, p.listed })
		return err
	}
	r.memory.forget(key)
	return nil
}
