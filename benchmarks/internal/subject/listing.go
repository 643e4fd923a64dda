// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package subject

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler"
)

// Listing is a target that has rows before its contender starts, in a map. Only Statekeel can list it.
type Listing struct {
	// Gate holds back the listing, and so the contender, until it is closed.
	Gate <-chan struct{}

	rows      map[uint64]struct{}
	different func(id uint64) bool
	lists     bool
	applied   []atomic.Bool
}

// NewListing returns a target that has rows 0 ... rows-1. Those for which different returns true are different from
// what the table wants.
func NewListing(rows uint64, gate <-chan struct{}, different func(id uint64) bool) *Listing {
	l := &Listing{Gate: gate, rows: make(map[uint64]struct{}, rows), different: different, applied: make([]atomic.Bool, rows)}
	for id := range rows {
		l.rows[id] = struct{}{}
	}
	return l
}

// Apply makes a row of the target equal to what the table wants.
func (l *Listing) Apply(id uint64) {
	if id < uint64(len(l.applied)) {
		l.applied[id].Store(true)
	}
}

// Applied reports whether Apply was called for a row.
func (l *Listing) Applied(id uint64) bool { return l.applied[id].Load() }

// Lists reports whether the contender lists the target.
func (l *Listing) Lists() bool { return l.lists }

// Alone returns how long it takes to list the target without a contender.
func (l *Listing) Alone() time.Duration {
	began := time.Now()
	seen := uint64(0)
	list(l, func(o *object[none]) bool { seen += o.id; return true })
	return time.Since(began)
}

func list[S any](l *Listing, yield func(*object[S]) bool) {
	for id := range l.rows {
		if !yield(&object[S]{id: id}) {
			return
		}
	}
}

// lister lists a Listing for rows with a status of type S.
type lister[S any] struct{ *Listing }

func (l lister[S]) List(_ context.Context, _ statedb.ReadTxn, yield func(*object[S]) bool) error {
	<-l.Gate
	list(l.Listing, yield)
	return nil
}

// withListing adds a listing to a configuration.
func withListing[S any](cfg reconciler.Config[*object[S]], l *Listing) reconciler.Config[*object[S]] {
	if l == nil {
		return cfg
	}
	l.lists = true
	cfg.Lister, cfg.Equal = lister[S]{l}, func(_, found *object[S]) bool {
		return !l.different(found.id) || l.Applied(found.id)
	}
	cfg.Options = append(cfg.Options, reconciler.WithSettings(func(s *reconciler.Settings) {
		s.ListTimeout, s.PruneInterval = time.Hour, 0
	}))
	return cfg
}
