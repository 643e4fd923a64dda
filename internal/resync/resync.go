// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/fights"
	"github.com/statekeel/statekeel/internal/outcome"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// Config is the configuration of a Resync.
type Config[Obj any] struct {
	Rows *rows.Rows[Obj]
	// List lists the target, Prune prunes it. At most one is set.
	List  func(ctx context.Context, txn statedb.ReadTxn, yield func(Obj) bool) error
	Prune func(ctx context.Context, txn statedb.ReadTxn) error
	// OrphansOnly: rows are not judged.
	OrphansOnly bool
	// Equal reports whether a listed object is equal to its row; nil if every one is. Diff returns the difference for
	// people; it may be nil.
	Equal func(wanted, found Obj) bool
	Diff  func(wanted, found Obj) string
	// Kind returns the kind of the status of a row that txn has at a revision. It is safe from any goroutine.
	Kind func(txn statedb.ReadTxn, row Obj, revision statedb.Revision) status.Kind
	// Tracks reports whether the core has an entry for the key of an object.
	Tracks func(Obj) bool
	// TracksKey is Tracks for a key. Fights has the keys that were repaired.
	TracksKey func(key string) bool
	Fights    *fights.Fights[Obj]
	// Orphan has the loop delete an orphan, as of a revision. Repair has it repair the rows that wanted returns true for
	// when it comes to them.
	Orphan func(Obj, statedb.Revision) bool
	Repair func(wanted func(Obj, statedb.Revision) bool)
	Budget Budget
	// Attempted returns the revision up to which everything was attempted. Busy reports whether operations run, and whether
	// one of them may never end.
	Attempted func() statedb.Revision
	Busy      func() (busy, stuck bool)
	// Settings returns the settings, which can change. It is called on the goroutine of the loop.
	Settings func() Settings
	Now      func() time.Duration
	// Guard calls a function of the program and returns its panic as an error.
	Guard func(name string, f func() error) error
}

// Settings are the settings of a Resync.
type Settings struct {
	// Interval is the time between two looks; 0 for none.
	Interval time.Duration
	// MinBackoff and MaxBackoff bound the wait after a failure.
	MinBackoff, MaxBackoff time.Duration
	// ListTimeout is how long the loop waits for the first listing. Each listing should be over by then.
	ListTimeout time.Duration
}

// Resync looks at the target. It belongs to the goroutine of the loop, except [Resync.Refuse], [Resync.Refused],
// [Resync.Plan] and [Resync.EndPlans]. Times are those of one clock.
type Resync[Obj any] struct {
	cfg Config[Obj]
	// Ended is sent when a listing has ended: call Step.
	Ended signal.Signal

	schedule
	// refused: the last resync whose listing worked stopped at its budget. approved: the next one has no budget.
	refused  atomic.Bool
	approved bool

	adoption adoption[Obj]
	refusals refusals
	// listing is the listing that runs, or that is judged.
	listing *listing[Obj]
	// repairs has the rows of the last result that are not repaired, by the hash of the key with the seed, right the failing
	// and blocked rows that are right.
	repairs map[uint64]string
	right   map[uint64]bool
	seed    maphash.Seed

	plans plans
}

// New returns a Resync.
func New[Obj any](cfg Config[Obj]) *Resync[Obj] {
	r := &Resync[Obj]{cfg: cfg, Ended: signal.New(), schedule: schedule{at: never}, plans: newPlans(cfg.Equal != nil)}
	// Calls may come before the loop starts.
	r.refusals.collect(cfg.Equal != nil)
	return r
}

// Pass is the state of the loop at the end of a pass.
type Pass struct {
	Now time.Duration
	// Txn is the snapshot of the pass: it has every object whose operation has started.
	Txn statedb.ReadTxn
	// Read is the revision up to which the main cursor has handed over everything.
	Read statedb.Revision
	// Paused: the whole loop is paused.
	Paused bool
}

