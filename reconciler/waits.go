// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/progress"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// Milestone is what [Loop.Wait] and [Loop.WaitFor] wait for: [Attempted] or [Applied]. Its String
// method returns the name in lower case.
type Milestone = progress.Milestone

const (
	// Attempted is reached when every change has been attempted at least once, with any result. A
	// change of a paused object (see [Loop.PauseObjects]) counts as attempted, because it will not be
	// attempted. So does, except for [Loop.WaitFor] and [Loop.WaitKey], a change of an object that
	// failed so recently that it waits for its minimum backoff.
	Attempted = progress.Attempted
	// Applied is reached when every change is in the target: nothing is failing, blocked, paused or
	// waiting.
	Applied = progress.Applied
)

// validateMilestone returns an error if m is not a milestone.
func validateMilestone(m Milestone) error {
	if m >= progress.NumMilestones {
		return fmt.Errorf("waiting for %s, must be Attempted or Applied", m)
	}
	return nil
}

// ErrNoStatus is returned if the rows carry the status and that of a row is zero: the row is never
// reconciled. Set its status to Pending to have it reconciled.
var ErrNoStatus = errors.New("the row has no status and is never reconciled")

// Wait blocks until every change of the table up to a revision, including deletions, has reached the
// milestone. It returns the objects of these changes that are not in the target: failing, blocked or
// paused ones if the milestone is [Attempted], none if it is [Applied]. The revision of a write is
// what Table.Revision returns for the transaction that its Commit returns.
//
// A row whose status was made before the call counts as changed before it, even if it is written later.
//
// A change that is followed by another change of the same object counts as the later one, so that an
// object that changes again and again delays no wait. Rows with a zero status do not count. A row that
// another writer wrote again before the call has a later revision, and Wait does not wait for it;
// [Loop.WaitAll] does.
//
// When ctx ends first, the error wraps that of ctx and contains the revision up to which everything
// was attempted. The objects that are not applied are returned, as far as the loop has read the
// table, and the rows that wait for the first listing of the target; a loop that is stuck in an operation has 100 ms to
// list them. Before the reconciler runs,
// Wait waits for it to start. After it has stopped, the error is [inspect.ErrStopped], unless every
// change up to the revision was applied before.
//
// The deletion of an orphan (see [Lister]) is a change of the revision at which it was found: while it fails, a
// wait for [Applied] of that revision or a later one goes on. [Loop.WaitFor] waits for its objects only.
//
// A wait does not cover another run of an object that is Done, which [Loop.Reapply] or a trigger (see package trigger)
// has asked for. While the breaker is open the table is read at probes only, so a wait for [Attempted] may last until the
// next probe.
//
// Safe from any goroutine. Any number of calls may wait; they cost a round nothing until their
// milestone is reached. In an operation of this reconciler the error is [ErrInOperation], at once.
func (l *Loop[Obj]) Wait(ctx context.Context, until statedb.Revision, m Milestone) (inspect.Unapplied, error) {
	return l.awaitRevision(ctx, progress.NewWait[remainder[Obj]](until, m))
}

// awaitRevision begins a wait and blocks until it is over.
func (l *Loop[Obj]) awaitRevision(ctx context.Context, w *progress.Wait[remainder[Obj]]) (inspect.Unapplied, error) {
	if err := validateMilestone(w.Milestone); err != nil {
		return inspect.Unapplied{}, err
	}
	if err := l.mayWait(ctx); err != nil {
		return inspect.Unapplied{}, err
	}
	w.Detailed = true
	if reached, low := l.progress.Join(w, l.rows.Revision); reached {
		if low == 0 || low > w.Until {
			return inspect.Unapplied{}, nil
		}
		a, err := ask(ctx, l.view, func(b *answers[Obj]) remainder[Obj] { return b.upTo(w.Until) })
		if err == nil {
			return l.view.unapplied(a), nil
		}
		return l.giveUp(ctx, w, err)
	}
	select {
	case a := <-w.Reached:
		return l.view.unapplied(a), nil
	case <-ctx.Done():
		return l.giveUp(ctx, w, ctx.Err())
	case <-l.life.ended:
		return l.giveUp(ctx, w, inspect.ErrStopped)
	}
}

// giveUp ends a wait that failed with err, and returns what is not applied, as far as the loop
// answers.
func (l *Loop[Obj]) giveUp(ctx context.Context, w *progress.Wait[remainder[Obj]], err error) (inspect.Unapplied, error) {
	var rest inspect.Unapplied
	var why error
	stopped := errors.Is(err, inspect.ErrStopped)
	if !stopped && len(w.Reached) == 0 {
		var a remainder[Obj]
		a, why = askBriefly(ctx, l.view, func(b *answers[Obj]) remainder[Obj] { return b.upTo(w.Until) })
		if rest = l.view.unapplied(a); len(a.keys) == 0 && why == nil {
			rest = l.view.unlisted(w.Until)
		}
	}
	// Not before the loop has answered: the wait may be reached until then.
	reached := l.progress.Leave(w)
	select {
	case a := <-w.Reached:
		// This is newer than an answer of the loop.
		return l.view.unapplied(a), nil
	default:
	}
	switch {
	case reached && w.Milestone == Applied:
		return inspect.Unapplied{}, nil
	case reached && !stopped && why == nil:
		return rest, nil
	}
	revision, _ := l.progress.Now()
	return rest, fmt.Errorf("reconciler %q: waiting for revision %d to be %s, attempted up to %d: %w",
		called(l.ID()), w.Until, w.Milestone, revision, unanswered(err, why))
}

// maxListed bounds the keys that are listed, and maxCounted those that are counted: the goroutine of
// the loop does both.
const (
	maxListed  = 100
	maxCounted = 10_000
)

