// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package harness

import (
	"strconv"
	"testing"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/reconcilertest"
)

// Object is a row with two statuses, for two reconcilers.
type Object struct {
	ID     uint64
	Value  int
	Note   string
	Status reconciler.Status
	Other  reconciler.Status
}

// Clone returns a copy.
func (o *Object) Clone() *Object { c := *o; return &c }

// SetStatus sets the status that most tests use.
func (o *Object) SetStatus(s reconciler.Status) *Object { o.Status = s; return o }

// GetStatus returns that status.
func (o *Object) GetStatus() reconciler.Status { return o.Status }

// SetOther sets the status of another reconciler.
func (o *Object) SetOther(s reconciler.Status) *Object { o.Other = s; return o }

// GetOther returns that status.
func (o *Object) GetOther() reconciler.Status { return o.Other }

// TableHeader implements [statedb.TableWritable].
func (o *Object) TableHeader() []string { return []string{"ID", "Value", "Status", "Error"} }

// TableRow implements [statedb.TableWritable].
func (o *Object) TableRow() []string {
	return []string{
		strconv.FormatUint(o.ID, 10), strconv.Itoa(o.Value), o.Status.Kind.String(), o.Status.GetError(),
	}
}

// ByID is the primary index of objects.
var ByID = statedb.Index[*Object, uint64]{
	Name:       "id",
	FromObject: func(o *Object) index.KeySet { return index.NewKeySet(index.Uint64(o.ID)) },
	FromKey:    index.Uint64,
	FromString: index.Uint64String,
	Unique:     true,
}

// IDs returns the numbers from and to, and those between.
func IDs(from, to uint64) []uint64 {
	var out []uint64
	for id := from; id <= to; id++ {
		out = append(out, id)
	}
	return out
}

// Config returns a configuration for objects, with Status as the status.
func Config(operations reconciler.ObjectOperations[*Object], options ...reconciler.Option) reconciler.Config[*Object] {
	return reconciler.Config[*Object]{
		Clone: (*Object).Clone, SetStatus: (*Object).SetStatus, GetStatus: (*Object).GetStatus,
		Operations: operations, Options: options,
	}
}

// Env is a [reconcilertest.Env] of a table of objects.
type Env struct {
	*reconcilertest.Env[*Object]
}

// New returns an Env of a table "objects". primary is mostly [ByID]; internal tests of package reconciler
// have their own index.
func New(t testing.TB, primary statedb.Index[*Object, uint64], secondary []statedb.Indexer[*Object], opts ...statedb.Option) Env {
	t.Helper()
	return Env{reconcilertest.New(t, func(db *statedb.DB) (statedb.RWTable[*Object], error) {
		return statedb.NewTable(db, "objects", primary, secondary...)
	}, opts...)}
}

// Remove deletes objects in one transaction and returns the revision of the table after it.
func (e Env) Remove(ids ...uint64) statedb.Revision {
	e.Helper()
	var objs []*Object
	for _, id := range ids {
		objs = append(objs, &Object{ID: id})
	}
	return e.Delete(objs...)
}

// Row returns the row with an ID; nil if there is none.
func (e Env) Row(id uint64) *Object {
	row, _ := e.Get(&Object{ID: id})
	return row
}

// Kind returns the kind of the status of the row with an ID.
func (e Env) Kind(id uint64) reconciler.StatusKind {
	e.Helper()
	return e.Status(&Object{ID: id}).Kind
}
