// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/reconciler"
)

// life is one life of the program in a run of [Check]: what its reconcilers need to know.
type life struct {
	*check.Process
	x       *check.Injector
	virtual bool
	// hashes are the hashes of the rows that were written, by address. They do not change.
	hashes map[uintptr]uint64
	// lists is true if a reconciler lists what the target has, or prunes it, resyncs if one has a Lister.
	lists, resyncs bool
	// compares is true if every reconciler lists its target with values, and compares them.
	compares bool
	// timeout is that of operations whose configuration has none, listTimeout bounds the wait for the first listing.
	timeout, listTimeout time.Duration
	// main is the table of the subject. started counts the reconcilers by their tables.
	main    string
	started map[string]int
}

// prefix tells the rows of a table from those of the subject's Table.
func (l *life) prefix(table string) string {
	if table == l.main {
		return ""
	}
	return table + ": "
}

// faulty calls the operations of a reconciler, with the faults of a run.
type faulty[Row any] struct {
	*life
	prefix string
	names  *rows.Rows[Row]
	single reconciler.ObjectOperations[Row]
	batch  reconciler.BatchOperations[Row]
	round  reconciler.RoundOperations[Row]
	pruner reconciler.Pruner[Row]
	lister reconciler.Lister[Row]
}

// withFaults returns cfg with operations that have the faults of the run. Names of calls begin with what tells the
// reconcilers of a run apart.
func withFaults[Row any](l *life, cfg reconciler.Config[Row]) reconciler.Config[Row] {
	table := cfg.Table.Name()
	prefix := l.prefix(table)
	if l.started[table]++; l.started[table] > 1 {
		prefix = fmt.Sprintf("%sreconciler %d: ", prefix, l.started[table])
	}
	f := &faulty[Row]{
		life: l, prefix: prefix, names: rows.NewBeside(cfg.DB, cfg.Table),
		single: cfg.Operations, batch: cfg.BatchOperations, round: cfg.RoundOperations, pruner: cfg.Pruner,
		lister: cfg.Lister,
	}
	if f.pruner == nil && f.lister == nil {
		for _, operations := range []any{f.single, f.batch, f.round} {
			if p, ok := operations.(reconciler.Pruner[Row]); ok && f.pruner == nil {
				f.pruner = p
			}
		}
	}
	l.lists = l.lists || f.pruner != nil || f.lister != nil
	l.resyncs = l.resyncs || f.lister != nil
	l.compares = l.compares && cfg.Lister != nil && cfg.Equal != nil
	if f.single != nil {
		cfg.Operations = faultyOperations[Row]{f}
	}
	if f.batch != nil {
		cfg.BatchOperations = faultyBatches[Row]{f}
	}
	if f.round != nil {
		cfg.RoundOperations = faultyRounds[Row]{f}
	}
	if f.pruner != nil {
		cfg.Pruner = faultyPruner[Row]{f}
	}
	if f.lister != nil {
		cfg.Lister = faultyLister[Row]{f}
	}
	cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) {
		s.RefreshLimiter = nil
		s.ListTimeout = l.listTimeout
		if cfg.Lister != nil && cfg.Equal != nil {
			// The kit asks for resyncs. A refresh would be taken for an operation that a resync has called.
			s.RefreshInterval = 0
		}
		if s.Timeout == 0 {
			s.Timeout = l.timeout
		}
		if !l.virtual {
			// A failure that lasts leaves more and more time without a call, in which the program rests.
			s.MinBackoff, s.MaxBackoff = time.Millisecond, 4*time.Second
			if s.BlockedRecheck > 0 {
				s.BlockedRecheck = min(s.BlockedRecheck, time.Second)
			}
			if l.x.ListingLasts() {
				s.ListTimeout = 50 * time.Millisecond
			}
		}
	}))
	return cfg
}

func (f *faulty[Row]) point(class check.Class, operation string, obj Row) check.Point {
	return check.Point{Class: class, Name: f.prefix + operation + " " + f.names.Name(obj),
		Key: f.prefix + check.KeyOf(f.names.Table.Name(), f.names.Key(obj))}
}

// unchanged calls, and reports a row that the call has changed.
func (f *faulty[Row]) unchanged(name string, objs []Row, call func()) {
	call()
	for _, obj := range objs {
		if hash, known := f.hashes[address(obj)]; known && check.Hash(obj) != hash {
			f.x.Report("%s changes the row that it was given", name)
		}
	}
}

// address returns the address of a row; 0 if the row is no pointer.
func address(obj any) uintptr {
	if v := reflect.ValueOf(obj); v.Kind() == reflect.Pointer {
		return v.Pointer()
	}
	return 0
}

type faultyOperations[Row any] struct{ *faulty[Row] }

func (f faultyOperations[Row]) Update(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Row) error {
	at := f.point(check.Operation, "update", obj)
	return f.Do(ctx, at, func(ctx context.Context) (err error) {
		f.unchanged(at.Name, []Row{obj}, func() { err = f.single.Update(ctx, txn, revision, obj) })
		return err
	}, nil)
}

