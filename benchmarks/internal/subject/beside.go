// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// none is the status field of rows that carry no status.
type none struct{}

// bareRow is a row without a status.
type bareRow = *object[none]

// teller tells the kind of rows that carry no status, according to one reconciler.
type teller interface {
	// tell returns the kind of the row that txn holds under the key of row; false if it holds none.
	tell(txn statedb.ReadTxn, row bareRow) (kind Kind, found bool)
	// watch is tell with the channels of which one closes when that has changed.
	watch(txn statedb.ReadTxn, row bareRow) (kind Kind, found bool, changed []<-chan struct{})
}

// besideWorld is the System for rows that carry no status.
type besideWorld struct {
	*world[none]
	tellers []teller
	// shared: the rows have the kinds of rows that several reconcilers share.
	shared bool
}

// newTeller adds a reconciler of the table of w to a hive.
type newTeller func(rt Runtime, w *world[none], target *Target, name string) (teller, error)

// startBesideWorld starts reconcilers of rows without a status.
func startBesideWorld(o Options, register newTeller) (System, error) {
	w := &besideWorld{world: objects(func() none { return none{} }, nil), shared: o.Reconcilers > 0}
	w.writeWork = o.WriteWork
	for range max(1, o.Reconcilers) {
		w.targets = append(w.targets, &Target{})
	}
	_, err := w.start(func(rt Runtime, _ *world[none]) error {
		for i, target := range w.targets {
			name := ""
			if w.shared {
				name = fmt.Sprintf("r%d", i)
			}
			t, err := register(rt, w.world, target, name)
			if err != nil {
				return err
			}
			w.tellers = append(w.tellers, t)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// StatekeelBeside starts Statekeel with the ledger beside the table.
func StatekeelBeside(o Options) (System, error) {
	return startBesideWorld(o, func(rt Runtime, w *world[none], target *Target, name string) (teller, error) {
		cfg := reconciler.Config[bareRow]{
			Table: w.table, Operations: operations[none]{target}, Options: statekeel.options(o),
		}
		if name != "" {
			cfg.Options = append(cfg.Options, reconciler.WithName(name))
		}
		loop, err := reconciler.RegisterConfig(rt.Params(), withListing(cfg, o.Listed))
		return loopTeller{loop}, err
	})
}

// loopTeller is the teller of a loop with the ledger beside the table.
type loopTeller struct{ loop *reconciler.Loop[bareRow] }

func (t loopTeller) tell(txn statedb.ReadTxn, row bareRow) (Kind, bool) {
	status, found := t.loop.Status(txn, row)
	return statekeelKind(status), found
}

func (t loopTeller) watch(txn statedb.ReadTxn, row bareRow) (Kind, bool, []<-chan struct{}) {
	status, found, changed := t.loop.StatusWatch(txn, row)
	return statekeelKind(status), found, changed
}

// tell returns the kind of a row according to all reconcilers.
func (w *besideWorld) tell(txn statedb.ReadTxn, row bareRow) Kind {
	kind, _ := w.tellers[0].tell(txn, row)
	if !w.shared {
		return kind
	}
	kind = together(Done, kind)
	for _, t := range w.tellers[1:] {
		another, _ := t.tell(txn, row)
		kind = together(kind, another)
	}
	return kind
}

// watch is tell with the channels of the first reconciler for which the row is of another kind than wanted.
func (w *besideWorld) watch(txn statedb.ReadTxn, row bareRow, wanted Kind) (kind Kind, found bool, changed []<-chan struct{}) {
	if !w.shared {
		return w.tellers[0].watch(txn, row)
	}
	kind = Done
	for _, t := range w.tellers {
		one, found, watch := t.watch(txn, row)
		if !found {
			return Waiting, false, watch
		}
		kind = together(kind, one)
		if changed == nil && one != wanted {
			changed = watch
		}
	}
	return kind, true, changed
}

// Await waits for the reconcilers one after the other, so a row that several of them share can be waited
// for only until it is Done.
func (w *besideWorld) Await(ctx context.Context, id uint64, kind Kind) error {
	row := &object[none]{id: id}
	for {
		got, found, changed := w.watch(w.DB.ReadTxn(), row, kind)
		if found && got == kind {
			return nil
		}
		if !first(ctx, changed) {
			state := "not in the table"
			if found {
				state = got.String()
			}
			return fmt.Errorf("row %d is %s, waited for %s: %w", id, state, kind, context.Cause(ctx))
		}
	}
}

// first waits until one of at most three channels closes; false if ctx ended before.
func first(ctx context.Context, channels []<-chan struct{}) bool {
	var three [3]<-chan struct{} // nil never closes
	copy(three[:], channels)
	select {
	case <-three[0]:
	case <-three[1]:
	case <-three[2]:
	case <-ctx.Done():
		return false
	}
	return true
}

func (w *besideWorld) AwaitAll(ctx context.Context, kind Kind) (waited uint64, err error) {
	txn := w.DB.ReadTxn()
	for row := range w.table.All(txn) {
		if w.tell(txn, row) == kind {
			continue
		}
		waited++
		// The snapshot may be outdated by now: Await reads a new one.
		if err := w.Await(ctx, row.id, kind); err != nil {
			return waited, err
		}
	}
	return waited, nil
}

func (w *besideWorld) Count() map[Kind]uint64 {
	counts := map[Kind]uint64{}
	txn := w.DB.ReadTxn()
	for row := range w.table.All(txn) {
		counts[w.tell(txn, row)]++
	}
	return counts
}
