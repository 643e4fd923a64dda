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

// Row is a request in the table of a [Controller]: one that is to be reconciled, or whose
// object the table of [For] has. It is for reading, and for functions that take the loop's objects,
// such as the predicate of [reconciler.Loop.PauseObjects].
type Row[Req comparable] struct {
	// Request is what Reconcile is called with.
	Request Req
	// Status says how far it is.
	Status reconciler.Status

	// keys are those of the primary index, shared by all versions of the row.
	keys *index.KeySet
	// present: the table of For has the object, or so it was said last.
	present bool
	// settled: nothing was left to be done when the request was reconciled last.
	settled bool
}

// TableHeader implements statedb.TableWritable.
func (*Row[Req]) TableHeader() []string { return []string{"Request", "Status", "Error"} }

// TableRow implements statedb.TableWritable. Nothing of it is unprintable.
func (r *Row[Req]) TableRow() []string {
	return []string{text.Printable(string(r.keys.First())), r.Status.Kind.String(), text.Printable(r.Status.GetError())}
}

// gone reports whether the row has served its purpose: there is no object, and nothing is left to
// be done.
func (r *Row[Req]) gone() bool { return r.settled && !r.present }

func (r *Row[Req]) clone() *Row[Req] { c := *r; return &c }

// merge returns a row that was written while an older version of it was reconciled, with what
// that set.
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

// keySet returns the set of a key, in one allocation where [keys.Set] takes two.
func keySet(key index.Key) *index.KeySet {
	s := &struct {
		set  index.KeySet
		keys [1]index.Key
	}{keys: [1]index.Key{key}}
	s.set = keys.Set(s.keys[:]...)
	return &s.set
}