func (f faultyOperations[Row]) Delete(ctx context.Context, txn statedb.ReadTxn, revision statedb.Revision, obj Row) error {
	at := f.point(check.Operation, "delete", obj)
	return f.Do(ctx, at, func(ctx context.Context) (err error) {
		f.unchanged(at.Name, []Row{obj}, func() { err = f.single.Delete(ctx, txn, revision, obj) })
		return err
	}, nil)
}

type faultyPruner[Row any] struct{ *faulty[Row] }

func (f faultyPruner[Row]) Prune(ctx context.Context, txn statedb.ReadTxn, objects iter.Seq2[Row, statedb.Revision]) error {
	return f.Do(ctx, check.Point{Class: check.Listing, Name: f.prefix + "prune"}, func(ctx context.Context) error {
		return f.pruner.Prune(ctx, txn, objects)
	}, nil)
}

type faultyLister[Row any] struct{ *faulty[Row] }

func (f faultyLister[Row]) List(ctx context.Context, txn statedb.ReadTxn, yield func(Row) bool) error {
	list := func(most int) func(context.Context) error {
		return func(ctx context.Context) error {
			n := 0
			return f.lister.List(ctx, txn, func(obj Row) bool {
				n++
				return n <= most && yield(obj)
			})
		}
	}
	return f.Do(ctx, check.Point{Class: check.Resync, Name: f.prefix + "list"}, list(1<<30), list(1))
}

type faultyBatches[Row any] struct{ *faulty[Row] }

func (f faultyBatches[Row]) UpdateBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[Row]) {
	f.entries(ctx, "update", [2][]reconciler.BatchEntry[Row]{1: batch}, func(ctx context.Context, _, updates []reconciler.BatchEntry[Row]) {
		f.batch.UpdateBatch(ctx, txn, updates)
	})
}

func (f faultyBatches[Row]) DeleteBatch(ctx context.Context, txn statedb.ReadTxn, batch []reconciler.BatchEntry[Row]) {
	f.entries(ctx, "delete", [2][]reconciler.BatchEntry[Row]{0: batch}, func(ctx context.Context, deletes, _ []reconciler.BatchEntry[Row]) {
		f.batch.DeleteBatch(ctx, txn, deletes)
	})
}

type faultyRounds[Row any] struct{ *faulty[Row] }

func (f faultyRounds[Row]) ProcessRound(ctx context.Context, txn statedb.ReadTxn, deletes, updates []reconciler.BatchEntry[Row]) {
	f.entries(ctx, "round", [2][]reconciler.BatchEntry[Row]{deletes, updates}, func(ctx context.Context, deletes, updates []reconciler.BatchEntry[Row]) {
		f.round.ProcessRound(ctx, txn, deletes, updates)
	})
}

// entries calls with those entries that have no fault of their own which keeps them out. lists are the deletes and the
// updates. The entries stay in the slices of the loop, in which an operation may sort them; those that are kept out come last.
func (f *faulty[Row]) entries(ctx context.Context, name string, lists [2][]reconciler.BatchEntry[Row], call func(ctx context.Context, deletes, updates []reconciler.BatchEntry[Row])) {
	operations := [2]string{"delete", "update"}
	outcomes := map[string]check.Outcome{} // by key, of which a call holds none twice
	var in, called [2]int                  // the numbers of entries that are not kept out, and of those that were in the call
	for list := range lists {
		var out []reconciler.BatchEntry[Row]
		for _, e := range lists[list] {
			outcome := f.Enter(f.point(check.Entry, operations[list], e.Object))
			if !outcome.Calls() {
				e.Result = outcome.Leave(nil)
				out = append(out, e)
				continue
			}
			outcomes[string(f.names.Key(e.Object))] = outcome
			lists[list][in[list]] = e
			in[list]++
		}
		copy(lists[list][in[list]:], out)
	}
	with := func(deletes, updates int) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			if called = [2]int{deletes, updates}; deletes+updates == 0 {
				return nil
			}
			var objs []Row
			for list, n := range called {
				for _, e := range lists[list][:n] {
					objs = append(objs, e.Object)
				}
			}
			f.unchanged(name, objs, func() { call(ctx, lists[0][:deletes:deletes], lists[1][:updates:updates]) })
			return nil
		}
	}
	defer func() {
		for _, outcome := range outcomes {
			outcome.Leave(nil) // after a panic: the loop sets the results
		}
	}()
	half := (in[0] + in[1] + 1) / 2
	deletes := min(in[0], half)
	at := check.Point{Class: check.Batch, Name: fmt.Sprintf("%s%s batch", f.prefix, name)}
	err := f.Do(ctx, at, with(in[0], in[1]), with(deletes, half-deletes))
	for list, n := range in {
		for i := range lists[list][:n] {
			e := &lists[list][i]
			if err != nil && i >= called[list] {
				e.Result = err
			}
			key := string(f.names.Key(e.Object))
			if outcome, ok := outcomes[key]; ok {
				e.Result = outcome.Leave(e.Result)
				delete(outcomes, key)
			}
		}
	}
}
