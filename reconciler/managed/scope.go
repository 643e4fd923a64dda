// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package managed

import (
	"context"
	"maps"
	"sync"

	"github.com/cilium/statedb"
)

// scope is what a call to the outside system can ask of the pass that it is made in.
type scope struct {
	txn statedb.ReadTxn

	// mu is for clients that have goroutines of their own.
	mu      sync.Mutex
	details ConnectionDetails
}

type scopeKey struct{}

// Txn returns the transaction that the pass was planned on, for a connecter, a client or whatever
// else is called in the pass to look up other rows, as with [reconciler.Need]. It must not be kept.
// It is nil if ctx is not that of such a call.
func Txn(ctx context.Context) statedb.ReadTxn {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return s.txn
	}
	return nil
}

// NoteConnection notes what a create or an update has learned of how to use the resource, for
// [WithConnectionPublishers]; it is published when the call has returned without an error. Of
// several notes of one name the last counts. ctx is that of the call; otherwise it does nothing.
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

// takeDetails returns what was noted, and forgets it.
func (s *scope) takeDetails() ConnectionDetails {
	s.mu.Lock()
	defer s.mu.Unlock()
	details := s.details
	s.details = nil
	return details
}
