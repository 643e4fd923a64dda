// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package rows

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/netip"
	"reflect"
	"sync/atomic"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/statusid"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/status"
)

// ErrNoKey is returned for an object for which the primary index makes no key. statedb stores no such
// object: an insert of it does nothing and returns no error.
var ErrNoKey = errors.New("the primary index makes no key of the object")

// ErrKeyTooLong is returned for an object whose key is longer than [MaxKey]. statedb inserts such an object,
// and then a look-up does not find it: it can be neither replaced nor deleted, and no status can be written.
var ErrKeyTooLong = fmt.Errorf("the primary key is longer than the %d bytes that statedb can look up", MaxKey)

// MaxKey is the length of the longest key that statedb can look up.
const MaxKey = math.MaxUint16

// Writable is a table whose rows carry the status of a reconciler, and the user's functions for them: the fields of
// the same names of reconciler.Config. Merge may be nil. [New] sets Table.
type Writable[Obj any] struct {
	Table     statedb.RWTable[Obj]
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
	// Copy returns the copy of a row that an update gets; it is the row itself if the rows carry no
	// status.
	Copy func(Obj) Obj
	// Writable has what is needed to write a status into a row; nil if the rows carry no status. Then
	// this reconciler never writes the table.
	Writable *Writable[Obj]

	// begun is the status ID that Begin drew; 0 before it.
	begun   atomic.Uint64
	indexer statedb.Indexer[Obj]
	// short: no key is too long, whatever the object.
	short bool
	// fromString converts a text to a key, and fromKey a key to a query; each is nil if the index cannot.
	fromString func(text string) (index.Key, error)
	fromKey    queryFromKey[Obj]
}

// New returns the rows of a table that carry a status.
func New[Obj any](db *statedb.DB, table statedb.RWTable[Obj], w Writable[Obj]) *Rows[Obj] {
	r := NewBeside[Obj](db, table)
	w.Table = table
	r.Copy, r.Writable = w.Clone, &w
	r.Begin()
	return r
}

// Asked returns what a row asks for: the status in the row, but Pending, with its text, for a failure that was
// written before [Rows.Begin] or that another process wrote; and with the ID 0 if another process made the status. If
// the rows carry no status, every version asks to be applied: Asked returns Pending with the ID 0.
func (r *Rows[Obj]) Asked(row Obj) status.Status {
	if r.Writable == nil {
		return status.Status{Kind: status.KindPending}
	}
	s := r.Writable.GetStatus(row)
	if s.ID == 0 {
		return s
	}
	foreign := !statusid.IsOwn(s.ID)
	if (s.Kind == status.KindError || s.Kind == status.KindBlocked) && (foreign || s.ID < r.begun.Load()) {
		s.Kind = status.KindPending
	}
	if foreign {
		s.ID = 0
	}
	return s
}

// Begin is called when the reconciler is made, and when it begins to run: failures in the rows are those
// of an earlier run, whose retries ended with it, so they ask for an operation. A status with the ID 0 was
// made by hand.
func (r *Rows[Obj]) Begin() { r.begun.Store(status.Pending().ID) }

// NewBeside returns the rows of a table that carry no status.
func NewBeside[Obj any](db *statedb.DB, table statedb.Table[Obj]) *Rows[Obj] {
	indexer := table.PrimaryIndexer()
	read, _ := fieldOf(indexer, "FromString").(func(string) (index.Key, error))
	query, _ := indexer.(queryFromKey[Obj])
	return &Rows[Obj]{
		DB: db, Table: table, Copy: func(row Obj) Obj { return row },
		indexer: indexer, short: hasShortKeys(indexer), fromString: read, fromKey: query,
	}
}

// queryFromKey is a method of statedb's indexes, which is not in their interface.
type queryFromKey[Obj any] interface {
	QueryFromKey(index.Key) statedb.Query[Obj]
}

// hasShortKeys reports whether an index makes its keys of numbers, addresses or prefixes.
func hasShortKeys(indexer any) bool {
	from := reflect.TypeOf(fieldOf(indexer, "FromKey"))
	if from == nil || from.Kind() != reflect.Func || from.NumIn() != 1 {
		return false
	}
	switch of := from.In(0); of {
	case reflect.TypeFor[netip.Addr](), reflect.TypeFor[netip.Prefix]():
		return true
	default:
		return reflect.Bool <= of.Kind() && of.Kind() <= reflect.Complex128
	}
}

// fieldOf returns a field of statedb's indexes, which is not in their interface; nil if an index has none.
func fieldOf(indexer any, name string) any {
	v := reflect.ValueOf(indexer)
	if v.Kind() != reflect.Struct {
		return nil
	}
	if field := v.FieldByName(name); field.IsValid() && field.CanInterface() {
		return field.Interface()
	}
	return nil
}

// Key returns the primary key of a row, or of another object that has one. It is empty for an object
// without a key: call [Rows.KeyOf] for an object that comes from a program.
func (r *Rows[Obj]) Key(obj Obj) index.Key {
	key, _ := r.indexer.ObjectToKey(obj)
	return key
}

// KeyOf returns the primary key of an object, or an error that wraps [ErrNoKey] or [ErrKeyTooLong].
func (r *Rows[Obj]) KeyOf(obj Obj) (index.Key, error) { return KeyOf(r.indexer, obj) }

