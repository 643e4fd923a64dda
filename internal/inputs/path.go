// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package inputs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/statedb"
)

// Path is the ways from the input First, as of source.Sink.Input, to the table Last, through derived tables.
type Path struct {
	DB          *statedb.DB
	First, Last string
}

// step is a table on a way.
type step struct {
	table *Table
	name  string // of the table
	// writers are its inputs that lead back to the source, and others are its other ones, as of a join.
	writers, others []string
}

// steps returns the tables of the path, each after those that it is derived from. It finds them from the last to the
// first: the inputs of a derived table have the names of their tables. The error says what is missing, or wrong: a
// derivation may be made later. A table of a join that has no input is one that the program writes by hand.
func (p Path) steps() (steps []step, err error) {
	first, writer, _ := strings.Cut(p.First, "/")
	leads := map[string]bool{} // to the source, of tables that were visited
	var visit func(at string) error
	visit = func(at string) error {
		if _, visited := leads[at]; visited {
			return nil
		}
		leads[at] = at == first
		s := step{name: at}
		var err error
		if s.table, err = Open(p.DB, at); err != nil {
			return err
		}
		txn := p.DB.ReadTxn() // with a table that Open has made
		writers := s.table.Names(txn)
		var why error
		switch {
		case at == first:
			s.writers, writers = []string{writer}, nil
		case len(writers) == 0:
			return fmt.Errorf("the table %s has no input yet", at)
		}
		for _, input := range writers {
			if p.DB.GetTable(txn, input) == nil {
				return fmt.Errorf("the table %s is filled by %q, and not from %s", at, input, p.First)
			}
			why = cmp.Or(why, visit(input))
			if leads[input] {
				s.writers = append(s.writers, input)
			} else {
				s.others = append(s.others, input)
			}
		}
		if len(s.writers) == 0 {
			return cmp.Or(why, fmt.Errorf("the table %s is not derived from %s", at, p.First))
		}
		leads[at] = true
		steps = append(steps, s)
		return nil
	}
	if err := visit(p.Last); err != nil {
		return nil, err
	}
	return steps, nil
}

// Included is what the tables of a path include of the first input.
type Included struct {
	// Revision is that of the input, Rejected what the tables reject of it.
	Revision uint64
	Rejected Rejected
	// Changed has a channel for each table, which is closed when the table includes more, or rejects
	// something else.
	Changed *statedb.WatchSet
}

// Rejected is the number of objects that the tables of a path reject, and an error for each such table, or row.
type Rejected struct {
	N    int
	Errs []error
}

func (r *Rejected) add(s step, row *Input) {
	if row.Rejected > 0 {
		r.N += row.Rejected
		r.Errs = append(r.Errs, fmt.Errorf("%d object(s) of %s are rejected by the table %s", row.Rejected, row.Name, s.name))
	}
}

// again is the time between two looks for a path that is not there yet.
const again = time.Second

// Next waits until the last table includes, through each of its inputs, what the first one includes now. If ctx
// ends first, Changed is nil.
func (p Path) Next(ctx context.Context) Included {
	steps, err := p.steps()
	for ; err != nil; steps, err = p.steps() {
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return Included{}
		}
	}
	found := Included{Changed: statedb.NewWatchSet()}
	// The revision of each table from which on it includes the input. That of a table without a change is zero.
	from := map[string]uint64{}
	for i, step := range steps {
		for _, writer := range step.writers {
			least := from[writer]
			if i == 0 {
				least = 1
			}
			row, changed, err := step.table.Await(ctx, p.DB, writer, least)
			if err != nil {
				return Included{}
			}
			if i == 0 {
				found.Revision = row.Input
			}
			found.Rejected.add(step, row)
			found.Changed.Add(changed)
			from[step.name] = max(from[step.name], row.Output)
		}
		for _, other := range step.others {
			row, changed, has := step.table.Watch(p.DB.ReadTxn(), other)
			if found.Changed.Add(changed); has {
				found.Rejected.add(step, row)
			}
		}
	}
	return found
}

// Look returns what the tables of the path reject now, or why there is no path.
func (p Path) Look() (now Rejected, err error) {
	steps, err := p.steps()
	txn := p.DB.ReadTxn()
	for _, step := range steps {
		for _, writer := range slices.Concat(step.writers, step.others) {
			if row, found := step.table.Get(txn, writer); found {
				now.add(step, row)
			}
		}
	}
	return now, err
}
