// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

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

func newStep(db *statedb.DB, text string) (step, error) {
	table, writer, ok := strings.Cut(text, "/")
	switch {
	case !ok || table == "" || writer == "":
		return step{}, errors.New("must be TABLE/INPUT")
	case db == nil:
		return step{}, nil
	case db.GetTable(db.ReadTxn(), table) == nil:
		return step{}, fmt.Errorf("the database has no table %q", table)
	}
	in, err := inputs.Open(db, table)
	return step{table: in, name: table, writer: writer}, err
}

type path []step

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
func (p path) next(ctx context.Context, db *statedb.DB) included {
	found := included{changed: statedb.NewWatchSet()}
	var least uint64 = 1
	for i, step := range p {
		row, changed, has := step.table.Watch(db.ReadTxn(), step.writer)
		for ; !has || row.Input < least; row, changed, has = step.table.Watch(db.ReadTxn(), step.writer) {
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

// look returns what the tables of the path reject now. The error is that a table does not have its input: a
// derivation may be made later.
func (p path) look(db *statedb.DB) (now rejected, err error) {
	txn := db.ReadTxn()
	for _, step := range p {
		if row, found := step.table.Get(txn, step.writer); found {
			now.add(step, row)
		} else {
			err = fmt.Errorf("the table %s has no input %q", step.name, step.writer)
		}
	}
	return now, err
}
