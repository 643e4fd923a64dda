// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/cilium/statedb"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/statekeel/statekeel/example/netagent/config"
	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
)

var verboseKernel = sync.OnceFunc(func() { nl.EnableErrorMessageReporting = true })

// NewTarget returns the network namespace as a target. It looks needed objects up in
// the tables, and calls undid whenever a change to a link may have taken others
// along; undid must not block.
func NewTarget(tables *desired.Tables, undid func(link string, effect desired.Effect)) desired.Target {
	verboseKernel()
	needs := needs{tables}
	return desired.Target{
		Links:     &links{needs: needs, undid: undid},
		Addresses: &addresses{needs: needs, undid: undid},
		Routes:    newRoutes(needs),
		Sysctls:   newSysctls(needs),
	}
}

// needs finds out what an object has to wait for.
type needs struct {
	tables *desired.Tables
}

// link returns the outcome of an operation that misses a link: it waits until the
// row of that link changes.
func (n needs) link(txn statedb.ReadTxn, name string) error {
	_, _, changed, asked := n.tables.Links.GetWatch(txn, desired.ByKey[config.Link](name))
	if !asked {
		return reconciler.Blocked(fmt.Sprintf("link %q is not asked for", name), changed)
	}
	return reconciler.Blocked(fmt.Sprintf("link %q is not there yet", name), changed)
}

// addresses returns the outcome of an operation that failed with err where it needs
// the addresses of a link: it waits if one of them, or the link, is still to come.
func (n needs) addresses(txn statedb.ReadTxn, link string, err error) error {
	row, _, linkChanged, asked := n.tables.Links.GetWatch(txn, desired.ByKey[config.Link](link))
	if asked && !settled(row) {
		return reconciler.Blocked(fmt.Sprintf("link %q is not ready yet", link), linkChanged)
	}
	rows, changed := n.tables.Addresses.ListWatch(txn, desired.ByNeeds[config.Address](link))
	for row := range rows {
		if !settled(row) {
			return reconciler.Blocked(fmt.Sprintf("address %q is not there yet", row.Spec.Key()), changed)
		}
	}
	return err
}

func settled[S desired.Spec](row *desired.Row[S]) bool {
	return row.Status.Kind == reconciler.StatusKindDone || row.Status.Kind == reconciler.StatusKindRefreshing
}

// findLink returns the link of a name, or nil if there is none.
func findLink(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up link %q: %w", name, err)
	}
	return link, nil
}

// maxDumps is how often a listing is begun again because the kernel changed it
// meanwhile.
const maxDumps = 10

// dump lists something of the kernel's, whole and of one moment.
func dump[T any](what string, list func() ([]T, error)) (all []T, err error) {
	for range maxDumps {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return all, nil
}

// wanted returns the rows' specs by key.
func wanted[S desired.Spec](rows iter.Seq2[*desired.Row[S], statedb.Revision]) map[string]S {
	specs := make(map[string]S)
	for row := range rows {
		specs[row.Spec.Key()] = row.Spec
	}
	return specs
}
