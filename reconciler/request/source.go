// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package request

import (
	"errors"
	"fmt"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"
)

// Source is where requests come from: [For], [Owns] and [Watches] make one. It follows a
// table, and belongs to one [Config].
//
// The rows that the table has at the start count as changed, and any write of a row is a
// change, be it of a status that the row has: predicates are for that. Several
// changes of a row may become one, the last. The functions that a source is made with are
// called by one goroutine, with no table locked. If one panics, the log and health say so;
// the change is kept and tried again with the loop's backoff, or when the row changes again,
// and everything else goes on; so it does with [reconciler.WithPanicPropagation], too.
type Source[Req comparable] interface {
	// prepare checks what the source was made with, and returns how it is followed and
	// under which name.
	prepare(c *Controller[Req]) (name string, f following, err error)
}

// Predicate reports whether a change matters; one that does not leads to no request. Of
// several predicates all have to.
type Predicate[Obj any] func(change statedb.Change[Obj]) bool

// source is any Source.
type source[Req comparable, Obj any] struct {
	kind  string
	table statedb.Table[Obj]
	// requests hands the requests of a change to add. It may be called again for the
	// same change.
	requests   func(change statedb.Change[Obj], add func(Req))
	predicates []Predicate[Obj]
	// primary: a change is that of the object itself, and says whether it is there.
	primary bool
	// err is what is wrong with it.
	err error
}

// For makes requests of the primary table, that of the objects which the requests name: one
// for each change of a row and for its deletion. Each row has a request of its own, which
// requestOf returns. A controller has at most one.
//
// It is by this table that the controller knows which objects there are: their requests keep
// a row in the controller's table, and are refreshed now and then. Those of others, such as
// the deleted ones, go when they are reconciled.
func For[Req comparable, Obj any](table statedb.Table[Obj], requestOf func(obj Obj) Req, predicates ...Predicate[Obj]) Source[Req] {
	return &source[Req, Obj]{
		kind: "for", table: table, predicates: predicates, primary: true,
		requests: func(change statedb.Change[Obj], add func(Req)) { add(requestOf(change.Object)) },
		err:      missing(table == nil, "table", requestOf == nil, "requestOf function"),
	}
}

// Owns makes requests of a table of what objects own: one for the owner of each row that
// changes or is deleted. ownerOf returns it, or false if the row has none. When
// the owner of a row changes, there is one for the old owner, too; for that the source
// remembers the owner of each row.
func Owns[Req comparable, Obj any](table statedb.Table[Obj], ownerOf func(obj Obj) (owner Req, owned bool), predicates ...Predicate[Obj]) Source[Req] {
	s := &source[Req, Obj]{
		kind: "owns", table: table, predicates: predicates,
		err: missing(table == nil, "table", ownerOf == nil, "ownerOf function"),
	}
	if s.err == nil {
		o := &owners[Req, Obj]{ownerOf: ownerOf, keyOf: table.PrimaryIndexer().ObjectToKey, known: map[string]Req{}}
		s.requests = o.requests
	}
	return s
}

// Watches makes requests of any table: those which requestsOf returns for a change. What a
// row was before the change is not told, so let the requests depend on what never changes
// in a row, such as its key, or return all that it may concern.
func Watches[Req comparable, Obj any](table statedb.Table[Obj], requestsOf func(change statedb.Change[Obj]) []Req, predicates ...Predicate[Obj]) Source[Req] {
	return &source[Req, Obj]{
		kind: "watches", table: table, predicates: predicates,
		requests: func(change statedb.Change[Obj], add func(Req)) {
			for _, req := range requestsOf(change) {
				add(req)
			}
		},
		err: missing(table == nil, "table", requestsOf == nil, "requestsOf function"),
	}
}

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
	return s.kind + "-" + s.table.Name(), newFollower(c, s).run, nil
}

// owners remembers who owns each row.
type owners[Req comparable, Obj any] struct {
	ownerOf func(Obj) (Req, bool)
	keyOf   func(Obj) index.Key
	known   map[string]Req
}

func (o *owners[Req, Obj]) requests(change statedb.Change[Obj], add func(Req)) {
	owner, owned := o.ownerOf(change.Object)
	key := o.keyOf(change.Object)
	old, had := o.known[string(key)]
	if had {
		add(old)
	}
	if owned && (!had || owner != old) {
		add(owner)
	}
	switch {
	case had && (change.Deleted || !owned):
		delete(o.known, string(key))
	case owned && !change.Deleted && (!had || owner != old):
		o.known[string(key)] = owner
	}
}

// ChangesOf returns a predicate for changes of a part of a row, which part returns: others,
// such as those of a status that the reconciler itself writes, do not matter. A row that is
// new, and its deletion, does. It remembers the part of each row, and is for one source.
func ChangesOf[Obj any, Part comparable](table statedb.Table[Obj], part func(obj Obj) Part) Predicate[Obj] {
	known := map[string]Part{}
	keyOf := table.PrimaryIndexer().ObjectToKey
	return func(change statedb.Change[Obj]) bool {
		key := keyOf(change.Object)
		if change.Deleted {
			delete(known, string(key))
			return true
		}
		is := part(change.Object)
		was, seen := known[string(key)]
		if seen && was == is {
			return false
		}
		known[string(key)] = is
		return true
	}
}
