// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package rows

import (
	"bytes"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/keys"
	"github.com/statekeel/statekeel/status"
)

// Functions are the user's functions for the objects of a table. They are the fields of the same
// names of reconciler.Config. Merge may be nil.
type Functions[Obj any] struct {
	Clone     func(Obj) Obj
	GetStatus func(Obj) status.Status
	SetStatus func(Obj, status.Status) Obj
	Merge     func(current, reconciled Obj) Obj
}

// Rows gives access to the rows of a table for one reconciler. It is immutable, and safe from any
// goroutine.
type Rows[Obj any] struct {
	DB    *statedb.DB
	Table statedb.Table[Obj]
	// Asked returns what a row asks for: the status in the row. If the rows carry no status, every
	// version asks to be applied: Asked returns Pending with the ID 0.
	Asked func(Obj) status.Status
	// Copy returns the copy of a row that an update gets; it is the row itself if the rows carry no
	// status.
	Copy func(Obj) Obj
	// Writable has what is needed to write a status into a row; nil if the rows carry no status. Then
	// this reconciler never writes the table.
	Writable *Writable[Obj]

	indexer statedb.Indexer[Obj]
	// fromString converts a text to a key, fromKey a key to a query; each is nil if the index cannot.
	fromString func(text string) (index.Key, error)
	fromKey    func(index.Key) statedb.Query[Obj]
}

// Writable is a table whose rows carry the status of a reconciler.
type Writable[Obj any] struct {
	Functions[Obj]
	Table statedb.RWTable[Obj]
}

// New returns the rows of a table that carry a status.
func New[Obj any](db *statedb.DB, table statedb.RWTable[Obj], f Functions[Obj]) *Rows[Obj] {
	r := newRows(db, table)
	r.Asked, r.Copy, r.Writable = f.GetStatus, f.Clone, &Writable[Obj]{f, table}
	return r
}

// NewBeside returns the rows of a table that carry no status.
func NewBeside[Obj any](db *statedb.DB, table statedb.Table[Obj]) *Rows[Obj] {
	r := newRows(db, table)
	r.Asked = func(Obj) status.Status { return status.Status{Kind: status.KindPending} }
	r.Copy = func(row Obj) Obj { return row }
	return r
}

func newRows[Obj any](db *statedb.DB, table statedb.Table[Obj]) *Rows[Obj] {
	indexer := table.PrimaryIndexer()
	return &Rows[Obj]{
		DB: db, Table: table,
		indexer: indexer, fromString: keys.Reader(indexer), fromKey: keys.QueryOfKey(indexer),
	}
}

// Key returns the primary key of an object.
func (r *Rows[Obj]) Key(obj Obj) index.Key { return keys.Of(r.indexer, obj) }

// Query returns the query for the row with an object's key.
func (r *Rows[Obj]) Query(obj Obj) statedb.Query[Obj] { return keys.Query(r.indexer, obj) }

// Revision returns the current revision of the table.
func (r *Rows[Obj]) Revision() statedb.Revision { return r.Table.Revision(r.DB.ReadTxn()) }

// Get looks up an object by the table's primary index.
func (r *Rows[Obj]) Get(txn statedb.ReadTxn, obj Obj) (row Obj, revision statedb.Revision, found bool) {
	return r.Table.Get(txn, r.Query(obj))
}

// Exact looks up the row that has exactly an object's key: with an index for longest prefixes,
// [Rows.Get] may find another row. The channel closes when the result changes.
func (r *Rows[Obj]) Exact(txn statedb.ReadTxn, obj Obj) (row Obj, revision statedb.Revision, watch <-chan struct{}, found bool) {
	// Making a key may cost more than the lookup: the key of obj is made once, if its index allows that.
	key := r.Key(obj)
	var query statedb.Query[Obj]
	if r.fromKey != nil {
		query = r.fromKey(key)
	} else {
		query = r.Query(obj)
	}
	row, revision, watch, found = r.Table.GetWatch(txn, query)
	found = found && bytes.Equal(r.Key(row), key)
	return row, revision, watch, found
}

// ByKey looks up the row with a key. It finds nothing if the primary index cannot make a query of a
// key.
func (r *Rows[Obj]) ByKey(txn statedb.ReadTxn, key index.Key) (row Obj, revision statedb.Revision, found bool) {
	if r.fromKey == nil {
		return row, 0, false
	}
	row, revision, found = r.Table.Get(txn, r.fromKey(key))
	return row, revision, found && bytes.Equal(r.Key(row), key)
}

// SamePending reports whether current asks for the same operation as its older version: the status
// IDs and kinds are equal. If so, any write in between was by another reconciler, of its own status
// or fields. It is false if the status has no ID, as one made by hand.
func (r *Rows[Obj]) SamePending(old, current Obj) bool {
	was, is := r.Asked(old), r.Asked(current)
	return is.ID != 0 && is.ID == was.ID && is.Kind == was.Kind
}
