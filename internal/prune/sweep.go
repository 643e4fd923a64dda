// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package prune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/statedb"
)

// Budget bounds what one sweep may delete. A zero field is no bound.
type Budget struct {
	Objects int
	// Fraction is a fraction of the listed objects, from 0 to 1.
	Fraction float64
}

// ErrAwaits is in the error of a sweep that is above its budget: it awaits the approval of a person.
var ErrAwaits = errors.New("nothing is deleted until a person approves it: with the command reconciler/approve, the button \"Approve sweep\" of the page, or Loop.ApproveSweep")

// check returns an error if the budget does not allow a sweep to delete a number of orphans.
func (b Budget) check(orphans, listed int) error {
	var bound string
	switch {
	case b.Objects > 0 && orphans > b.Objects:
		bound = fmt.Sprintf("%d objects", b.Objects)
	case b.Fraction > 0 && float64(orphans) > b.Fraction*float64(listed):
		bound = fmt.Sprintf("%.4g %% of them", 100*b.Fraction)
	default:
		return nil
	}
	return fmt.Errorf("sweep: the table has no row for %[2]d of the %[1]d objects in the target, more than the budget of %[3]s: %[4]w",
		listed, orphans, bound, ErrAwaits)
}

// sweep is a sweep whose listing has ended. A listed object that is not in the table is an orphan,
// unless the main cursor had not yet read the object's deletion. That is decided when the main
// cursor has passed the revision that the table had at the end of the listing.
type sweep[Obj any] struct {
	took time.Duration
	// unknown has the listed objects that the table and the loop did not have. open has the keys of those
	// whose deletion the main cursor has not passed.
	unknown []Obj
	open    map[string]bool
	// keyless is an error about the listed objects without a usable key; nil if there are none.
	keyless error
	// upTo is the revision of the table at the end of the listing.
	upTo statedb.Revision
}

// Found is the result of a sweep.
type Found[Obj any] struct {
	// Listed is the number of listed objects, Took the time of the listing.
	Listed int
	Took   time.Duration
	// Orphans are the objects to delete, as of the table's revision Revision.
	Orphans  []Obj
	Revision statedb.Revision
	// Err is set if the budget does not allow the orphans to be deleted; then Orphans is empty. It is
	// also set if objects without a usable key were listed, which are no orphans.
	Err error
}

// List calls list, which lists the target, and keeps the objects that neither the table nor the
// loop has for [Pruner.Finish]. txn is the snapshot to list against. It returns an error if the
// listing failed or ctx has ended; then there is no sweep to finish.
func (p *Pruner[Obj]) List(ctx context.Context, txn statedb.ReadTxn, list func(ctx context.Context, txn statedb.ReadTxn, yield func(Obj) bool) error) error {
	s := &sweep[Obj]{open: map[string]bool{}}
	keyless, over := 0, false
	var why error
	defer func() { over = true }()
	err := list(ctx, txn, func(obj Obj) bool {
		if over || ctx.Err() != nil {
			return false
		}
		p.listed++
		if _, err := p.cfg.Rows.KeyOf(obj); err != nil {
			keyless++
			why = cmp.Or(why, err)
		} else if !p.has(txn, obj) {
			// An object of the snapshot is no orphan: it is in the table, or its deletion will be read.
			s.unknown = append(s.unknown, obj)
		}
		return true
	})
	// If ctx has ended the listing may be incomplete: the function may have stopped for it.
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return fmt.Errorf("sweep: listing the target: %w", err)
	}
	if keyless > 0 {
		s.keyless = fmt.Errorf("sweep: %d of %d listed objects are left alone: %w", keyless, p.listed, why)
	}
	// An object that was inserted while the target was listed is no orphan.
	fresh := p.cfg.Rows.DB.ReadTxn()
	s.upTo = p.cfg.Rows.Table.Revision(fresh)
	s.unknown = slices.DeleteFunc(s.unknown, func(obj Obj) bool {
		key := string(p.cfg.Rows.Key(obj))
		known := s.open[key] || !p.orphan(fresh, obj)
		if !known {
			s.open[key] = true
		}
		return known
	})
	p.sweep = s
	return nil
}

func (p *Pruner[Obj]) has(txn statedb.ReadTxn, obj Obj) bool {
	_, _, found := p.cfg.Rows.Get(txn, obj)
	return found
}

// orphan reports whether neither the loop nor the snapshot has an object of the target.
func (p *Pruner[Obj]) orphan(txn statedb.ReadTxn, obj Obj) bool {
	return !p.cfg.Tracks(obj) && !p.has(txn, obj)
}

// NoteListed records how long the prune or the listing took that Start began. It returns how many
// objects were listed, and whether there is a sweep to [Pruner.Finish]: if so, the prune has not
// ended.
func (p *Pruner[Obj]) NoteListed(took time.Duration) (n int, sweeping bool) {
	if p.sweep != nil {
		p.sweep.took, p.scheduled = took, false
	}
	return p.listed, p.sweep != nil
}

// NoteDeletion records that the main cursor has passed the deletion of an object: then a sweep need
// not delete it.
func (p *Pruner[Obj]) NoteDeletion(obj Obj) {
	if p.sweep != nil {
		delete(p.sweep.open, string(p.cfg.Rows.Key(obj)))
	}
}

// Finish ends the sweep and returns its result. It returns false if there is no sweep, or the main
// cursor, which has passed everything up to the given revision, has not reached the end of the
// listing. The caller deletes the orphans and calls [Pruner.NoteEnd].
func (p *Pruner[Obj]) Finish(passed statedb.Revision) (found Found[Obj], ok bool) {
	s := p.sweep
	if s == nil || passed < s.upTo {
		return found, false
	}
	p.sweep = nil
	now := p.cfg.Rows.DB.ReadTxn()
	found = Found[Obj]{Listed: p.listed, Took: s.took, Revision: p.cfg.Rows.Table.Revision(now)}
	for _, obj := range s.unknown {
		if s.open[string(p.cfg.Rows.Key(obj))] && p.orphan(now, obj) {
			found.Orphans = append(found.Orphans, obj)
		}
	}
	if !p.approved {
		if found.Err = p.cfg.Budget.check(len(found.Orphans), p.listed); found.Err != nil {
			found.Orphans = nil
			p.refused.Store(true)
			return found, true
		}
	}
	p.approved, found.Err = false, s.keyless
	return found, true
}
