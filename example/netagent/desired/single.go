// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package desired

import (
	"errors"
	"fmt"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/example/netagent/config"
)

// The errors of the methods for single objects; test for them with errors.Is. An object that conflicts with
// the others is an error of type config.Problems.
var (
	ErrFromFile = errors.New("comes from the state file: edit it there")
	ErrNotFound = errors.New("not found")
)

// PutLink adds a link, or both ends of a veth, or replaces the API's link of the same name. It reports
// whether the first link is new. If the same link is already desired, it writes nothing.
func (s *Store) PutLink(links []config.Located[config.Link]) (created bool, err error) {
	return put(s, s.tables.Links, Key, func(state *config.State) *[]config.Located[config.Link] { return &state.Links }, links, s.otherEnd)
}

// PutAddress does for an address what PutLink does for a link.
func (s *Store) PutAddress(address config.Located[config.Address]) (created bool, err error) {
	return put(s, s.tables.Addresses, Key, func(state *config.State) *[]config.Located[config.Address] { return &state.Addresses },
		[]config.Located[config.Address]{address}, nil)
}

// PutRoute does for a route that the API wants what PutLink does for a link. Other owners may want the same.
func (s *Store) PutRoute(route config.Located[config.Route]) (created bool, err error) {
	return put(s, s.tables.RoutesWanted, WantedKey, func(state *config.State) *[]config.Located[config.Route] { return &state.Routes },
		[]config.Located[config.Route]{route}, nil)
}

// PutSysctl does for a sysctl what PutLink does for a link.
func (s *Store) PutSysctl(sysctl config.Located[config.Sysctl]) (created bool, err error) {
	return put(s, s.tables.Sysctls, Key, func(state *config.State) *[]config.Located[config.Sysctl] { return &state.Sysctls },
		[]config.Located[config.Sysctl]{sysctl}, nil)
}

// DeleteLink deletes the row of a link. The other end of a veth is deleted too, as in the kernel.
func (s *Store) DeleteLink(key string) error { return remove(s, s.tables.Links, key, s.otherEnd) }

// DeleteAddress deletes the row of an address.
func (s *Store) DeleteAddress(key string) error { return remove(s, s.tables.Addresses, key, nil) }

// DeleteRoute deletes what the API wants of a route, by the key of [WantedKey].
func (s *Store) DeleteRoute(key string) error { return remove(s, s.tables.RoutesWanted, key, nil) }

// DeleteSysctl deletes the row of a sysctl: the kernel's setting returns to its earlier value.
func (s *Store) DeleteSysctl(key string) error { return remove(s, s.tables.Sysctls, key, nil) }

// otherEnd returns the row of the other end of a veth, or nil.
func (s *Store) otherEnd(txn statedb.ReadTxn, link *Link) *Link {
	peer, _, _ := s.tables.Links.Get(txn, ByKey[config.Link](link.Spec.Peer))
	return peer
}

// put replaces the API's rows of the objects' keys, and the other ends of their veths, if the objects are
// valid together with all other objects.
func put[S Spec](
	s *Store, table statedb.RWTable[*Row[S]], keyOf func(Source, S) string,
	section func(*config.State) *[]config.Located[S], objects []config.Located[S],
	with func(statedb.ReadTxn, *Row[S]) *Row[S],
) (created bool, err error) {
	txn := s.db.WriteTxn(s.tables.filled()...)
	defer txn.Abort()

	replaced := make(map[string]*Row[S])
	for i, object := range objects {
		old, _, found := table.Get(txn, ByKey[S](keyOf(API, object.Spec)))
		if i == 0 {
			created = !found
		}
		if !found {
			continue
		}
		if old.Source == File {
			return false, fmt.Errorf("%s %q %w", table.Name(), old.Spec.Key(), ErrFromFile)
		}
		replaced[keyOf(old.Source, old.Spec)] = old
		if with == nil {
			continue
		}
		if other := with(txn, old); other != nil {
			replaced[keyOf(other.Source, other.Spec)] = other
		}
	}

	state := s.tables.state(txn)
	list := section(&state)
	*list = known(txn, table, func(row *Row[S]) bool { return replaced[keyOf(row.Source, row.Spec)] == nil })
	others := len(*list)
	*list = append(*list, objects...)
	// What other objects have lost since they were added is no reason to refuse these.
	if err := state.Check(); err != nil {
		return false, err
	}
	for _, object := range (*list)[others:] {
		key := keyOf(API, object.Spec)
		if old := replaced[key]; old == nil || old.Spec != object.Spec {
			mustInsert(txn, table, &Row[S]{Spec: object.Spec, Source: API})
		}
		delete(replaced, key)
	}
	for _, gone := range replaced {
		mustDelete(txn, table, gone)
	}
	txn.Commit()
	return created, nil
}

func remove[S Spec](s *Store, table statedb.RWTable[*Row[S]], key string, with func(statedb.ReadTxn, *Row[S]) *Row[S]) error {
	txn := s.db.WriteTxn(table)
	defer txn.Abort()
	row, _, found := table.Get(txn, ByKey[S](key))
	switch {
	case !found:
		return fmt.Errorf("%s %q %w", table.Name(), key, ErrNotFound)
	case row.Source == File:
		return fmt.Errorf("%s %q %w", table.Name(), key, ErrFromFile)
	}
	mustDelete(txn, table, row)
	if with != nil {
		if other := with(txn, row); other != nil {
			mustDelete(txn, table, other)
		}
	}
	txn.Commit()
	return nil
}

// state returns all desired objects.
func (t *Tables) state(txn statedb.ReadTxn) config.State {
	return config.State{
		Links:     known(txn, t.Links, nil),
		Addresses: known(txn, t.Addresses, nil),
		Routes:    known(txn, t.RoutesWanted, nil),
		Sysctls:   known(txn, t.Sysctls, nil),
	}
}

// known returns the specs of the rows for which is returns true; nil means all.
func known[S Spec](txn statedb.ReadTxn, table statedb.Table[*Row[S]], is func(*Row[S]) bool) (specs []config.Located[S]) {
	for row := range table.All(txn) {
		if is == nil || is(row) {
			specs = append(specs, config.Known(row.Spec))
		}
	}
	return specs
}
