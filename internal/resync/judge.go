// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// Budget bounds the orphans that one resync may delete. A zero field is no bound.
type Budget struct {
	Objects int
	// Fraction is a fraction of the listed objects, from 0 to 1.
	Fraction float64
}

// ErrAwaits is in the error of a resync that is above its budget: it awaits the approval of a person.
var ErrAwaits = errors.New("nothing is deleted until a person approves it: with the command reconciler/approve, the button \"Approve resync\" of the page, or Loop.ApproveResync")

// check returns an error if the budget does not allow a resync to delete a number of orphans.
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
	return fmt.Errorf("the table has no row for %[2]d of the %[1]d objects in the target, more than the budget of %[3]s: %[4]w",
		listed, orphans, bound, ErrAwaits)
}

// slice bounds the keys that one call of [Resync.Step] looks at: changes wait for it.
const slice = 1024

// verdict is how far the judgement of a listing that has worked has come.
type verdict struct {
	begun, weighed bool
	// dropped counts the keys of listing.early whose repairs were dropped.
	dropped int
	// judged counts the unknown objects that were looked at, orphans those of them that are orphans, and handed the orphans
	// that were handed out.
	judged, orphans, handed int
	// err is set if the budget does not allow the orphans to be deleted.
	err error
	// repaired has the keys that were repaired before, by their hashes, strays those of them that have no row and were
	// listed.
	repaired map[uint64]repaired
	strays   map[uint64]bool
}

// repaired is a key that was repaired; orphan: by its deletion.
type repaired struct {
	key    string
	orphan bool
}

// end ends a listing, if one has ended: it fails, begins the adoption, or is judged, a slice at a time. That waits until the
// main cursor has passed the end of the listing: before, the core does not know each deletion.
func (r *Resync[Obj]) end(p Pass) *Result {
	l := r.listing
	switch {
	case l == nil || !l.hasEnded():
		return nil
	case l.found.err != nil:
		r.listing = nil
		return r.conclude(&Result{Record: l.record(), Err: l.found.err})
	case l.adopts:
		r.listing = nil
		r.beginAdoption(p.Now, l)
		return nil
	case p.Read < l.found.upTo:
		return nil
	}
	v, f, txn := &l.verdict, &l.found, r.cfg.Rows.DB.ReadTxn()
	if !v.begun {
		v.begun, v.repaired, v.strays = true, map[uint64]repaired{}, map[uint64]bool{}
		for key, orphan := range r.cfg.Fights.Keys() {
			v.repaired[maphash.String(l.seed, key)] = repaired{key, orphan}
		}
	}
	for range slice {
		switch {
		case v.dropped < len(l.early):
			f.drop(l.early[v.dropped])
			v.dropped++
		case v.judged < len(f.unknown):
			s := f.unknown[v.judged]
			if r.isOrphan(txn, s) {
				f.unknown[v.orphans] = s
				v.orphans++
			}
			if _, again := v.repaired[s.hash]; again {
				v.strays[s.hash] = true
			}
			v.judged++
		case !v.weighed:
			v.weighed = true
			if !r.approved {
				v.err = r.cfg.Budget.check(v.orphans, f.listed)
			}
		case v.err == nil && v.handed < v.orphans:
			// It may be wanted by now.
			if s := f.unknown[v.handed]; r.isOrphan(txn, s) {
				r.cfg.Orphan(s.object, r.cfg.Rows.Table.Revision(txn))
			}
			v.handed++
		default:
			return r.endListing(l)
		}
	}
	return nil
}

