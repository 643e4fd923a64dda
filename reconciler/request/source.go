// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"errors"
	"fmt"

	"github.com/cilium/statedb"
)

// Source produces requests from the changes of a table. [For], [Owns] and [Watches] return one. A
// Source belongs to one [Config].
//
// The rows that exist at the start count as changed. Every write of a row is a change, including a
// write of a status in the row: use predicates to ignore such writes. Several changes of a row may
// be merged into the last one.
//
// The functions given to a source are called from one goroutine, without a lock on any table. The
// functions that return requests may be called again for the same version of a row, and must return
// the same requests. If a function panics, the panic is logged and reported to health. The change
// is kept, and tried again with the loop's backoff or when the row changes again. Other changes are
// not held up. If a function calls runtime.Goexit, [Controller.Run] ends with an error; in a hive the
// source ends, and health reports it.
type Source[Req comparable] interface {
	// prepare checks the arguments of the source. It returns the name of the source and the
	// function that follows its table.
	prepare(c *Controller[Req]) (name string, f following, err error)
}

// source implements every kind of Source.
type source[Req comparable, Obj any] struct {
	kind  string
	table statedb.Table[Obj]
	// requests calls add with the requests of a row. It may be called again for the same row.
	requests   func(obj Obj, add func(Req))
	predicates []Predicate[Obj]
	// primary marks the table of the objects themselves: a change says whether the object exists.
	primary bool
	// deletions reports that a deletion leads to requests whatever the predicates return, even if the source
	// is not primary.
	deletions bool
	// err describes the invalid arguments.
	err error
}

// For returns a source on the primary table, that of the objects which the requests name. It
// produces a request for each change of a row and for its deletion. requestOf returns the request
// of a row. Each row must have a request of its own, and the same one while the row exists. A
// controller has at most one such source.
//
// From this table the controller knows which objects exist. The requests of existing objects keep a
// row in the controller's table, and are refreshed. A request without an object in this table is a
// clean-up: it is retried until it succeeds, whatever [reconciler.Settings].MaxRetries is, and its
// row is deleted when no work is left. So a deletion always leads to a request, whatever the predicates
// return.
func For[Req comparable, Obj any](table statedb.Table[Obj], requestOf func(obj Obj) Req, predicates ...Predicate[Obj]) Source[Req] {
	return &source[Req, Obj]{
		kind: "for", table: table, predicates: predicates, primary: true,
		requests: func(obj Obj, add func(Req)) { add(requestOf(obj)) },
		err:      missing(table == nil, "table", requestOf == nil, "requestOf function"),
	}
}

// Owns returns a source on a table of rows that are owned by objects. It produces a request for the
// owner of each row that changes or is deleted. ownerOf returns the owner, or false if the row has
// none. When the owner of a row changes, the old owner gets a request as well. A deletion always
// leads to a request of the owner, whatever the predicates return, since the owner may have to
// replace the row.
func Owns[Req comparable, Obj any](table statedb.Table[Obj], ownerOf func(obj Obj) (owner Req, owned bool), predicates ...Predicate[Obj]) Source[Req] {
	return &source[Req, Obj]{
		kind: "owns", table: table, predicates: predicates, deletions: true,
		requests: func(obj Obj, add func(Req)) {
			if owner, owned := ownerOf(obj); owned {
				add(owner)
			}
		},
		err: missing(table == nil, "table", ownerOf == nil, "ownerOf function"),
	}
}

// Watches returns a source on any table. It produces the requests that requestsOf returns for each
// row that changes or is deleted. If the source has seen an earlier version of the row, it also
// calls requestsOf for that version, so that objects which the row no longer affects are reconciled
// too.
func Watches[Req comparable, Obj any](table statedb.Table[Obj], requestsOf func(obj Obj) []Req, predicates ...Predicate[Obj]) Source[Req] {
	return &source[Req, Obj]{
		kind: "watches", table: table, predicates: predicates,
		requests: func(obj Obj, add func(Req)) {
			for _, req := range requestsOf(obj) {
				add(req)
			}
		},
		err: missing(table == nil, "table", requestsOf == nil, "requestsOf function"),
	}
}

// remembers reports whether the source needs the previous version of each row.
func (s *source[Req, Obj]) remembers() bool { return !s.primary || len(s.predicates) > 0 }

func missing(noTable bool, table string, noFunction bool, function string) error {
	var errs []error
	if noTable {
		errs = append(errs, fmt.Errorf("the %s is nil", table))
	}
	if noFunction {
		errs = append(errs, fmt.Errorf("the %s is nil", function))
	}
	return errors.Join(errs...)
}

func (s *source[Req, Obj]) prepare(c *Controller[Req]) (string, following, error) {
	for i, p := range s.predicates {
		if p == nil {
			s.err = errors.Join(s.err, fmt.Errorf("predicate %d is nil", i))
		}
	}
	if s.err != nil {
		return s.kind, nil, fmt.Errorf("%s: %w", s.kind, s.err)
	}
	if s.primary {
		if c.primary != "" {
			return s.kind, nil, fmt.Errorf("for: both table %q and table %q are primary", c.primary, s.table.Name())
		}
		c.primary = s.table.Name()
	}
	c.tables = append(c.tables, s.table)
	return s.kind + "-" + s.table.Name(), newFollower(c, s).run, nil
}
