// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
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
// along; undid must not block. What somebody else did and it undoes, it logs.
func NewTarget(tables *desired.Tables, undid func(link string, effect desired.Effect), log *slog.Logger) desired.Target {
	verboseKernel()
	s := surroundings{tables: tables, undid: undid, log: log}
	return desired.Target{
		Links:     &links{s},
		Addresses: &addresses{s},
		Routes:    newRoutes(s),
		Sysctls:   newSysctls(s),
	}
}

// surroundings are what the operations have besides the kernel.
type surroundings struct {
	tables *desired.Tables
	undid  func(link string, effect desired.Effect)
	log    *slog.Logger
}

// repaired logs a change that a refresh made: somebody had broken what was Done.
func (s surroundings) repaired(status reconciler.Status, kind, key string) {
	if status.Kind == reconciler.StatusKindRefreshing {
		s.log.Info("repaired what somebody had changed", "kind", kind, "name", key)
	}
}

// stray logs a removal of what nobody asked for, unless it failed with err, which it
// returns.
func (s surroundings) stray(kind, key string, err error) error {
	if err == nil {
		s.log.Info("removed what nobody asked for", "kind", kind, "name", key)
	}
	return err
}

// waitForLink returns the outcome of an operation that misses a link: it waits until
// the row of that link changes.
func (s surroundings) waitForLink(txn statedb.ReadTxn, name string) error {
	_, _, changed, asked := s.tables.Links.GetWatch(txn, desired.ByKey[config.Link](name))
	if !asked {
		return reconciler.Blocked(fmt.Sprintf("link %q is not asked for", name), changed)
	}
	return reconciler.Blocked(fmt.Sprintf("link %q is not there yet", name), changed)
}

// waitForAddresses returns the outcome of an operation that failed with err where it
// needs the addresses of a link: it waits if one of them, or the link, is still to
// come, and failed if not.
func (s surroundings) waitForAddresses(txn statedb.ReadTxn, link string, err error) error {
	row, _, linkChanged, asked := s.tables.Links.GetWatch(txn, desired.ByKey[config.Link](link))
	if asked && !settled(row) {
		return reconciler.Blocked(fmt.Sprintf("link %q is not ready yet", link), linkChanged)
	}
	rows, changed := s.tables.Addresses.ListWatch(txn, desired.ByNeeds[config.Address](link))
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
