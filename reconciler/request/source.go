// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"errors"
	"fmt"

	"github.com/cilium/statedb"
)

// Source is where requests come from: [For], [Owns] and [Watches] make one. It follows a
// table, and belongs to one [Config].
//
// The rows that the table has at the start count as changed, and any write of a row is a
// change, be it of a status that the row has: predicates are for that. Several
// changes of a row may become one, the last. The functions that a source is made with are
// called by one goroutine, with no table locked; those that return requests may be called for
// a version of a row again, and have to return the same. If one panics, the log and health say so;
// the change is kept and tried again with the loop's backoff, or when the row changes again,
// and everything else goes on; so it does with [reconciler.Config].PanicPropagation, too.
type Source[Req comparable] interface {
	// prepare checks what the source was made with, and returns how it is followed and
	// under which name.
	prepare(c *Controller[Req]) (name string, f following, err error)
}

// source is any Source.
type source[Req comparable, Obj any] struct {
	kind  string
	table statedb.Table[Obj]
	// requests hands the requests of a row to add. It may be called again for the same row.
	requests   func(obj Obj, add func(Req))
	predicates []Predicate[Obj]
	// primary: a change is that of the object itself, and says whether it is there.
	primary bool
	// deletions: a deletion leads to requests whatever the predicates say.
	deletions bool
	// err is what is wrong with it.
	err error
}

// For makes requests of the primary table, that of the objects which the requests name: one
// for each change of a row and for its deletion. Each row has a request of its own, which
// requestOf returns, and which does not change while the row is there. A controller has at
// most one.
//
// It is by this table that the controller knows which objects there are: their requests keep
// a row in the controller's table, and are refreshed now and then. A request of which the table
// has no object is a clean-up: it is retried until it succeeds, [reconciler.Settings].MaxRetries
// does not count, and its row goes when nothing is left to be done.
func For[Req comparable, Obj any](table statedb.Table[Obj], requestOf func(obj Obj) Req, predicates ...Predicate[Obj]) Source[Req] {
	return &source[Req, Obj]{
		kind: "for", table: table, predicates: predicates, primary: true,
		requests: func(obj Obj, add func(Req)) { add(requestOf(obj)) },
		err:      missing(table == nil, "table", requestOf == nil, "requestOf function"),
	}
}

// Owns makes requests of a table of what objects own: one for the owner of each row that
// changes or is deleted. ownerOf returns it, or false if the row has none. When
// the owner of a row changes, there is one for the old owner, too. An owner is told of every
// deletion of what it owns, whatever the predicates say: it has to make up for it.
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

// Watches makes requests of any table: those which requestsOf returns for a row that changes or
// is deleted. Of a row that the source has seen before it is asked for that version, too, so
// that what the row does not concern any more is told as well.
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

// remembers reports whether the last version of each row is needed.
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
