// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// adoption is what a loop does with the first listing: it waits for it, and then compares each row with it before the
// row is applied.
type adoption[Obj any] struct {
	// waiting: nothing is applied, until the first listing has ended, or at the latest for the timeout after since.
	// comparing: it has ended, and objects has what it found; if the table is not initialised within the timeout after
	// since, that is forgotten. prolonged: the comparison was prolonged. blind: the wait has lasted too long, and no listing
	// has worked since.
	waiting, comparing, prolonged, blind bool

	since   time.Duration
	objects objects[Obj]
	seed    maphash.Seed
	// record is what is known so far.
	record inspect.Resync
}

// objects are the objects of a listing. at has the index in list for the keyed hash of a key; twice has more objects of a
// key. Two keys with one hash, of which there is a pair in one of some 37 million listings of a million objects, count as one
// key.
type objects[Obj any] struct {
	at    map[uint64]int32
	list  []kept[Obj]
	twice map[int32][]Obj
}

// kept is what a listing has found with a key.
type kept[Obj any] struct {
	object Obj
	// counted: the record has the row. settled: the target was changed since, and the object is not kept.
	counted, settled bool
}

func (o *objects[Obj]) add(hash uint64, obj Obj) {
	i, again := o.at[hash]
	switch {
	case o.at == nil:
		o.at, o.twice = map[uint64]int32{}, map[int32][]Obj{}
	case again:
		o.twice[i] = append(o.twice[i], obj)
		return
	}
	o.at[hash] = int32(len(o.list))
	o.list = append(o.list, kept[Obj]{object: obj})
}

// settle forgets what was listed with a key: an operation of the key has ended since the listing began.
func (o *objects[Obj]) settle(hash uint64) {
	if i, listed := o.at[hash]; listed {
		o.list[i] = kept[Obj]{counted: true, settled: true}
		delete(o.twice, i)
	}
}

// until returns when the wait for the first listing ends, or what it found is forgotten.
func (r *Resync[Obj]) until() time.Duration { return after(r.adoption.since, r.timeout()) }

// after returns the time that is d after t. The sum does not overflow.
func after(t, d time.Duration) time.Duration { return t + min(d, math.MaxInt64-t) }

// Waiting reports whether the loop waits for its first listing.
func (r *Resync[Obj]) Waiting() bool { return r.adoption.waiting }

// Compares reports whether the loop compares rows with its first listing.
func (r *Resync[Obj]) Compares() bool { return r.adoption.comparing }

// Adopts reports whether a row that is about to be applied is in the target already, as the first listing found it.
func (r *Resync[Obj]) Adopts(row Obj) bool {
	if !r.adoption.comparing {
		return false
	}
	i, listed := r.adoption.at(r, row)
	return listed && !r.adoption.objects.list[i].settled && !r.refused.has(r.cfg.Rows.Key(row)) && r.equal(row, i)
}

// Refuse has the row of an object applied also if it is equal to what the first listing finds. Safe from any goroutine.
func (r *Resync[Obj]) Refuse(obj Obj) { r.refused.add(r.cfg.Rows.Key(obj)) }

// refusals are the keys of the rows that are not adopted. keys is nil while no adoption is ahead or under way.
type refusals struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// collect begins to collect keys, or goes on, if on is true. Otherwise it forgets them.
func (f *refusals) collect(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !on:
		f.keys = nil
	case f.keys == nil:
		f.keys = map[string]struct{}{}
	}
}

func (f *refusals) add(key []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys != nil {
		f.keys[string(key)] = struct{}{}
	}
}

func (f *refusals) has(key []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, has := f.keys[string(key)]
	return has
}

// at returns the index of the listed object with the key of a row.
func (a *adoption[Obj]) at(r *Resync[Obj], row Obj) (i int32, listed bool) {
	i, listed = a.objects.at[maphash.Bytes(a.seed, r.cfg.Rows.Key(row))]
	return i, listed
}

// equal reports whether a row is equal to all that was listed with its key.
func (r *Resync[Obj]) equal(row Obj, i int32) bool {
	o := &r.adoption.objects
	equal, err := r.cfg.equal(row, o.list[i].object)
	for _, other := range o.twice[i] {
		if equal {
			equal, err = r.cfg.equal(row, other)
		}
	}
	if err != nil {
		// It was logged, and would be for each row.
		r.adoption.objects = objects[Obj]{}
	}
	return equal
}

// noteAttempt records that an operation has ended, or that a row was adopted.
func (a *adoption[Obj]) noteAttempt(r *Resync[Obj], op Attempt[Obj]) {
	hash := maphash.Bytes(a.seed, r.cfg.Rows.Key(op.Row))
	i, listed := a.objects.at[hash]
	switch {
	case !listed && !op.Deleted && !op.Adopted:
		a.record.Missing++
		return
	case !listed || a.objects.list[i].settled:
		return
	}
	k := a.objects.list[i]
	if a.objects.list[i].counted = true; !op.Adopted {
		a.objects.settle(hash)
	}
	switch {
	case k.counted, op.Deleted:
	case op.Adopted:
		a.record.Equal++
	default:
		a.record.Different++
		if len(a.record.Differences) < maxDifferences {
			a.record.Differences = append(a.record.Differences, inspect.Difference{
				Key: r.cfg.Rows.Name(op.Row), Kind: inspect.Different, Diff: r.cfg.diff(op.Row, k.object),
			})
		}
	}
}

// Look is called at the start of a pass. It ends what has lasted too long. It reports whether the target has to be
// listed again for that reason, when the table is initialised.
func (r *Resync[Obj]) Look(now time.Duration) (again bool) {
	a := &r.adoption
	switch {
	case !a.waiting && !a.comparing, now < r.until():
		return false
	case a.waiting && r.listing != nil && r.listing.hasEnded():
		// It is for Take.
		return false
	case a.comparing:
		if initialized, _ := r.cfg.Rows.Table.Initialized(r.cfg.Rows.DB.ReadTxn()); initialized {
			return false
		}
	}
	*a = adoption[Obj]{blind: a.waiting || a.blind}
	r.refused.collect(false)
	return true
}

// adopt begins to compare with the first listing, unless it has come too late.
func (r *Resync[Obj]) adopt(now time.Duration, l *listing[Obj]) (adopts bool) {
	if !r.adoption.waiting {
		r.adoption.blind = false
		return false
	}
	f := &l.found
	for _, hash := range l.order {
		f.objects.settle(hash)
	}
	r.adoption = adoption[Obj]{
		comparing: true, since: now, objects: f.objects, seed: l.seed,
		record: inspect.Resync{Started: l.started, Took: f.took, Adopts: true, Listed: f.listed},
	}
	return true
}

// Prolong has the comparison go on once more, since rows were written meanwhile. It returns false if it has done so
// already: rows may be written faster than they are compared.
func (r *Resync[Obj]) Prolong() bool {
	prolonged := r.adoption.prolonged
	r.adoption.prolonged = true
	return !prolonged
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
	*a = adoption[Obj]{}
	r.refused.collect(false)
	return record, true
}

// Trouble returns what is wrong with the listing at a time: empty if nothing is.
func (r *Resync[Obj]) Trouble(now time.Duration) string {
	switch l := r.listing; {
	case l != nil && !l.hasEnded() && now-l.began >= r.patience():
		return fmt.Sprintf("the listing of the target runs since %s", l.started.Format(time.RFC3339))
	case r.adoption.blind:
		return "no listing of the target has worked within ListTimeout of the start: objects are applied without a comparison"
	}
	return ""
}