// KeyOf is [Rows.KeyOf] for a primary index.
func KeyOf[Obj any](indexer statedb.Indexer[Obj], obj Obj) (index.Key, error) {
	key, ok := indexer.ObjectToKey(obj)
	switch {
	case !ok:
		return nil, ErrNoKey
	case len(key) > MaxKey:
		return nil, fmt.Errorf("%w: it has %d bytes and begins with %s", ErrKeyTooLong, len(key), text.Key(key[:32]))
	}
	return key, nil
}

// Unwritable returns an error if no look-up would find a row, so that neither its outcome could be written, nor the
// row be replaced or deleted. It is nil if the rows carry a status: the write of an outcome shows it then, and a
// check before each operation would cost an allocation. It calls no function of the program if the index can make
// no long keys.
func (r *Rows[Obj]) Unwritable(row Obj) error {
	if r.short || r.Writable != nil {
		return nil
	}
	_, err := r.KeyOf(row)
	return err
}

// HasKey reports whether an object has a key, and it is this one.
func (r *Rows[Obj]) HasKey(obj Obj, key index.Key) bool {
	has, ok := r.indexer.ObjectToKey(obj)
	return ok && bytes.Equal(has, key)
}

// Revision returns the current revision of the table.
func (r *Rows[Obj]) Revision() statedb.Revision { return r.Table.Revision(r.DB.ReadTxn()) }

// Get looks up the row with an object's key. It finds nothing for an object without a key.
func (r *Rows[Obj]) Get(txn statedb.ReadTxn, obj Obj) (row Obj, revision statedb.Revision, found bool) {
	query, ok := r.indexer.QueryFromObject(obj)
	if !ok {
		return row, 0, false
	}
	return r.Table.Get(txn, query)
}

// GetWatch is [Rows.Get] with a channel that closes when the result changes. The channel is nil for an
// object without a key, whose result never changes.
func (r *Rows[Obj]) GetWatch(txn statedb.ReadTxn, obj Obj) (row Obj, revision statedb.Revision, watch <-chan struct{}, found bool) {
	query, ok := r.indexer.QueryFromObject(obj)
	if !ok {
		return row, 0, nil, false
	}
	return r.Table.GetWatch(txn, query)
}

// From returns the rows in the order of their keys, from the key of a row on, which may be gone.
func (r *Rows[Obj]) From(txn statedb.ReadTxn, row Obj) iter.Seq2[Obj, statedb.Revision] {
	query, _ := r.indexer.QueryFromObject(row)
	return r.Table.LowerBound(txn, query)
}

// ByKey looks up the row with a key. It finds nothing if the primary index cannot make a query of a
// key.
func (r *Rows[Obj]) ByKey(txn statedb.ReadTxn, key index.Key) (row Obj, revision statedb.Revision, found bool) {
	if r.fromKey == nil {
		return row, 0, false
	}
	return r.Table.Get(txn, r.fromKey.QueryFromKey(key))
}

// ByKeyWatch is [Rows.ByKey] with a channel that closes when the result changes; nil if no query can be made.
func (r *Rows[Obj]) ByKeyWatch(
	txn statedb.ReadTxn, key index.Key,
) (row Obj, revision statedb.Revision, watch <-chan struct{}, found bool) {
	if r.fromKey == nil {
		return row, 0, nil, false
	}
	return r.Table.GetWatch(txn, r.fromKey.QueryFromKey(key))
}

// KeyOfQuery returns the primary key that a query looks up; false if it is a query of another index, or if the primary
// index cannot make a query of a key. Statedb has no function for it.
func (r *Rows[Obj]) KeyOfQuery(query statedb.Query[Obj]) (index.Key, bool) {
	name, _ := fieldOf(r.indexer, "Name").(string)
	v := reflect.ValueOf(query)
	of, key := v.FieldByName("index"), v.FieldByName("key")
	if r.fromKey == nil || of.Kind() != reflect.String || of.String() != name || key.Kind() != reflect.Slice {
		return nil, false
	}
	return bytes.Clone(key.Bytes()), true
}

// SamePending reports whether current asks for the same operation as its older version: the status
// IDs and kinds are equal. If so, any write in between was by another reconciler, of its own status
// or fields. It is false if they ask for one and the status has no ID of this process, as one made by hand.
func (r *Rows[Obj]) SamePending(old, current Obj) bool {
	was, is := r.Asked(old), r.Asked(current)
	if !is.IsPendingOrRefreshing() {
		// Neither asks for anything, so nothing is lost if only the fields are other ones.
		return is.Kind == was.Kind && r.Writable.GetStatus(old).ID == r.Writable.GetStatus(current).ID
	}
	return is.ID != 0 && is.ID == was.ID && is.Kind == was.Kind
}

// MaySamePending is [Rows.SamePending], but also true if the status has the same ID of another process, which does not
// tell. It is for decisions that are right in either case.
func (r *Rows[Obj]) MaySamePending(old, current Obj) bool {
	if r.Writable == nil {
		return false
	}
	id := r.Writable.GetStatus(current).ID
	return id != 0 && id == r.Writable.GetStatus(old).ID && r.Asked(old).Kind == r.Asked(current).Kind
}
