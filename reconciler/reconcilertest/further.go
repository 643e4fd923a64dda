// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconcilertest

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/check"
	"github.com/statekeel/statekeel/internal/rows"
)

// Further is a further table of a [Subject]: [Rows].
type Further interface {
	// begin returns the table for one run, with rows of its own.
	begin(seed uint64) statedTable
	// missing returns the names of the fields that are required and nil.
	missing() []string
}

// Rows are a further table, whose rows belong to the states of a [Subject].
type Rows[Row any] struct {
	// Table makes the table, as [Subject].Table does. Required.
	Table func(db *statedb.DB) (statedb.RWTable[Row], error)
	// States returns the rows of the table in each state, as [Subject].States does for its table. There have to be as many
	// states as there, and r gives the same numbers as there. Required.
	States func(r *rand.Rand) [][]Row
}

// TableOf returns the table of Subject.Further whose rows have the type Row, for Subject.Start. The test fails if it has
// none or several: then the method GetTable of e.DB finds one by its name.
func TableOf[Row, Obj any](e *Env[Obj]) statedb.RWTable[Row] {
	e.Helper()
	var found []statedb.RWTable[Row]
	for _, table := range e.further {
		if table, is := table.(statedb.RWTable[Row]); is {
			found = append(found, table)
		}
	}
	if len(found) != 1 {
		e.Fatalf("Subject.Further has %d tables with rows of type %s, where one is needed", len(found), reflect.TypeFor[Row]())
	}
	return found[0]
}

func (r Rows[Row]) missing() (names []string) {
	if r.Table == nil {
		names = append(names, "Table")
	}
	if r.States == nil {
		names = append(names, "States")
	}
	return names
}

func (r Rows[Row]) begin(seed uint64) statedTable {
	s := &stated[Row]{Rows: r, states: r.States(rand.New(rand.NewPCG(seed, 0)))}
	for _, row := range slices.Concat(s.states...) {
		s.hashes = append(s.hashes, check.Hash(row))
	}
	return s
}

// statedTable is a [stated] table with rows of any type.
type statedTable interface {
	// open makes the table in the database of a life, and registers an initialiser, which initialise ends.
	open(db *statedb.DB) error
	meta() statedb.TableMeta
	initialise(txn statedb.WriteTxn)
	// changes returns the changes that bring the table to a state.
	changes(txn statedb.WriteTxn, state int) (deletes, inserts []change, err error)

	// count is the number of states. describe returns the rows of one in one line.
	count() int
	describe(state int) string
	// all returns the rows of the states, with the hashes that they had when they were made.
	all() iter.Seq2[any, uint64]
	// insertAndDelete inserts each row and deletes it again.
	insertAndDelete(txn statedb.WriteTxn)
}

// change is a change of the rows of a table.
type change = func(txn statedb.WriteTxn)

// stated is a table whose rows are states.
type stated[Row any] struct {
	Rows[Row]
	states [][]Row
	hashes []uint64 // of all rows

	// Those of the life of the program: written has the rows as they were written, by key.
	table       statedb.RWTable[Row]
	initialised change
	written     map[string]Row
}

func (s *stated[Row]) open(db *statedb.DB) (err error) {
	s.written = map[string]Row{}
	if s.table, err = s.Table(db); err != nil {
		return err
	}
	txn := db.WriteTxn(s.table)
	s.initialised = s.table.RegisterInitializer(txn, "states")
	txn.Commit()
	return nil
}

func (s *stated[Row]) meta() statedb.TableMeta { return s.table }

func (s *stated[Row]) initialise(txn statedb.WriteTxn) { s.initialised(txn) }

func (s *stated[Row]) changes(txn statedb.WriteTxn, state int) (deletes, inserts []change, err error) {
	type keyed struct {
		key string
		row Row
	}
	var wanted []keyed
	index := s.table.PrimaryIndexer()
	if state != check.Empty {
		for _, row := range s.states[state] {
			key, err := rows.KeyOf(index, row)
			if err != nil {
				return nil, nil, fmt.Errorf("a row of state %d of table %s: %w", state, s.table.Name(), err)
			}
			wanted = append(wanted, keyed{string(key), row})
		}
	}
	slices.SortStableFunc(wanted, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	for row := range s.table.All(txn) {
		key, err := rows.KeyOf(index, row)
		if err != nil || !slices.ContainsFunc(wanted, func(k keyed) bool { return k.key == string(key) }) {
			deletes = append(deletes, func(txn statedb.WriteTxn) { _, _, _ = s.table.Delete(txn, row) })
			delete(s.written, string(key))
		}
	}
	for _, k := range wanted {
		if had, ok := s.written[k.key]; !ok || !reflect.DeepEqual(had, k.row) {
			inserts = append(inserts, func(txn statedb.WriteTxn) { _, _, _ = s.table.Insert(txn, k.row) })
			s.written[k.key] = k.row
		}
	}
	return deletes, inserts, nil
}

func (s *stated[Row]) count() int { return len(s.states) }

func (s *stated[Row]) describe(state int) string {
	texts := make([]string, len(s.states[state]))
	for i, row := range s.states[state] {
		texts[i] = describeRow(row)
	}
	return strings.Join(texts, ", ")
}

func (s *stated[Row]) all() iter.Seq2[any, uint64] {
	return func(yield func(any, uint64) bool) {
		for i, row := range slices.Concat(s.states...) {
			if !yield(row, s.hashes[i]) {
				return
			}
		}
	}
}

func (s *stated[Row]) insertAndDelete(txn statedb.WriteTxn) {
	for _, row := range slices.Concat(s.states...) {
		if _, had, err := s.table.Insert(txn, row); !had && err == nil {
			_, _, _ = s.table.Delete(txn, row)
		}
	}
}
