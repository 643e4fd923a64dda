// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// adoption is what a loop does with the first listing: it waits for it, and then compares each row with it before the
// row is applied.
type adoption[Obj any] struct {
	phase
	since time.Duration
	// prolonged: the comparison was prolonged.
	prolonged bool
	// objects are the listed objects by the keyed hash of their keys. Two keys with one hash, of which there is a pair in
	// one of some 37 million listings of a million objects, count as one key.
	objects map[uint64]kept[Obj]
	seed    maphash.Seed
	// record is what is known so far.
	record inspect.Resync
}

// phase is how far an adoption has come.
type phase struct {
	// waiting: nothing is applied, until the first listing has ended, or at the latest for the timeout after since.
	// comparing: it has ended, and objects has what it found; if the table is not initialised within the timeout after
	// since, that is forgotten. blind: the wait has lasted too long, and no listing has worked since.
	waiting, comparing, blind bool
}

// kept is what a listing has found with a key.
type kept[Obj any] struct {
	object Obj
	// twice: there is more than one object. counted: the record has the row. settled: the target was changed since, and the
	// object is not kept.
	twice, counted, settled bool
}

// keep keeps an object of the first listing.
func (f *found[Obj]) keep(hash uint64, obj Obj) {
	if f.objects == nil {
		f.objects = map[uint64]kept[Obj]{}
	}
	_, twice := f.objects[hash]
	f.objects[hash] = kept[Obj]{object: obj, twice: twice}
}

// Adopt has the loop wait for a listing, not longer than ListTimeout, and compare rows with it before they are applied. If
// ListTimeout is zero, it does not wait, and adopts nothing.
func (r *Resync[Obj]) Adopt(now time.Duration) {
	r.adoption = adoption[Obj]{phase: phase{waiting: r.cfg.Settings().ListTimeout > 0}, since: now}
	r.refusals.collect(r.adoption.waiting)
	r.plans.adopts.Store(r.adoption.waiting)
	r.requested = true
}

// Compares reports whether the loop compares rows with its first listing.
func (r *Resync[Obj]) Compares() bool { return r.adoption.comparing }

// Adopts reports whether a row that is about to be applied is in the target already, as the first listing found it.
func (r *Resync[Obj]) Adopts(row Obj) bool {
	a := &r.adoption
	if !a.comparing {
		return false
	}
	key := r.cfg.Rows.Key(row)
	k, listed := a.objects[maphash.Bytes(a.seed, key)]
	if !listed || k.twice || k.settled || r.refusals.has(key) {
		return false
	}
	equal, err := r.cfg.equal(row, k.object)
	if err != nil {
		// It was logged, and would be for each row.
		a.objects = nil
	}
	return equal
}

// Refuse has the row of an object applied even if it is equal to what the first listing finds. Safe from any goroutine.
func (r *Resync[Obj]) Refuse(obj Obj) { r.refusals.add(r.cfg.Rows.Key(obj)) }

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

// beginAdoption begins to compare with the first listing. If it has come too late, the target is listed again.
func (r *Resync[Obj]) beginAdoption(now time.Duration, l *listing[Obj]) {
	r.conclude(&Result{})
	if !r.adoption.waiting {
		r.adoption.blind, r.requested = false, true
		return
	}
	objects := l.found.objects
	for hash := range l.touched {
		if _, listed := objects[hash]; listed {
			objects[hash] = kept[Obj]{counted: true, settled: true}
		}
	}
	r.adoption = adoption[Obj]{phase: phase{comparing: true}, since: now, objects: objects, seed: l.seed, record: l.record()}
	r.raiseGate()
}

// noteCompared records that an operation has ended, or that a row was adopted.
func (r *Resync[Obj]) noteCompared(op *core.Operation[Obj], key []byte) {
	a := &r.adoption
	hash, adopted := maphash.Bytes(a.seed, key), op.Turn.Cause == core.CauseAdopted
	k, listed := a.objects[hash]
	switch {
	case !listed && !op.Deleted && !adopted:
		a.record.Missing++
		return
	case !listed || k.settled:
		return
	case adopted:
		a.objects[hash] = kept[Obj]{object: k.object, counted: true}
	default:
		a.objects[hash] = kept[Obj]{counted: true, settled: true}
	}
	switch {
	case k.counted, op.Deleted:
	case adopted:
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

// expire ends the wait for the first listing if it has lasted too long, and the comparison if the table is not
// initialised in time. Then the target is listed again, when the table is initialised.
func (r *Resync[Obj]) expire(now time.Duration) {
	a := &r.adoption
	if !a.waiting && !a.comparing || now < after(a.since, r.cfg.Settings().ListTimeout) {
		return
	}
	if initialized, _ := r.cfg.Rows.Table.Initialized(r.cfg.Rows.DB.ReadTxn()); a.comparing && initialized {
		return
	}
	r.forgetAdoption(a.waiting || a.blind)
	r.raiseGate()
}

// endAdoption ends the comparison with the first listing, when each row up to the gate was attempted. Rows that were
// written meanwhile have moved past the gate. Those that were pending at the gate are in the snapshot that main reads now,
// which ends before the revision of the table: so the gate is raised once, however fast rows are written. Orphans are left
// to the next listing: when the first one began, the tables may have been empty that tell the program what is its own.
func (r *Resync[Obj]) endAdoption() *Result {
	a := &r.adoption
	if !a.comparing || !r.isReady() {
		return nil
	}
	if !a.prolonged && r.cfg.Attempted() < r.cfg.Rows.Revision() {
		a.prolonged = true
		r.raiseGate()
		return nil
	}
	record := a.record
	r.forgetAdoption(false)
	return &Result{Record: record}
}

func (r *Resync[Obj]) forgetAdoption(blind bool) {
	r.adoption = adoption[Obj]{phase: phase{blind: blind}}
	r.refusals.collect(false)
	r.requested = true
}

// raiseGate has all that the initialised table has got be attempted before the target is listed.
func (r *Resync[Obj]) raiseGate() {
	if r.ready {
		r.gate = r.cfg.Rows.Revision()
	}
}
