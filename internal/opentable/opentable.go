// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package opentable finds tables of a database, and registers those that are missing, while others
// commit transactions and register tables of their own. statedb v0.8.3 loses a table that is registered
// while a transaction is open.
package opentable

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/cilium/statedb"
)

// NameRule is the rule of statedb for the names of tables, which statedb does not export.
var NameRule = regexp.MustCompile(`^[a-z][a-z0-9_\-]{0,30}$`)

// ErrNoTables is returned by [Open] if the database has no table at all.
var ErrNoTables = errors.New("the database has no table")

// Table is a table that [Open] finds or registers.
type Table struct {
	name string
	// find stores the table, if it is the wanted one, where the caller of Of asked for it.
	find     func(statedb.TableMeta) error
	register func(*statedb.DB) (statedb.TableMeta, error)
}

// Of returns a table with this name, whose rows have the type Obj and whose primary index has the type
// Index. newIndex makes the index if the table has to be registered. [Open] stores the table in into.
// maker is what registers such tables, for the error if the database has another table of the name.
func Of[Obj statedb.TableWritable, Index statedb.Indexer[Obj]](
	name, maker string, newIndex func() Index, into *statedb.RWTable[Obj],
) Table {
	return Table{
		name: name,
		find: func(meta statedb.TableMeta) error {
			table, ok := meta.(statedb.RWTable[Obj])
			if ok {
				_, ok = table.PrimaryIndexer().(Index)
			}
			if !ok {
				return fmt.Errorf("the database has a table %q that was not made by %s: %T", name, maker, meta)
			}
			*into = table
			return nil
		},
		register: func(db *statedb.DB) (statedb.TableMeta, error) { return statedb.NewTable(db, name, newIndex()) },
	}
}

// Open returns when the database has all tables for good. It registers those that it does not have, none
// of them if there is an error with one that it has.
//
// It is an error if the database has a table of one of the names with rows or a primary index of another
// type, and if a name does not follow [NameRule]. It returns [ErrNoTables] if the database has no table:
// concurrent calls exclude each other by the locks of the tables that all of them know.
//
// Open locks every table of the database, so the caller must not hold a write transaction. It is safe
// for concurrent use.
func Open(db *statedb.DB, tables ...Table) error {
	o := opener{db: db, tables: tables}
	for {
		if done, err := o.open(); done || err != nil {
			return err
		}
	}
}

// opener finds and registers tables.
type opener struct {
	db     *statedb.DB
	tables []Table
	// registered are the tables that this opener has registered.
	registered []statedb.TableMeta
}

// open reports whether the database has all tables for good. Otherwise it may register what is missing,
// and has to be called again.
//
// With statedb v0.8.3, a transaction that began before a table was registered removes the table when
// it commits. So all other tables are locked here, which waits for their transactions. A table that was
// registered since the list was read is not locked: then the call does nothing, and the next one locks
// that table too. A table may still be registered between this check and our own registration. So what
// was registered counts only if the next call finds it under the locks.
//
// The tables that this opener registered are not locked: they have no transactions yet, and WriteTxn
// panics, and leaves tables locked, if one of its tables was removed.
func (o *opener) open() (done bool, err error) {
	others := o.others()
	if len(others) == 0 {
		return false, ErrNoTables
	}
	wtxn := o.db.WriteTxn(others...)
	defer wtxn.Abort()
	if !slices.Equal(others, o.others()) {
		return false, nil
	}
	missing, err := o.missing()
	if err != nil {
		return false, err
	}
	for _, table := range missing {
		if err := o.register(table); err != nil {
			return false, err
		}
	}
	return len(missing) == 0, nil
}

// others returns the tables of the database without those that this opener has registered.
func (o *opener) others() []statedb.TableMeta {
	return slices.DeleteFunc(o.db.GetTables(o.db.ReadTxn()), func(t statedb.TableMeta) bool {
		return slices.Contains(o.registered, t)
	})
}

// missing returns the tables that the database does not have.
func (o *opener) missing() (missing []Table, err error) {
	txn := o.db.ReadTxn()
	for _, table := range o.tables {
		if meta := o.db.GetTable(txn, table.name); meta == nil {
			missing = append(missing, table)
		} else if err := table.find(meta); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// register registers a table. It is no error that another goroutine, which does not use [Open], was
// quicker: the next call of open looks at what it registered.
func (o *opener) register(table Table) error {
	meta, err := table.register(o.db)
	switch {
	case err == nil:
		o.registered = append(o.registered, meta)
	case errors.Is(err, statedb.ErrDuplicateTable):
		return nil
	}
	return err
}
