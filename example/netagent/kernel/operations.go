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

	"github.com/statekeel/statekeel/example/netagent/desired"
	"github.com/statekeel/statekeel/reconciler"
)

var verboseKernel = sync.OnceFunc(func() { nl.EnableErrorMessageReporting = true })

// NewTarget returns the network namespace as a target. It logs every change of another program that it
// undoes.
func NewTarget(in desired.Surroundings, log *slog.Logger) desired.Target {
	verboseKernel()
	s := surroundings{Surroundings: in, log: log}
	return desired.Target{
		Links:     &links{s},
		Addresses: &addresses{s},
		Routes:    newRoutes(s),
		Sysctls:   newSysctls(s),
		Observe:   (&feed{Surroundings: in, log: log}).run,
	}
}

// surroundings are what the operations use besides the kernel.
type surroundings struct {
	desired.Surroundings
	log *slog.Logger
}

// repaired logs a change that a refresh made: another program had changed an object that was Done when the
// operation began.
func repaired[S desired.Spec](s surroundings, txn statedb.ReadTxn, loop desired.Loop[S], kind string, row *desired.Row[S]) {
	if status, _ := desired.StatusOf(loop, txn, row); status.Kind == reconciler.StatusKindDone {
		s.log.Info("repaired a change from outside", "kind", kind, "name", row.Spec.Key())
	}
}

// stray logs the removal of an object without a row, unless the removal failed with err. It returns err.
func (s surroundings) stray(kind, key string, err error) error {
	if err == nil {
		s.log.Info("removed what no row asks for", "kind", kind, "name", key)
	}
	return err
}

// findLink returns the link with a name, or nil if there is none.
func findLink(name string) (netlink.Link, error) {
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

// wanted returns the rows' specs by key.
func wanted[S desired.Spec](rows iter.Seq2[*desired.Row[S], statedb.Revision]) map[string]S {
	specs := make(map[string]S)
	for row := range rows {
		specs[row.Spec.Key()] = row.Spec
	}
	return specs
}
