// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/inputs"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// step is a table on a way from a source to a loop.
type step struct {
	table *inputs.Table
	name  string // of the table
	// writers are its inputs that lead back to the source, and others are its other ones, as of a join.
	writers, others []string
}

// path is the ways from the input first, as of source.Sink.Input, to the table last, through derived tables.
type path struct {
	db          *statedb.DB
	first, last string
}

// steps returns the tables of the path, each after those that it is derived from. It finds them from the last to the
// first: the inputs of a derived table have the names of their tables. The error says what is missing, or wrong: a
// derivation may be made later. A table of a join that has no input is one that the program writes by hand.
func (p path) steps() (steps []step, err error) {
	first, writer, _ := strings.Cut(p.first, "/")
	leads := map[string]bool{} // to the source, of tables that were visited
	var visit func(at string) error
	visit = func(at string) error {
		if _, visited := leads[at]; visited {
			return nil
		}
		leads[at] = at == first
		s := step{name: at}
		var err error
		if s.table, err = inputs.Open(p.db, at); err != nil {
			return err
		}
		txn := p.db.ReadTxn() // with a table that Open has made
		writers := s.table.Names(txn)
		var why error
		switch {
		case at == first:
			s.writers, writers = []string{writer}, nil
		case len(writers) == 0:
			return fmt.Errorf("the table %s has no input yet", at)
		}
		for _, input := range writers {
			if p.db.GetTable(txn, input) == nil {
				return fmt.Errorf("the table %s is filled by %q, and not from %s", at, input, p.first)
			}
			why = cmp.Or(why, visit(input))
			if leads[input] {
				s.writers = append(s.writers, input)
			} else {
				s.others = append(s.others, input)
			}
		}
		if len(s.writers) == 0 {
			return cmp.Or(why, fmt.Errorf("the table %s is not derived from %s", at, p.first))
		}
		leads[at] = true
		steps = append(steps, s)
		return nil
	}
	if err := visit(p.last); err != nil {
		return nil, err
	}
	return steps, nil
}

// included is what the tables of a path include of a store.
type included struct {
	// revision is that of the store, which is replaced when the channel of is closed, and rejected what the
	// tables reject of it.
	revision uint64
	of       <-chan struct{}
	rejected rejected
	// changed has a channel for each table, which is closed when the table includes more, or rejects
	// something else.
	changed *statedb.WatchSet
}

// rejected is the number of objects that the tables of a path reject, and an error for each such table, or row.
type rejected struct {
	n    int
	errs []error
}

func (r *rejected) add(s step, row *inputs.Input) {
	if row.Rejected > 0 {
		r.n += row.Rejected
		r.errs = append(r.errs, fmt.Errorf("%d object(s) of %s are rejected by the table %s", row.Rejected, row.Name, s.name))
	}
}

// addUnset adds rows that the loop leaves alone because their status is zero: no wait waits for them.
func (r *rejected) addUnset(ctx context.Context, loop inspect.Inspector) {
	page := inspect.ObjectPage{Next: "0"}
	// The figure counts such changes since the start. A page reads a limited number of rows.
	for loop.Figures().Unset > 0 && len(page.Objects) == 0 && page.Next != "" && ctx.Err() == nil {
		page, _ = loop.Objects(ctx, inspect.ObjectQuery{Status: "Unset", After: page.Next, Limit: 1000})
		r.n += len(page.Objects)
		for _, o := range page.Objects[:min(len(page.Objects), maxNamed)] {
			r.errs = append(r.errs, fmt.Errorf("%s: %w", o.Key, reconciler.ErrNoStatus))
		}
	}
}

// next waits until the last table includes, through each of its inputs, what the first one includes of the store. If ctx
// ends first, changed is nil.
func (p path) next(ctx context.Context) included {
	steps, err := p.steps()
	for ; err != nil; steps, err = p.steps() {
		select {
		case <-time.After(gap):
		case <-ctx.Done():
			return included{}
		}
	}
	found := included{changed: statedb.NewWatchSet()}
	// The revision of each table from which on it includes the store. That of a table without a change is zero.
	from := map[string]uint64{}
	for i, step := range steps {
		for _, writer := range step.writers {
			least := from[writer]
			if i == 0 {
				least = 1
			}
			row, changed, has := step.table.Watch(p.db.ReadTxn(), writer)
			for ; !has || row.Input < least; row, changed, has = step.table.Watch(p.db.ReadTxn(), writer) {
				select {
				case <-changed:
				case <-ctx.Done():
					return included{}
				}
			}
			if i == 0 {
				found.revision = row.Input
			}
			found.rejected.add(step, row)
			found.changed.Add(changed)
			from[step.name] = max(from[step.name], row.Output)
		}
		for _, other := range step.others {
			row, changed, has := step.table.Watch(p.db.ReadTxn(), other)
			if found.changed.Add(changed); has {
				found.rejected.add(step, row)
			}
		}
	}
	return found
}

// look returns what the tables of the path reject now, or why there is no path.
func (p path) look() (now rejected, err error) {
	steps, err := p.steps()
	txn := p.db.ReadTxn()
	for _, step := range steps {
		for _, writer := range slices.Concat(step.writers, step.others) {
			if row, found := step.table.Get(txn, writer); found {
				now.add(step, row)
			}
		}
	}
	return now, err
}
