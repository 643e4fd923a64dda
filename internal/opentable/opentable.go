// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

// Package opentable finds tables of a database, and registers those that are missing, while others
// commit transactions and register tables of their own.
package opentable

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/cilium/statedb"
)

// NameRule is the rule of statedb for the names of tables, which statedb does not export.
var NameRule = regexp.MustCompile(`^[a-z][a-z0-9_\-]{0,30}$`)

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

// Open finds the tables, and registers those that the database does not have; none of them if there is an
// error with one that it has. It is an error if the database has a table of one of the names with rows or a
// primary index of another type, and if a name does not follow [NameRule].
//
// Open takes no lock of a table. It is safe for concurrent use.
func Open(db *statedb.DB, tables ...Table) error {
	var missing []Table
	for _, table := range tables {
		if meta := db.GetTable(db.ReadTxn(), table.name); meta == nil {
			missing = append(missing, table)
		} else if err := table.find(meta); err != nil {
			return err
		}
	}
	for _, table := range missing {
		meta, err := table.register(db)
		if errors.Is(err, statedb.ErrDuplicateTable) {
			// Another goroutine was quicker.
			meta, err = db.GetTable(db.ReadTxn(), table.name), nil
		}
		if err != nil {
			return err
		}
		if err := table.find(meta); err != nil {
			return err
		}
	}
	return nil
}