// Result is the end of a look at the target.
type Result struct {
	// Record is what was found. Of a prune it has only how long that took.
	Record inspect.Resync
	// Err is set if the look failed, or the budget does not allow the orphans to be deleted: none is then. It is also set
	// if objects without a usable key were listed, which are left alone.
	Err error
	// Failures counts the failures in a row. The next look begins after After; 0 if none is planned.
	Failures int
	After    time.Duration
}

// Step ends a look at the target and begins the next one, if it is time. It returns what has ended; nil if nothing.
// changed: the adoption has begun, or has been given up.
func (r *Resync[Obj]) Step(ctx context.Context, p Pass) (ended *Result, changed bool) {
	before := r.adoption.phase
	ended = r.step(ctx, p)
	r.plans.adopts.Store(r.adoption.waiting || r.adoption.comparing)
	return ended, r.adoption.phase != before
}

func (r *Resync[Obj]) step(ctx context.Context, p Pass) *Result {
	r.lookAtTable(p)
	ended := r.end(p)
	if ended == nil {
		ended = r.endAdoption()
	}
	r.expire(p.Now)
	if !r.mayBegin(p.Paused) || !r.isDue(p.Now) {
		r.drain = drain{}
		return ended
	}
	if ctx.Err() != nil || !r.awaitOperations(p.Now) {
		return ended
	}
	r.requested, r.at = false, never
	switch {
	case r.cfg.List != nil:
		r.start(ctx, p.Txn)
	case r.cfg.Prune != nil:
		err := r.cfg.Prune(ctx, p.Txn)
		return r.conclude(&Result{Record: inspect.Resync{Took: r.cfg.Now() - p.Now}, Err: err})
	default:
		r.conclude(&Result{})
	}
	return ended
}

// awaitOperations reports whether the look may begin: a prune runs beside no operation. While it returns false, it decides
// whether the loop holds back other operations, see [Resync.Holds].
func (r *Resync[Obj]) awaitOperations(now time.Duration) bool {
	if r.cfg.Prune == nil {
		return true
	}
	busy, stuck := r.cfg.Busy()
	return r.drain.wait(now, !busy, stuck)
}

// lookAtTable checks whether the table is initialised, and whether what it had then was attempted.
func (r *Resync[Obj]) lookAtTable(p Pass) {
	if !r.ready {
		var initialized bool
		if initialized, r.initialized = r.cfg.Rows.Table.Initialized(p.Txn); !initialized {
			return
		}
		r.ready, r.initialized = true, nil
		if r.cfg.List != nil {
			r.gate = r.cfg.Rows.Table.Revision(p.Txn)
		}
		r.requested = r.requested || r.cfg.List != nil || r.cfg.Settings().Interval > 0
	}
	if r.gate > 0 && !p.Paused && r.cfg.Attempted() >= r.gate {
		r.gate = 0
	}
}

// mayBegin reports whether a look may begin when its time has come. The first listing of a loop that adopts waits for
// nothing, and changes nothing.
func (r *Resync[Obj]) mayBegin(paused bool) bool {
	return r.listing == nil && (r.adoption.waiting || r.isReady() && !paused)
}

// Initialized returns a channel that is closed when Step must be called again; nil if it need not be.
func (r *Resync[Obj]) Initialized() <-chan struct{} { return r.initialized }

// Request requests a look at the target as soon as possible. approve lifts the budget of that resync, if the last one was
// refused.
func (r *Resync[Obj]) Request(approve bool) {
	r.requested = true
	r.approved = r.approved || approve && r.refused.Load()
}

// Refused reports whether the last resync stopped at its budget. Safe from any goroutine.
func (r *Resync[Obj]) Refused() bool { return r.refused.Load() }

// Lists reports whether the target is being listed, or the listing judged.
func (r *Resync[Obj]) Lists() bool { return r.listing != nil }

// Reschedule begins the interval again after it was changed, unless the last look has failed and waits for its retry.
func (r *Resync[Obj]) Reschedule(now time.Duration) {
	if r.ready && r.failures == 0 {
		r.planAfter(now, r.cfg.Settings().Interval)
	}
}

