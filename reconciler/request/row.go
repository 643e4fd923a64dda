// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler"
)

// Row is a request in the table of a [Controller]: one that is to be reconciled, or whose
// object the table of [For] has. It is for reading, and for options that take a function of
// the loop's objects, such as [reconciler.WithSerialBy].
type Row[Req comparable] struct {
	// Request is what Reconcile is called with.
	Request Req
	// Status says how far it is.
	Status reconciler.Status

	// keys are those of the primary index, shared by all versions of the row.
	keys *index.KeySet
	// present: the table of For has the object, or so it was said last.
	present bool
}

// TableHeader implements statedb.TableWritable.
func (*Row[Req]) TableHeader() []string { return []string{"Request", "Status", "Error"} }

// TableRow implements statedb.TableWritable.
func (r *Row[Req]) TableRow() []string {
	return []string{string(r.keys.First()), r.Status.Kind.String(), r.Status.GetError()}
}

func (r *Row[Req]) clone() *Row[Req] { c := *r; return &c }

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
