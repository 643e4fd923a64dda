// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package resync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/execute"
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/signal"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// Config is the configuration of a Resync.
type Config[Obj any] struct {
	Rows *rows.Rows[Obj]
	// List lists the target.
	List func(ctx context.Context, txn statedb.ReadTxn, yield func(Obj) bool) error
	// OrphansOnly: rows are not judged.
	OrphansOnly bool
	// Equal reports whether a listed object is equal to its row; nil if every one is. Diff returns the difference for
	// people; it may be nil.
	Equal func(wanted, found Obj) bool
	Diff  func(wanted, found Obj) string
	// Done reports whether the status of a row that txn has at a revision is Done. It is safe from any goroutine.
	Done func(txn statedb.ReadTxn, row Obj, revision statedb.Revision) bool
	// Tracks reports whether the core has an entry for the key of an object.
	Tracks func(Obj) bool
	Budget Budget
	// Timeout returns how long the loop waits for the first listing. Each listing should be over by then.
	Timeout func() time.Duration
	Now     func() time.Duration
	// Guard calls a function of the program and returns its panic as an error.
	Guard func(name string, f func() error) error
}

// Resync lists the target and compares. It belongs to one goroutine. Times are those of one clock.
type Resync[Obj any] struct {
	cfg Config[Obj]
	// Ended is sent when a listing has ended: call Take.
	Ended signal.Signal

	adoption adoption[Obj]
	refused  refusals
	// listing is the listing that runs, or that waits for Finish.
	listing *listing[Obj]
	// repairs has the rows of the last result that are not repaired, by the hash of the key with the seed.
	repairs map[uint64]difference
	seed    maphash.Seed
	// repaired has keys that were repaired, recurring is the line about those whose repairs do not hold.
	repaired  map[string]*repaired
	recurring string
}

// New returns a Resync.
func New[Obj any](cfg Config[Obj]) *Resync[Obj] {
	r := &Resync[Obj]{cfg: cfg, Ended: signal.New()}
	// Calls may come before the loop starts.
	r.refused.collect(cfg.Equal != nil)
	return r
}

func (r *Resync[Obj]) timeout() time.Duration { return r.cfg.Timeout() }

// patience is how long a listing may run before it is reported.
func (r *Resync[Obj]) patience() time.Duration {
	return max(cmp.Or(r.timeout(), execute.Long), time.Second)
}

// WaitForFirst is called at the start of a loop that adopts, and when what it has listed may be out of date: the loop waits
// for a listing, not longer than Timeout. If that is zero, it does not wait, and adopts nothing.
func (r *Resync[Obj]) WaitForFirst(now time.Duration) {
	r.adoption = adoption[Obj]{waiting: r.timeout() > 0, since: now}
	r.refused.collect(r.adoption.waiting)
}

// Start begins a listing. txn is the snapshot that the target is listed against.
func (r *Resync[Obj]) Start(ctx context.Context, txn statedb.ReadTxn) {
	ctx, cancel := context.WithCancel(ctx)
	l := &listing[Obj]{
		cfg: &r.cfg, seed: maphash.MakeSeed(), started: time.Now(), began: r.cfg.Now(), adopts: r.adoption.waiting,
		cancel: cancel, ended: make(chan struct{}), touched: map[uint64]struct{}{},
	}
	r.listing = l
	go l.run(ctx, txn, r.Ended.Send)
}

// Stop ends and forgets the listing, if there is one that has not been taken or finished, and waits for its goroutine.
func (r *Resync[Obj]) Stop() (had bool) {
	l := r.listing
	if l == nil {
		return false
	}
	l.cancel()
	<-l.ended
	r.listing = nil
	return true
}

// Running reports whether the target is being listed, and since when.
func (r *Resync[Obj]) Running() (since time.Time, running bool) {
	if r.listing == nil || r.listing.hasEnded() {
		return time.Time{}, false
	}
	return r.listing.started, true
}

func (l *listing[Obj]) hasEnded() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// Next returns when Look, Finish or Trouble has to be called again; false if they need not be.
func (r *Resync[Obj]) Next(now time.Duration) (at time.Duration, ok bool) {
	if _, running := r.Running(); running {
		if at = after(r.listing.began, r.patience()); at > now {
			ok = true
		}
	} else if r.listing != nil && r.listing.verdict.begun {
		return now, true
	}
	a := &r.adoption
	if until := r.until(); (a.waiting || a.comparing) && until > now && (!ok || until < at) {
		at, ok = until, true
	}
	return at, ok
}

// Attempt is an operation that has ended. Adopted: it was not called. Repair: a resync has asked for it.
type Attempt[Obj any] struct {
	Row                                 Obj
	Adopted, Deleted, Repair, Succeeded bool
}

// Notes reports whether [Resync.NoteAttempt] has to be called also for an operation that is no repair.
func (r *Resync[Obj]) Notes() bool {
	return r.listing != nil || len(r.repairs) > 0 || r.adoption.comparing || len(r.repaired) > 0
}

// NoteAttempt records that an operation has ended: what was listed before says nothing about its key.
func (r *Resync[Obj]) NoteAttempt(op Attempt[Obj]) {
	if l := r.listing; l != nil {
		l.touch(l.hash(op.Row))
	}
	if len(r.repairs) > 0 {
		delete(r.repairs, maphash.Bytes(r.seed, r.cfg.Rows.Key(op.Row)))
	}
	if r.adoption.comparing {
		r.adoption.noteAttempt(r, op)
	}
	if op.Repair || len(r.repaired) > 0 {
		r.noteRepair(op)
	}
}

