// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/internal/watch"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

const (
	// maxDifferences bounds the differences of a resync that are kept for people, maxDiff the bytes of the text of
	// each.
	maxDifferences = 10
	maxDiff        = 1024
)

// listing is one listing of the target. The goroutine that lists has the fields of found until it closes ended.
type listing[Obj any] struct {
	cfg     *Config[Obj]
	seed    maphash.Seed
	started time.Time
	began   time.Duration
	// adopts: what is listed is kept. It is compared later.
	adopts bool
	// plan is set if the listing is that of a plan.
	plan   *plan
	cancel context.CancelFunc
	ended  chan struct{}

	found found[Obj]
	// Of the goroutine of the loop: touched has the keys of which an operation has ended since the listing began, early
	// those of them that are from before the judgement, in their order.
	touched map[uint64]struct{}
	early   []uint64
	verdict verdict
}

// start begins a listing. txn is the snapshot that the target is listed against.
func (r *Resync[Obj]) start(ctx context.Context, txn statedb.ReadTxn) {
	ctx, cancel := context.WithCancel(ctx)
	r.listing = &listing[Obj]{
		cfg: &r.cfg, seed: maphash.MakeSeed(), started: time.Now(), began: r.cfg.Now(), adopts: r.adoption.waiting,
		cancel: cancel, ended: make(chan struct{}), touched: map[uint64]struct{}{},
	}
	go r.listing.run(ctx, txn, r.plans.lock, r.Ended.Send)
}

// patience is how long a listing may run before it is reported.
func (r *Resync[Obj]) patience() time.Duration {
	return max(cmp.Or(r.cfg.Settings().ListTimeout, execute.Long), time.Second)
}

func (l *listing[Obj]) hasEnded() bool { return watch.IsClosed(l.ended) }

// record returns the record of a listing that has ended, without what it has found.
func (l *listing[Obj]) record() inspect.Resync {
	return inspect.Resync{Started: l.started, Took: l.found.took, Listed: l.found.listed, Adopts: l.adopts}
}

func (l *listing[Obj]) isTouched(hash uint64) bool {
	_, touched := l.touched[hash]
	return touched
}

// touch records that an operation on a key has ended.
func (l *listing[Obj]) touch(hash uint64) {
	if l.isTouched(hash) {
		return
	}
	l.touched[hash] = struct{}{}
	if l.verdict.begun {
		l.found.drop(hash)
	} else {
		l.early = append(l.early, hash)
	}
}

// found is what a listing has found.
type found[Obj any] struct {
	err  error
	took time.Duration
	// listed counts the listed objects, equal those that are equal to a row that is Done. missing and different count repairs.
	listed, equal, missing, different int
	// Only of a plan, of which equal counts rows: reapplied counts those that are applied all the same, adopted those that
	// become Done without.
	reapplied, adopted int
	// objects has the objects if the listing adopts. Otherwise unknown has those without a row, one a key, repairs
	// what is wrong with rows, by the hashes of their keys, and seen the hashes of all that have a row.
	objects map[uint64]kept[Obj]
	unknown []stray[Obj]
	strays  map[uint64]struct{}
	repairs map[uint64]string
	seen    []uint64
	// right has the failing and blocked rows that were listed: whether the target is as they want it.
	right map[uint64]bool
	// first are the first differences, for people.
	first []named
	// keyless is the number of objects without a usable key, why the first reason.
	keyless int
	why     error
	// odd is the panic of a comparison: the listing fails.
	odd error
	// upTo is the revision of the table at the end.
	upTo statedb.Revision
}

// stray is a listed object without a row, with the hash of its key.
type stray[Obj any] struct {
	object Obj
	hash   uint64
}

// named is a difference with the hash of its key.
type named struct {
	inspect.Difference
	hash uint64
}

// run lists the target when it has the lock, and compares. It closes ended even if a function of the program ends the
// goroutine.
func (l *listing[Obj]) run(ctx context.Context, txn statedb.ReadTxn, lock lock, ended func()) {
	f := &l.found
	defer func() {
		f.took = l.cfg.Now() - l.began
		if f.err != nil {
			// An incomplete listing says nothing.
			*f = found[Obj]{err: fmt.Errorf("listing the target: %w", f.err), took: f.took, listed: f.listed}
		}
		l.cancel()
		close(l.ended)
		ended()
	}()
	// A plan may be listing.
	if f.err = lock.take(ctx); f.err != nil {
		return
	}
	defer lock.give()
	f.err = execute.ErrGoexit
	f.err = l.cfg.Guard("list", func() error { return l.list(ctx, txn) })
}

func (l *listing[Obj]) list(ctx context.Context, txn statedb.ReadTxn) error {
	if ctx.Err() != nil {
		// The loop was stopped before this goroutine had the lock.
		return context.Cause(ctx)
	}
	f, over := &l.found, false
	defer func() { over = true }()
	err := l.cfg.List(ctx, txn, func(obj Obj) bool {
		if over || f.odd != nil || ctx.Err() != nil {
			return false
		}
		f.listed++
		if key, err := l.cfg.Rows.KeyOf(obj); err != nil {
			f.keyless++
			f.why = cmp.Or(f.why, err)
		} else if hash := maphash.Bytes(l.seed, key); l.adopts {
			f.keep(hash, obj)
		} else {
			l.compare(hash, obj)
		}
		return true
	})
	// If ctx has ended the listing may be incomplete: the function may have stopped for it.
	if err = cmp.Or(f.odd, err, ctx.Err()); err != nil {
		return err
	}
	if l.plan != nil || !l.adopts && !l.cfg.OrphansOnly {
		l.walk(ctx)
	}
	f.strays, f.upTo = nil, l.cfg.Rows.Revision()
	return ctx.Err()
}