// Holds reports whether no operation may begin: the loop waits for the first listing, or for a prune.
func (r *Resync[Obj]) Holds() bool { return r.adoption.waiting || r.drain.holding }

// Next returns when Step has to be called again; false if it need not be.
func (r *Resync[Obj]) Next(now time.Duration, paused bool) (at time.Duration, ok bool) {
	at = never
	switch l := r.listing; {
	case r.mayBegin(paused):
		at = r.beginsAt()
	case l == nil:
	case l.verdict.begun:
		at = now
	case !l.hasEnded():
		at = later(l.began, r.patience(), now)
	}
	if a := &r.adoption; a.waiting || a.comparing {
		at = min(at, later(a.since, r.cfg.Settings().ListTimeout, now))
	}
	return at, at < never
}

// conclude records the end of a look.
func (r *Resync[Obj]) conclude(out *Result) *Result {
	if err := outcome.Keep(out.Err); err != nil {
		what := "prune"
		if r.cfg.List != nil {
			what = "resync"
		}
		out.Record.Error = strings.Clone(outcome.TextOf(err))
		out.Err = fmt.Errorf("%s: %w", what, err)
	}
	out.Failures, out.After = r.plan(r.cfg.Now(), out.Err, r.cfg.Settings())
	r.refused.Store(r.awaits || r.refused.Load() && out.Failures > 0)
	return out
}

// Stop ends and forgets the listing, if there is one, and waits for its goroutine. It ends plans, waits for the one that
// lists, and no other begins.
func (r *Resync[Obj]) Stop() {
	if l := r.listing; l != nil {
		l.cancel()
		<-l.ended
		r.listing = nil
	}
	r.plans.stop()
}

// State is what a Resync reports to people.
type State struct {
	// Failure is the text of the last failure; empty if the last look succeeded. Failures counts the failures in a row.
	// Awaits: it was a resync that awaits approval.
	Failure  string
	Failures int
	Awaits   bool
	// Trouble is what is wrong with the listing; empty if nothing is.
	Trouble string
	// Waits: the loop waits for its first listing. Listing is since when the target is being listed; zero if it is not.
	Waits   bool
	Listing time.Time
	// At is when the next look is due; negative if none is planned.
	At time.Duration
}

// State returns the state at a time.
func (r *Resync[Obj]) State(now time.Duration) State {
	s := State{Failure: r.failure, Failures: r.failures, Awaits: r.awaits, Waits: r.adoption.waiting, At: -1}
	l := r.listing
	running := l != nil && !l.hasEnded()
	if running {
		s.Listing = l.started
	}
	if at := r.beginsAt(); at < never && r.mayBegin(false) {
		s.At = at
	}
	switch {
	case running && now-l.began >= r.patience():
		s.Trouble = fmt.Sprintf("the listing of the target runs since %s", l.started.Format(time.RFC3339))
	case r.adoption.blind:
		s.Trouble = "no listing of the target has worked within ListTimeout of the start: objects are applied without a comparison"
	}
	return s
}

// Note records operations that have ended: what was listed before says nothing about their keys.
func (r *Resync[Obj]) Note(ops []core.Operation[Obj]) {
	all := r.listing != nil || len(r.repairs)+len(r.right) > 0 || r.adoption.comparing
	p := r.plans.running.Load()
	for i := range ops {
		if p != nil && ops[i].Turn.Cause != core.CauseAdopted {
			p.add(r.cfg.Rows.Key(ops[i].Row))
		}
		if all {
			r.note(&ops[i])
		}
	}
}

func (r *Resync[Obj]) note(op *core.Operation[Obj]) {
	key := r.cfg.Rows.Key(op.Row)
	if l := r.listing; l != nil {
		l.touch(maphash.Bytes(l.seed, key))
	}
	if len(r.repairs)+len(r.right) > 0 {
		hash := maphash.Bytes(r.seed, key)
		delete(r.repairs, hash)
		delete(r.right, hash)
	}
	if r.adoption.comparing {
		r.noteCompared(op, key)
	}
}