// endListing ends a listing whose orphans are handed out.
func (r *Resync[Obj]) endListing(l *listing[Obj]) *Result {
	f, v := &l.found, &l.verdict
	record := l.record()
	record.Equal, record.Missing, record.Different, record.Orphan = f.equal, f.missing, f.different, v.orphans
	r.judgeRepaired(l)
	for _, d := range f.first {
		if !l.isTouched(d.hash) {
			record.Differences = append(record.Differences, d.Difference)
		}
	}
	if v.err != nil {
		// A person decides about orphans, and has to see some.
		record.Differences = record.Differences[:min(len(record.Differences), maxDifferences/2)]
	}
	for _, s := range f.unknown[:min(v.orphans, maxDifferences-len(record.Differences))] {
		record.Differences = append(record.Differences, inspect.Difference{Key: r.cfg.Rows.Name(s.object), Kind: inspect.Orphan})
	}
	r.listing, r.adoption.blind, r.approved = nil, false, false
	maps.DeleteFunc(f.right, func(_ uint64, right bool) bool { return !right })
	if r.repairs, r.right, r.seed = f.repairs, f.right, l.seed; len(f.repairs)+len(f.right) > 0 {
		r.cfg.Repair(r.wants)
	}
	return r.conclude(&Result{Record: record, Err: f.trouble(v.err)})
}

// judgeRepaired tells what the listing has found of the keys that were repaired before. Of a failing or
// blocked row it is known only that it is right.
func (r *Resync[Obj]) judgeRepaired(l *listing[Obj]) {
	f := &l.found
	for hash, of := range l.verdict.repaired {
		wrong := f.repairs[hash] != "" || l.verdict.strays[hash]
		if !l.isTouched(hash) && (wrong || f.right[hash] || of.orphan || !r.cfg.TracksKey(of.key)) {
			r.cfg.Fights.Judge(r.cfg.Now(), of.key, wrong)
		}
	}
}

// ErrLeftAlone is in the error of a listing that has worked, but has objects without a usable key.
var ErrLeftAlone = errors.New("listed objects are left alone")

// trouble returns the error of the budget and of the listed objects without a usable key; nil if there is none.
func (f *found[Obj]) trouble(budget error) error {
	if f.keyless == 0 {
		return budget
	}
	err := fmt.Errorf("%d of %d %w: %w", f.keyless, f.listed, ErrLeftAlone, f.why)
	if budget != nil {
		return fmt.Errorf("%w; %w", budget, err)
	}
	return err
}

// isOrphan reports whether no operation of an object without a row has ended since the listing began, and neither the
// core nor the snapshot has it.
func (r *Resync[Obj]) isOrphan(txn statedb.ReadTxn, s stray[Obj]) bool {
	if r.listing.isTouched(s.hash) || r.cfg.Tracks(s.object) {
		return false
	}
	_, _, found := r.cfg.Rows.Get(txn, s.object)
	return !found
}

// wants reports whether a row is to be repaired, or is right, and has failed or is blocked. A paused row is repaired when it
// is resumed: the core knows that.
func (r *Resync[Obj]) wants(row Obj, revision statedb.Revision) bool {
	if r.Right(row) {
		return !r.cfg.Fights.Contends(row)
	}
	return r.Wrong(row) != "" && !r.cfg.Tracks(row) &&
		r.cfg.Kind(r.cfg.Rows.DB.ReadTxn(), row, revision) == status.KindDone
}

// Wrong returns what the last result says of a row of which no operation has ended, and that no look has found right, since:
// [inspect.Missing], [inspect.Different], or nothing.
func (r *Resync[Obj]) Wrong(row Obj) string {
	if len(r.repairs) == 0 {
		return ""
	}
	return r.repairs[maphash.Bytes(r.seed, r.cfg.Rows.Key(row))]
}

// Right reports whether the last result has found that the target is as a failing or blocked row wants it, of which no
// operation has ended since.
func (r *Resync[Obj]) Right(row Obj) bool {
	return len(r.right) > 0 && r.right[maphash.Bytes(r.seed, r.cfg.Rows.Key(row))]
}

// NoteRight records that a look at the target has found a row right.
func (r *Resync[Obj]) NoteRight(row Obj) {
	if len(r.repairs) > 0 {
		delete(r.repairs, maphash.Bytes(r.seed, r.cfg.Rows.Key(row)))
	}
}