// compare sorts an object that was listed. Each look-up has a snapshot of its own, since a listing may take long.
func (l *listing[Obj]) compare(hash uint64, obj Obj) {
	f, txn := &l.found, l.cfg.Rows.DB.ReadTxn()
	row, revision, has := l.cfg.Rows.Get(txn, obj)
	if !has {
		if _, twice := f.strays[hash]; !twice {
			if f.strays == nil {
				f.strays = map[uint64]struct{}{}
			}
			f.strays[hash] = struct{}{}
			f.unknown = append(f.unknown, stray[Obj]{obj, hash})
		}
		return
	}
	if l.cfg.OrphansOnly && l.plan == nil {
		return
	}
	f.seen = append(f.seen, hash)
	kind := l.cfg.Kind(txn, row, revision)
	failing := l.plan == nil && l.settles(kind)
	if !failing && !l.judges(kind) {
		return
	}
	switch equal, err := l.cfg.equal(row, obj); {
	case err != nil:
		f.odd = err
	case failing:
		if f.right == nil {
			f.right = map[uint64]bool{}
		}
		was, twice := f.right[hash]
		f.right[hash] = equal && (was || !twice)
	case !equal:
		l.note(hash, inspect.Different, row, kind, func() string { return l.cfg.diff(row, obj) })
	case l.plan == nil:
		f.equal++
	}
}

// settles reports whether a row with a kind of status that is equal becomes Done: it has failed or is blocked. Without
// Equal, that the target has its key says nothing.
func (l *listing[Obj]) settles(kind status.Kind) bool {
	return l.cfg.Equal != nil && (kind == status.KindError || kind == status.KindBlocked)
}

// judges reports whether a row with a kind of status is compared with what was listed.
func (l *listing[Obj]) judges(kind status.Kind) bool {
	if l.plan == nil {
		return kind == status.KindDone
	}
	return kind != status.KindUnset && (kind != status.KindDone || !l.cfg.OrphansOnly)
}

// equal reports whether a listed object is equal to its row. The error is the panic of the function for it.
func (c *Config[Obj]) equal(row, obj Obj) (equal bool, err error) {
	if c.Equal == nil {
		return true, nil
	}
	err = c.Guard("equal", func() error { equal = c.Equal(row, obj); return nil })
	return equal, err
}

// Diff returns the text of a difference for people; it may be empty. Safe from any goroutine.
func (r *Resync[Obj]) Diff(wanted, found Obj) string { return r.cfg.diff(wanted, found) }

// diff returns the text of a difference for people; empty if there is no function for it, or it panics.
func (c *Config[Obj]) diff(wanted, found Obj) (diff string) {
	if c.Diff != nil {
		_ = c.Guard("diff", func() error { diff = text.Cut(c.Diff(wanted, found), maxDiff); return nil })
	}
	return diff
}

// walk finds the rows that were not listed. That of a plan also counts those that are equal.
func (l *listing[Obj]) walk(ctx context.Context) {
	f := &l.found
	slices.Sort(f.seen)
	txn, n := l.cfg.Rows.DB.ReadTxn(), 0
	for row, revision := range l.cfg.Rows.Table.All(txn) {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return
		}
		key := l.cfg.Rows.Key(row)
		hash := maphash.Bytes(l.seed, key)
		at, seen := slices.BinarySearch(f.seen, hash)
		if _, before := f.strays[hash]; before || seen && l.plan == nil {
			continue // before: it was listed when it had no row
		}
		kind := l.cfg.Kind(txn, row, revision)
		switch {
		case !l.judges(kind):
		case !seen:
			l.note(hash, inspect.Missing, row, kind, nil)
		case f.repairs[hash] == "":
			f.equal++
			twice := at+1 < len(f.seen) && f.seen[at+1] == hash
			switch pending := kind == status.KindPending; {
			case kind == status.KindDone || l.plan.has(hash):
			case pending && !twice && l.plan.adopts(key), l.settles(kind):
				f.adopted++
			default:
				f.reapplied++
			}
		}
	}
	f.seen = nil
}

// note records what is wrong with a row whose status is of a kind. diff returns the text for people; it may be nil.
func (l *listing[Obj]) note(hash uint64, wrong string, row Obj, kind status.Kind, diff func() string) {
	f := &l.found
	if f.repairs == nil {
		f.repairs = map[uint64]string{}
	}
	if _, twice := f.repairs[hash]; twice {
		return
	}
	f.repairs[hash] = wrong
	f.count(wrong, 1)
	most := maxDifferences
	if l.plan != nil {
		most = maxPlanned
	}
	if len(f.first) == most {
		return
	}
	of := named{inspect.Difference{Key: l.cfg.Rows.Name(row), Kind: wrong}, hash}
	if kind != status.KindDone {
		of.Status = kind.String()
	}
	if diff != nil {
		of.Diff = diff()
	}
	f.first = append(f.first, of)
}

// count adds n to the repairs of a kind.
func (f *found[Obj]) count(kind string, n int) {
	if kind == inspect.Missing {
		f.missing += n
	} else {
		f.different += n
	}
}

// drop forgets what is wrong with a row.
func (f *found[Obj]) drop(hash uint64) {
	delete(f.right, hash)
	if kind, wrong := f.repairs[hash]; wrong {
		f.count(kind, -1)
		delete(f.repairs, hash)
	}
}
