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
	// revision is that of the store, rejected what the tables reject of it.
	revision uint64
	rejected rejected
	// changed has a channel for each table, which is closed when the table includes more, or rejects
	// something else.
	changed *statedb.WatchSet
}

// rejected is the number of objects that the tables of a path reject, and a line for each such table.
type rejected struct {
	n     int
	lines []string
}

func (r *rejected) add(s step, row *inputs.Input) {
	if row.Rejected > 0 {
		r.n += row.Rejected
		r.lines = append(r.lines, fmt.Sprintf("%d object(s) of %s are rejected by the table %s", row.Rejected, s.writer, s.name))
	}
}

// next waits until the last table includes what the first one includes of the store. If ctx ends first,
// changed is nil.
func (p path) next(ctx context.Context, db *statedb.DB) included {
	found := included{changed: statedb.NewWatchSet()}
	var least uint64 = 1
	for i, step := range p {
		row, changed := step.await(ctx, db, least)
		if row == nil {
			return included{}
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

// await waits until the table includes the revision least of its input. The result is nil if ctx ends
// first.
func (s step) await(ctx context.Context, db *statedb.DB, least uint64) (*inputs.Input, <-chan struct{}) {
	for {
		row, changed, found := s.table.Watch(db.ReadTxn(), s.writer)
		if found && row.Input >= least {
			return row, changed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// missing returns a line for each table that does not have its input. A derivation may be made later.
func (p path) missing(db *statedb.DB) (lines []string) {
	txn := db.ReadTxn()
	for _, step := range p {
		if _, found := step.table.Get(txn, step.writer); !found {
			lines = append(lines, fmt.Sprintf("the table %s has no input %q", step.name, step.writer))
		}
	}
	return lines
}

// rejected returns what the tables of the path reject now.
func (p path) rejected(db *statedb.DB) (now rejected) {
	txn := db.ReadTxn()
	for _, step := range p {
		if row, found := step.table.Get(txn, step.writer); found {
			now.add(step, row)
		}
	}
	return now
}
