// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"fmt"
	"slices"
	"time"

	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// adoption is what a loop does with the first listing: it waits for it, and then compares each row with it before the
// row is applied.
type adoption[Obj any] struct {
	// waiting: nothing is applied, until the first listing has ended, or at the latest until the time until.
	// comparing: it has ended, and objects has what it found; if the table is not initialised by the time until,
	// that is forgotten. blind: a time until has passed, and no listing has worked since.
	waiting, comparing, blind bool
	until                     time.Duration
	objects                   map[string]kept[Obj]
	// record is what is known so far.
	record inspect.Resync
}

// kept is what a listing has found with a key.
type kept[Obj any] struct {
	object Obj
	// others are more objects that were listed with the same key.
	others []Obj
	// settled: an operation of the key has ended since. It was adopted, or the target was changed.
	settled bool
}

// Waiting reports whether the loop waits for its first listing.
func (r *Resync[Obj]) Waiting() bool { return r.adoption.waiting }

// Adopts reports whether a row that is about to be applied is in the target already, as the first listing found it.
func (r *Resync[Obj]) Adopts(row Obj) bool {
	if !r.adoption.comparing {
		return false
	}
	k, listed := r.adoption.objects[string(r.cfg.Rows.Key(row))]
	return listed && !k.settled && r.equal(row, k)
}

func (r *Resync[Obj]) equal(row Obj, k kept[Obj]) (equal bool) {
	err := r.cfg.Guard("equal", func() error {
		equal = r.cfg.Equal(row, k.object) && !slices.ContainsFunc(k.others, func(other Obj) bool { return !r.cfg.Equal(row, other) })
		return nil
	})
	return equal && err == nil
}

// noteAttempt records that an operation has ended, or that a row was adopted.
func (a *adoption[Obj]) noteAttempt(r *Resync[Obj], op Ended[Obj]) {
	key := string(r.cfg.Rows.Key(op.Row))
	k, listed := a.objects[key]
	if !listed || k.settled {
		return
	}
	a.objects[key] = kept[Obj]{settled: true}
	switch {
	case op.Adopted:
		a.record.Equal++
	case op.Deleted:
	default:
		a.record.Different++
		if len(a.record.Differences) < maxDifferences {
			d := inspect.Difference{Key: r.cfg.Rows.Name(op.Row), Kind: inspect.Different}
			if r.cfg.Diff != nil {
				_ = r.cfg.Guard("diff", func() error { d.Diff = text.Cut(r.cfg.Diff(op.Row, k.object), maxDiff); return nil })
			}
			a.record.Differences = append(a.record.Differences, d)
		}
	}
}

// Look is called at the start of a pass. It ends what has lasted too long. It reports whether the target has to be
// listed again for that reason, when the table is initialised.
func (r *Resync[Obj]) Look(now time.Duration, initialized bool) (again bool) {
	a := &r.adoption
	if now < a.until || !a.waiting && !a.comparing || a.comparing && initialized {
		return false
	}
	*a = adoption[Obj]{blind: a.waiting || a.blind}
	return true
}

// adopt begins to compare with the first listing, unless it has come too late.
func (r *Resync[Obj]) adopt(now time.Duration, l *listing[Obj]) (adopts bool) {
	if !r.adoption.waiting {
		return false
	}
	f := &l.found
	r.adoption = adoption[Obj]{
		comparing: true, until: now + r.timeout(), objects: f.objects,
		record: inspect.Resync{Started: l.started, Took: f.took, Adopts: true, Listed: f.listed},
	}
	return true
}

// FinishAdoption is called when each row that the initialised table had was attempted. It returns the record of the
// comparison; false if the loop does not compare with a first listing. Orphans are left to the next listing: when the
// first one began, the tables may have been empty that tell the program what is its own.
func (r *Resync[Obj]) FinishAdoption() (inspect.Resync, bool) {
	a := &r.adoption
	if !a.comparing {
		return inspect.Resync{}, false
	}
	record := a.record
	record.Missing = max(0, r.cfg.Rows.Table.NumObjects(r.cfg.Rows.DB.ReadTxn())-record.Equal-record.Different)
	*a = adoption[Obj]{}
	return record, true
}

// Trouble returns what is wrong with the listing at a time: empty if nothing is.
func (r *Resync[Obj]) Trouble(now time.Duration) string {
	switch l := r.listing; {
	case l != nil && !l.hasEnded() && now-l.began >= r.patience():
		return fmt.Sprintf("the listing of the target runs since %s", l.started.Format(time.RFC3339))
	case r.adoption.blind:
		return fmt.Sprintf("no listing of the target has worked within %s of the start: objects are applied without a comparison", r.timeout())
	}
	return ""
}
