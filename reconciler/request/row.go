// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/keys"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler"
)

// Row is a request in the table of a [Controller]: one that has work left, or whose object is in
// the table of [For]. It is for reading, and for functions that take objects of the loop, such as
// the predicate of [reconciler.Loop.PauseObjects].
type Row[Req comparable] struct {
	// Request is the argument of Reconcile.
	Request Req
	// Status is the outcome of the last reconciliation, or Pending or Refreshing until the next one.
	Status reconciler.Status

	// keys are the keys of the primary index, shared by all versions of the row.
	keys *index.KeySet
	// present reports whether the table of For had the object when it was last reported.
	present bool
	// settled reports whether the last reconciliation left no work.
	settled bool
}

// TableHeader implements statedb.TableWritable.
func (*Row[Req]) TableHeader() []string { return []string{"Request", "Status", "Error"} }

// TableRow implements statedb.TableWritable. All texts are printable.
func (r *Row[Req]) TableRow() []string {
	return []string{text.Printable(string(r.keys.First())), r.Status.Kind.String(), text.Printable(r.Status.GetError())}
}

// gone reports whether the row can be deleted: the object does not exist, and no work is left.
func (r *Row[Req]) gone() bool { return r.settled && !r.present }

func (r *Row[Req]) clone() *Row[Req] { c := *r; return &c }

// merge copies onto r, which was written while an older version was reconciled, what the
// reconciliation set.
func (r *Row[Req]) merge(reconciled *Row[Req]) *Row[Req] { r.settled = reconciled.settled; return r }

func (r *Row[Req]) setStatus(s reconciler.Status) *Row[Req] { r.Status = s; return r }

func (r *Row[Req]) getStatus() reconciler.Status { return r.Status }

// rowIndex returns the primary index of the table of requests.
func rowIndex[Req comparable]() statedb.Index[*Row[Req], index.Key] {
	return statedb.Index[*Row[Req], index.Key]{
		Name:       "request",
		FromObject: func(r *Row[Req]) index.KeySet { return *r.keys },
		FromKey:    func(key index.Key) index.Key { return key },
		FromString: index.FromString,
		Unique:     true,
	}
}

// keySet returns a set of one key with one allocation; [keys.Set] needs two.
func keySet(key index.Key) *index.KeySet {
	s := &struct {
		set  index.KeySet
		keys [1]index.Key
	}{keys: [1]index.Key{key}}
	s.set = keys.Set(s.keys[:]...)
	return &s.set
}
