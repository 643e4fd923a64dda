// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

//go:build linux

package kernel

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"log/slog"
	"sync"

	"github.com/cilium/statedb"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
)

var verboseKernel = sync.OnceFunc(func() { nl.EnableErrorMessageReporting = true })

// NewTarget returns the network namespace as a target. It logs every change of another program that it
// undoes.
func NewTarget(in desired.Surroundings, log *slog.Logger) desired.Target {
	verboseKernel()
	s := surroundings{Surroundings: in, log: log}
	r := &routes{surroundings: s}
	return desired.Target{
		Links:     &links{s},
		Addresses: &addresses{s},
		Routes:    r,
		Sysctls:   newSysctls(s),
		Observe:   (&feed{Surroundings: in, log: log, routes: r}).run,
	}
}

// writes counts the requests that change the kernel, by the kind of object.
var writes = expvar.NewMap("kernel_writes")

// wrote counts a request that changes the kernel, and returns its error.
func wrote(kind string, err error) error {
	writes.Add(kind, 1)
	return err
}

// surroundings are what the operations use besides the kernel.
type surroundings struct {
	desired.Surroundings
	log *slog.Logger
}

// look begins a listing. It waits until the sources have filled the tables, since only the rows tell which objects of
// the kernel belong to other programs, and returns a snapshot of them, all links, and their names by index.
func (s surroundings) look(ctx context.Context) (txn statedb.ReadTxn, links []netlink.Link, names map[int]string, err error) {
	t := s.Tables
	for _, table := range []statedb.TableMeta{t.Links, t.Addresses, t.RoutesWanted, t.Routes, t.Sysctls} {
		_, watch := table.Initialized(s.DB.ReadTxn())
		select {
		case <-ctx.Done():
			return nil, nil, nil, ctx.Err()
		case <-watch:
		}
	}
	links, err = dump("links", netlink.LinkList)
	names = make(map[int]string, len(links))
	for _, link := range links {
		names[link.Attrs().Index] = link.Attrs().Name
	}
	return s.DB.ReadTxn(), links, names, err
}

// repaired logs a change that a repair made: another program had changed an object that was Done when the
// operation began.
func repaired[S desired.Spec](s surroundings, txn statedb.ReadTxn, loop desired.Loop[S], kind string, row *desired.Row[S]) {
	if status, _ := desired.StatusOf(loop, txn, row); status.Kind == reconciler.StatusKindDone {
		s.log.Info("repaired a change from outside", "kind", kind, "name", row.Spec.Key())
	}
}

// removed logs the removal of an object that was found and has no row, unless the removal failed with err. It
// returns err.
func removed[S desired.Spec](s surroundings, kind string, row *desired.Row[S], err error) error {
	if err == nil && row.Source == "" {
		s.log.Info("removed what no row asks for", "kind", kind, "name", row.Spec.Key())
	}
	return err
}

// findLink returns the link with a name, or nil if there is none.
func findLink(name string) (netlink.Link, error) {
	link, err := nameHolder(name)
	if err != nil || link == nil || link.Attrs().Name != name {
		return nil, err
	}
	return link, nil
}

// nameHolder returns the link that has a name, also as an alternative one, or nil if there is none.
func nameHolder(name string) (netlink.Link, error) {
	if name == "" {
		return nil, nil // the kernel, and the library, would look for no name
	}
	link, err := orNil(netlink.LinkByName(name))
	if err != nil {
		return nil, fmt.Errorf("look up link %q: %w", name, err)
	}
	return link, nil
}

// linkByIndex returns the link with an index, or nil if there is none.
func linkByIndex(index int) (netlink.Link, error) {
	link, err := orNil(netlink.LinkByIndex(index))
	if err != nil {
		return nil, fmt.Errorf("look up link %d: %w", index, err)
	}
	return link, nil
}

// linkName returns the name of the link with an index, or "" if there is none, as for index 0.
func linkName(index int) (string, error) {
	if index == 0 {
		return "", nil // the kernel takes it for a mistake
	}
	link, err := linkByIndex(index)
	if err != nil || link == nil {
		return "", err
	}
	return link.Attrs().Name, nil
}

// orNil replaces the error for a missing link by a nil link.
func orNil(link netlink.Link, err error) (netlink.Link, error) {
	if missing := (netlink.LinkNotFoundError{}); errors.As(err, &missing) {
		return nil, nil
	}
	return link, err
}

// maxDumps is how often a listing is tried, since the kernel may change it meanwhile.
const maxDumps = 10

// dump lists objects of the kernel, complete and of one moment.
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
