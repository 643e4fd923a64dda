// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"maps"
	"sync"

	"github.com/cilium/statedb"
)

// scope is the data of a pass that calls of the user's code can reach by their context.
type scope struct {
	txn statedb.ReadTxn

	// mu is needed for clients with goroutines of their own.
	mu      sync.Mutex
	details ConnectionDetails
}

type scopeKey struct{}

// Txn returns the transaction that the pass was planned on. Connecters, clients and other code that the
// pass calls look up other rows in it, for example with [reconciler.Need]. It must not be kept. It is
// nil if ctx is not the context of such a call.
func Txn(ctx context.Context) statedb.ReadTxn {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return s.txn
	}
	return nil
}

// NoteConnection stores connection details that a create or an update has learned, for
// [WithConnectionPublishers]. They are published when the call has returned without an error; if that
// fails, each later pass tries again, until it succeeds, the object is gone or the row names another
// resource. If a name is stored several times, the last value counts, and what Observe returns later counts
// more. The details are kept in the memory of the process and not in the table, since they may be secrets:
// a program that ends before they are published loses them. So Observe should return them too, where the
// outside system can tell them. ctx is the context of the call; with any other context it does nothing.
func NoteConnection(ctx context.Context, details ConnectionDetails) {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.details == nil {
		s.details = ConnectionDetails{}
	}
	maps.Copy(s.details, details)
}

// takeDetails returns the stored details, and clears them.
func (s *scope) takeDetails() ConnectionDetails {
	s.mu.Lock()
	defer s.mu.Unlock()
	details := s.details
	s.details = nil
	return details
}