// Wants reports whether a row is to be repaired. A paused row is, when it is resumed: the core knows that.
func (r *Resync[Obj]) Wants(row Obj, revision statedb.Revision) bool {
	return r.Wrong(row) != "" && !r.cfg.Tracks(row) && r.cfg.Done(r.cfg.Rows.DB.ReadTxn(), row, revision)
}

// Wrong returns what the last result says of a row that has not been repaired since: [inspect.Missing],
// [inspect.Different], or nothing.
func (r *Resync[Obj]) Wrong(row Obj) string {
	if len(r.repairs) == 0 {
		return ""
	}
	d, wrong := r.repairs[maphash.Bytes(r.seed, r.cfg.Rows.Key(row))]
	if !wrong {
		return ""
	}
	return d.kind()
}

// EndRepairs is called when the loop has looked at each row that was to be repaired.
func (r *Resync[Obj]) EndRepairs() { r.repairs = nil }

// Result is the result of a listing that worked.
type Result struct {
	Record inspect.Resync
	// Repairs reports whether some rows are to be repaired: those for which [Resync.Wants] is true.
	Repairs bool
	// Err is set if the budget does not allow the orphans to be deleted: none was handed out. It is also set if objects
	// without a usable key were listed, which are left alone.
	Err error
}

// Take ends a listing that has failed, or that was the first one. adopts: the loop compares with it from now on. If it
// neither failed nor adopts, it came too late to be compared with, and the target has to be listed again. All others
// end with Finish.
func (r *Resync[Obj]) Take(now time.Duration) (l inspect.Resync, adopts, ended bool, err error) {
	last := r.listing
	if last == nil || !last.hasEnded() || !last.isForTake() {
		return l, false, false, nil
	}
	r.listing = nil
	l = inspect.Resync{Started: last.started, Took: last.found.took, Listed: last.found.listed, Adopts: last.adopts}
	if last.found.err != nil {
		return l, false, true, last.found.err
	}
	return l, r.adopt(now, last), true, nil
}

// isForTake reports whether a listing that has ended is one for Take.
func (l *listing[Obj]) isForTake() bool { return l.found.err != nil || l.adopts }

// slice bounds the keys that one call of [Resync.Finish] looks at: changes wait for it.
const slice = 1024

// verdict is how far Finish has come with a listing that has worked.
type verdict struct {
	begun, weighed bool
	// dropped counts the touched keys whose repairs were dropped. judged counts the unknown objects that were looked at,
	// orphans those of them that are orphans, and handed the orphans that were handed out.
	dropped, judged, orphans, handed int
	// err is set if the budget does not allow the orphans to be deleted.
	err error
	// repaired has the keys that were repaired before, by their hashes.
	repaired map[uint64]string
}

// Finish judges a listing that has worked, and calls orphan with each object to delete, as of a revision of the table. Finish does a slice of that; over is true, once, when it has ended. It does
// nothing if there is no such listing, or the main cursor, which has passed everything up to the given revision, has not
// reached the end of the listing: until then the core does not know each deletion. A listing for Take, which may have
// ended since Take looked, is left to that.
func (r *Resync[Obj]) Finish(passed statedb.Revision, approved bool, orphan func(Obj, statedb.Revision) bool) (out Result, over bool) {
	l := r.listing
	if l == nil || !l.hasEnded() || l.isForTake() || passed < l.found.upTo {
		return out, false
	}
	v, f, txn := &l.verdict, &l.found, r.cfg.Rows.DB.ReadTxn()
	if !v.begun {
		v.begun, v.repaired = true, r.hashRepaired(l)
	}
	for range slice {
		switch {
		case v.dropped < len(l.order):
			f.drop(l.order[v.dropped])
			v.dropped++
		case v.judged < len(f.unknown):
			if s := f.unknown[v.judged]; r.isOrphan(txn, s) {
				f.unknown[v.orphans] = s
				v.orphans++
				if key, again := v.repaired[s.hash]; again {
					r.repaired[key].wrong = inspect.Orphan
				}
			}
			v.judged++
		case !v.weighed:
			v.weighed = true
			if !approved {
				v.err = r.cfg.Budget.check(v.orphans, f.listed)
			}
		case v.err == nil && v.handed < v.orphans:
			// It may be wanted by now.
			if s := f.unknown[v.handed]; r.isOrphan(txn, s) {
				orphan(s.object, r.cfg.Rows.Table.Revision(txn))
			}
			v.handed++
		default:
			return r.conclude(l), true
		}
	}
	return out, false
}

// conclude returns the result of a listing when its orphans are handed out.
func (r *Resync[Obj]) conclude(l *listing[Obj]) Result {
	f, v := &l.found, &l.verdict
	r.judgeRepaired(l)
	record := inspect.Resync{
		Started: l.started, Took: f.took, Listed: f.listed, Equal: f.equal,
		Different: f.wrong[isDifferent], Missing: f.wrong[isMissing], Orphan: v.orphans,
	}
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
	r.listing, r.adoption.blind = nil, false
	r.repairs, r.seed = f.repairs, l.seed
	return Result{Record: record, Repairs: len(f.repairs) > 0, Err: f.trouble(v.err)}
}

// drop forgets what is wrong with a row of which an operation has ended.
func (f *found[Obj]) drop(hash uint64) {
	if d, wrong := f.repairs[hash]; wrong {
		delete(f.repairs, hash)
		f.wrong[d]--
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
