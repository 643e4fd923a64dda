// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
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

// step is a table on the way from a source to a loop, and the input that writes it.
type step struct {
	table  *inputs.Table
	name   string // of the table
	writer string
}

// path is the way from the input first, as of source.Sink.Input, to the table last, through derived tables.
type path struct {
	db          *statedb.DB
	first, last string
}

// steps returns the tables of the path, that of the source first. It finds them from the last to the first: a
// derived table has one input, whose name is that of its table. The error says what is missing, or wrong: a
// derivation may be made later.
func (p path) steps() (steps []step, err error) {
	first, writer, _ := strings.Cut(p.first, "/")
	for at := p.last; at != first; at = steps[len(steps)-1].writer {
		s := step{name: at}
		if s.table, err = inputs.Open(p.db, at); err != nil {
			return nil, err
		}
		// It may be a table that Open has made.
		txn := p.db.ReadTxn()
		switch writers := s.table.Names(txn); {
		case len(writers) == 0:
			return nil, fmt.Errorf("the table %s has no input yet", at)
		case len(writers) > 1:
			return nil, fmt.Errorf("the table %s has several inputs, %q: it is not derived from %s", at, writers, p.first)
		case p.db.GetTable(txn, writers[0]) == nil || len(steps) == maxSteps:
			return nil, fmt.Errorf("the table %s is filled by %q, and not from %s", at, writers[0], p.first)
		default:
			s.writer = writers[0]
		}
		steps = append(steps, s)
	}
	table, err := inputs.Open(p.db, first)
	steps = append(steps, step{table: table, name: first, writer: writer})
	slices.Reverse(steps)
	return steps, err
}

// maxSteps bounds the tables of a path: derivations may go round in a circle.
const maxSteps = 100

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
		r.errs = append(r.errs, fmt.Errorf("%d object(s) of %s are rejected by the table %s", row.Rejected, s.writer, s.name))
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

// next waits until the last table includes what the first one includes of the store. If ctx ends first,
// changed is nil.
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
	var least uint64 = 1
	for i, step := range steps {
		row, changed, has := step.table.Watch(p.db.ReadTxn(), step.writer)
		for ; !has || row.Input < least; row, changed, has = step.table.Watch(p.db.ReadTxn(), step.writer) {
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
		// That of a table without a change is zero.
		least = row.Output
	}
	return found
}

// look returns what the tables of the path reject now, or why there is no path.
func (p path) look() (now rejected, err error) {
	steps, err := p.steps()
	txn := p.db.ReadTxn()
	for _, step := range steps {
		if row, found := step.table.Get(txn, step.writer); found {
			now.add(step, row)
		}
	}
	return now, err
}