// remainder is what is unreconciled up to a revision: the keys that are unreconciled for longest, and
// the number of the others.
type remainder[Obj any] struct {
	keys []core.KeyInfo[Obj]
	more int
}

// answers is what the loop gives to questions. The unreconciled keys are listed once for all of them.
type answers[Obj any] struct {
	r      *runner[Obj]
	keys   []core.KeyInfo[Obj]
	listed bool
	// until and last are those of the latest answer, for the next question with the same revision.
	until statedb.Revision
	last  remainder[Obj]
}

func (b *answers[Obj]) upTo(until statedb.Revision) remainder[Obj] {
	if !b.listed {
		b.listed = true
		b.r.core.Index.Unreconciled(0, func(u core.UnreconciledKey[Obj]) bool {
			b.keys = append(b.keys, u.Describe())
			return len(b.keys) < maxListed
		})
	} else if b.until == until {
		return b.last
	}
	n := 0
	for n < len(b.keys) && b.keys[n].Since <= until {
		n++
	}
	b.until, b.last = until, remainder[Obj]{keys: b.keys[:n:n]}
	if n == maxListed {
		b.last.more = b.r.core.Index.CountUnreconciled(until, maxListed+maxCounted) - n
	}
	return b.last
}

// endWaits reports to waits how far the loop has come. It is called at the end of a round, while the
// batch of the round is still known.
func (r *runner[Obj]) endWaits() {
	r.checkWaits()
	low := r.core.Index.LowWatermark()
	over := r.shared.progress.Publish(r.core.Index.Attempted(r.observer.Revision()), low, r.observer.LastWanted())
	if len(over) == 0 {
		return
	}
	b := answers[Obj]{r: r}
	for _, w := range over {
		var a remainder[Obj]
		if w.Detailed && low > 0 && low <= w.Until {
			a = b.upTo(w.Until)
		}
		w.Reached <- a
	}
}

// checkWaits ends waits for keys that are over, and wakes those who need objects of the loop. If there are more, another
// pass follows at once.
func (r *runner[Obj]) checkWaits() {
	// A pass without waits begins no transaction for them.
	waiting := r.shared.keyWaits.Waiting() > 0
	state := r.observer.HandedOver(waiting)
	more := waiting && r.shared.keyWaits.Check(state)
	if r.shared.needs.Check(r.observer.HandedOverTo()) || more {
		r.shared.calls.made.Send()
	}
}

// unapplied makes a remainder readable for people.
func (v *view[Obj]) unapplied(a remainder[Obj]) inspect.Unapplied {
	if len(a.keys) == 0 {
		return inspect.Unapplied{}
	}
	rest := inspect.Unapplied{Keys: make([]inspect.Unreconciled, len(a.keys)), More: a.more}
	txn, g := v.rows.DB.ReadTxn(), v.gates()
	for i := range a.keys {
		d := &a.keys[i]
		rest.Keys[i] = v.unreconciled(g, d, txn)
	}
	return rest
}

// unlisted returns the rows up to a revision that wait for the first listing of the target: until it has ended, the loop
// does not read the table.
func (v *view[Obj]) unlisted(until statedb.Revision) (rest inspect.Unapplied) {
	g := v.gates()
	if !g.state.health.Waits {
		return rest
	}
	txn, read := v.rows.DB.ReadTxn(), 0
	for row, revision := range v.rows.Table.LowerBound(txn, statedb.ByRevision[Obj](0)) {
		read++
		switch asked := v.rows.Asked(row); {
		case revision > until, rest.More == maxCounted, read > maxScanned:
			return rest
		case !asked.IsPendingOrRefreshing():
		case len(rest.Keys) == maxListed:
			rest.More++
		default:
			key := v.rows.Key(row)
			rest.Keys = append(rest.Keys, inspect.Unreconciled{
				Key: key, State: g.shown(inspect.StateUnseen, key), Err: errors.New(g.state.awaitsListing()),
			})
		}
	}
	return rest
}

// unreconciled explains why a key is not reconciled.
func (v *view[Obj]) unreconciled(g gates, d *core.KeyInfo[Obj], txn statedb.ReadTxn) inspect.Unreconciled {
	row, revision, found := v.rows.Get(txn, d.Obj)
	u := inspect.Unreconciled{
		Key: v.rows.Key(d.Obj), Deleted: d.Deleted, Attempts: d.Failures,
	}
	u.State = g.shown(inspect.State(d.State.String()), u.Key)
	switch {
	case d.Failure != "":
		u.Err = errors.New(d.Failure)
	case d.Reason != "":
		u.Err = errors.New(d.Reason + v.because(u.Key))
	case found && !d.Deleted:
		u.Err = v.reasonOf(u.Key, v.ledger.Status(txn, row, revision))
	}
	return u
}

// reasonOf returns why a row is not reconciled, as far as its status has a reason.
func (v *view[Obj]) reasonOf(key index.Key, s Status) error {
	switch {
	case s.Error == nil:
	case s.Kind == status.KindError:
		return errors.New(*s.Error)
	case s.Kind == status.KindBlocked:
		return errors.New(*s.Error + v.because(key))
	}
	return nil
}

// WaitUntilReconciled implements [Reconciler]. In an operation of this reconciler the error is
// [ErrInOperation], at once.
func (l *Loop[Obj]) WaitUntilReconciled(ctx context.Context, untilRevision statedb.Revision) (revision, retryLowWatermark statedb.Revision, err error) {
	if err := l.mayWait(ctx); err != nil {
		revision, retryLowWatermark = l.progress.Now()
		return revision, retryLowWatermark, err
	}
	return l.progress.Await(ctx, untilRevision, l.rows.Revision)
}
