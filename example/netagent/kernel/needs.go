// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"fmt"
	"strings"

	"github.com/cilium/statedb"
	"github.com/vishvananda/netlink"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/example/netagent/observed"
	"github.com/statekeel/statekeel/reconciler"
)

// All dependencies between objects are in this file. An operation with a missing dependency blocks its
// object on the rows that it has read, so that it is called again when they change, and not before.
//
//	link      its bridge
//	address   its link
//	route     its link, up, and an address or a route that reaches its gateway
//	sysctl    its link, if it belongs to one

// needLink returns a link that the kernel has and that is ready, or a Blocked outcome.
func (s surroundings) needLink(txn statedb.ReadTxn, name string, ready ...func(*observed.Link) bool) (*observed.Link, error) {
	return reconciler.Need(txn, s.Links, observed.ByName(name), s.describe(txn, name), ready...)
}

// describe returns the state of a link that an object waits for, for users.
func (s surroundings) describe(txn statedb.ReadTxn, name string) string {
	var known []string
	if _, _, asked := s.Tables.Links.Get(txn, desired.ByKey[config.Link](name)); !asked {
		// Another program has to create it, or the name is misspelt.
		known = append(known, "not asked for here")
	}
	if link, _, there := s.Links.Get(txn, observed.ByName(name)); there && !link.Up {
		known = append(known, "down")
	}
	if len(known) == 0 {
		return fmt.Sprintf("link %q", name)
	}
	return fmt.Sprintf("link %q (%s)", name, strings.Join(known, ", "))
}

func up(link *observed.Link) bool { return link.Up }

// needGateway blocks a route until an object that is Done reaches its gateway by its link, which is up.
func (s surroundings) needGateway(txn statedb.ReadTxn, want config.Route) error {
	if !want.Via.IsValid() || want.Via.Is6() && want.Via.IsLinkLocalUnicast() {
		return nil // a link-local gateway is on the link by definition
	}
	missing := ""
	addresses, addressesChanged := s.Tables.Addresses.ListWatch(txn, desired.ByNeeds[config.Address](want.Dev))
	watch := []<-chan struct{}{addressesChanged}
	for row := range addresses {
		if !row.Spec.Reaches(want.Via) {
			continue
		}
		status, changed := desired.StatusOf(s.Tables.Loops.Addresses, txn, row)
		if status.Kind == reconciler.StatusKindDone {
			return nil
		}
		watch = append(watch, changed...)
		missing = fmt.Sprintf("address %q", row.Spec.Key())
	}
	routes, routesChanged := s.Tables.Routes.ListWatch(txn, desired.ByNeeds[config.Route](want.Dev))
	watch = append(watch, routesChanged)
	for row := range routes {
		if !row.Spec.Reaches(want.Via, want.Table) {
			continue
		}
		status, changed := desired.StatusOf(s.Tables.Loops.Routes, txn, row)
		if status.Kind == reconciler.StatusKindDone {
			return nil
		}
		watch = append(watch, changed...)
		missing = fmt.Sprintf("route %q", row.Spec.Key())
	}
	if missing == "" {
		return reconciler.Blocked(fmt.Sprintf("no address of link %q has gateway %s in its network", want.Dev, want.Via), watch...)
	}
	return reconciler.Blocked(fmt.Sprintf("%s is not there yet", missing), watch...)
}

// failedOn returns the outcome of an operation that failed with err on a link that it needs. If the kernel's
// link is no longer as its row says, it was removed or set down after the operation read the row. That is no
// failure: the object waits for the row, which is about to change. Otherwise the operation is retried, whatever the
// error, since an address or a route of another program may be its cause, and goes without notice.
func (s surroundings) failedOn(txn statedb.ReadTxn, link *observed.Link, err error) error {
	if same, lookErr := unchanged(link); same || lookErr != nil {
		return err
	}
	_, changing := s.needLink(txn, link.Name, func(*observed.Link) bool { return false })
	return changing
}

// unchanged reports whether the kernel's link is as its row says.
func unchanged(link *observed.Link) (bool, error) {
	now, err := linkByIndex(link.Index)
	return now != nil && *rowOf(now) == *link, err
}

// handle returns netlink's value for a link.
func handle(link *observed.Link) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: link.Name, Index: link.Index}}
}
