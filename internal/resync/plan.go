// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/reconciler/inspect"
)

// ErrEnded is returned for a plan that the end of the loop has cut short.
var ErrEnded = errors.New("the loop has ended")

// maxPlanned bounds the differences that a plan keeps.
const maxPlanned = 1000

// lock is held during a listing of the target: there is one at a time, of the loop or of a plan.
type lock chan struct{}

// take waits for the lock. The error is that of ctx, if it ends first.
func (l lock) take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l lock) give() { <-l }

// plans are what plans, which run on other goroutines, share with the loop.
type plans struct {
	lock lock
	// running is the plan that lists; nil if none does.
	running *atomic.Pointer[plan]
	// adopts: the loop adopts, or will when it starts.
	adopts *atomic.Bool
	// stopping ends when the loop is to end. stopped: the lock is kept.
	stopping context.Context
	cancel   context.CancelCauseFunc
	stopped  bool
}

func newPlans(adopts bool) plans {
	p := plans{lock: make(lock, 1), running: new(atomic.Pointer[plan]), adopts: new(atomic.Bool)}
	p.adopts.Store(adopts)
	p.stopping, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// stop ends the plans, and keeps the lock.
func (p *plans) stop() {
	p.cancel(ErrEnded)
	if !p.stopped {
		p.lock <- struct{}{}
		p.stopped = true
	}
}

// EndPlans ends plans, and no other begins. Safe from any goroutine.
func (r *Resync[Obj]) EndPlans() { r.plans.cancel(ErrEnded) }

// plan is a listing that changes nothing.
type plan struct {
	seed maphash.Seed
	// adopts reports whether a Pending row with a key that is equal to what is listed gets no operation.
	adopts func(key index.Key) bool

	mu sync.Mutex
	// touched has the keys of which an operation has ended since the listing began, by their hashes.
	touched map[uint64]struct{}
}

// add records that an operation on a key has ended.
func (p *plan) add(key index.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.touched[maphash.Bytes(p.seed, key)] = struct{}{}
}

// has reports whether an operation on a key has ended.
func (p *plan) has(hash uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, has := p.touched[hash]
	return has
}

// Plan lists the target, and returns what a resync would find with the rows of now, whatever their status is. adopts: the
// loop adopts what is equal, if it still does or will. It runs List on the goroutine of the caller. Safe from any goroutine.
func (r *Resync[Obj]) Plan(ctx context.Context, adopts bool) (planned inspect.Plan, err error) {
	if err := r.plans.stopping.Err(); err != nil {
		return planned, ErrEnded
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.plans.stopping, func() { cancel(ErrEnded) })()
	if err := r.plans.lock.take(ctx); err != nil {
		return planned, err
	}
	defer r.plans.lock.give()

	seed := maphash.MakeSeed()
	p := &plan{seed: seed, touched: map[uint64]struct{}{}, adopts: func(key index.Key) bool {
		return adopts && r.plans.adopts.Load() && !r.refusals.has(key)
	}}
	l := &listing[Obj]{cfg: &r.cfg, seed: seed, started: time.Now(), plan: p}
	r.plans.running.Store(p)
	defer r.plans.running.Store(nil)
	err = r.cfg.Guard("list", func() error { return l.list(ctx, r.cfg.Rows.DB.ReadTxn()) })
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return planned, err
	}
	return inspect.Plan{Resync: l.planned(), Reapplied: l.found.reapplied, Adopted: l.found.adopted}, nil
}

// planned returns what the listing of a plan has found. What was listed may show what was before an operation that has
// ended since: it says nothing about the key of that.
func (l *listing[Obj]) planned() inspect.Resync {
	f, txn := &l.found, l.cfg.Rows.DB.ReadTxn()
	l.plan.mu.Lock()
	l.touched = l.plan.touched
	l.plan.touched = map[uint64]struct{}{}
	l.plan.mu.Unlock()
	for hash := range l.touched {
		f.drop(hash)
	}
	found := inspect.Resync{
		Started: l.started, Took: time.Since(l.started), Listed: f.listed, Equal: f.equal, Different: f.different, Missing: f.missing,
	}
	for _, d := range f.first {
		if !l.isTouched(d.hash) {
			found.Differences = append(found.Differences, d.Difference)
		}
	}
	for _, s := range f.unknown {
		if _, _, wanted := l.cfg.Rows.Get(txn, s.object); wanted || l.isTouched(s.hash) {
			continue
		}
		if found.Orphan++; len(found.Differences) < maxPlanned {
			found.Differences = append(found.Differences, inspect.Difference{Key: l.cfg.Rows.Name(s.object), Kind: inspect.Orphan})
		}
	}
	slices.SortStableFunc(found.Differences, func(a, b inspect.Difference) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key, b.Key))
	})
	budget := l.cfg.Budget.check(found.Orphan, f.listed)
	if budget != nil {
		// Only the loop knows which of the objects had a row.
		budget = fmt.Errorf("%w; deletions of rows, which are counted here too, need none", budget)
	}
	if err := f.trouble(budget); err != nil {
		found.Error = err.Error()
	}
	return found
}
