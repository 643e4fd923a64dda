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
	"github.com/statekeel/statekeel/internal/rows"
	"github.com/statekeel/statekeel/internal/text"
	"github.com/statekeel/statekeel/status"
)

// Milestone is what [Loop.Wait] and [Loop.WaitFor] wait for. Its String is its name in lower case.
type Milestone = progress.Milestone

const (
	// Attempted: every change has been attempted at least once, with whatever result.
	// That of an object which is paused (see [Loop.PauseObjects]) counts as well, since
	// nobody will attempt it. So does, for [Loop.Wait] only, that of an object which
	// failed so recently that it has to wait for its minimum backoff.
	Attempted = progress.Attempted
	// Applied: every change is in the target. Nothing of it is failing, blocked, paused
	// or waiting.
	Applied = progress.Applied
)

// validateMilestone returns an error if there is no such milestone.
func validateMilestone(m Milestone) error {
	if m >= progress.NumMilestones {
		return fmt.Errorf("waiting for %s, must be Attempted or Applied", m)
	}
	return nil
}

var (
	// ErrStopped is what a wait ends with when the reconciler has stopped.
	ErrStopped = errors.New("the reconciler has stopped")
	// ErrNoStatus is the error of a row without a status, which is left alone: set its
	// status to Pending for it to be reconciled.
	ErrNoStatus = errors.New("the row has no status and is never reconciled")
)

// Owed is what a wait was for and the target does not have. The zero value: nothing.
type Owed struct {
	// Keys are those keys: of [Loop.Wait] the 100 that have been unreconciled the
	// longest, in that order, of [Loop.WaitFor] all, in the order of its arguments.
	Keys []Unreconciled
	// More is how many further keys there are, counted up to 10,000 or so.
	More int
}

// Err returns an error that names some of the keys, each with its own error, and counts
// the others; nil if nothing is owed.
func (o Owed) Err() error {
	var errs []error
	for i, u := range o.Keys {
		if i == maxExamples {
			break
		}
		errs = append(errs, u)
	}
	if omitted := len(o.Keys) + o.More - len(errs); omitted > 0 {
		errs = append(errs, fmt.Errorf("%d further keys are not reconciled", omitted))
	}
	return errors.Join(errs...)
}

// Unreconciled is a key that is not reconciled, and why. It is an error, for those who
// want to return it as one.
type Unreconciled struct {
	// Key is the primary key.
	Key index.Key
	// Deleted: it is to leave the target.
	Deleted bool
	// State is where the reconciler has it: "retry" (failed, and waits for its backoff),
	// "terminal" (failed for good, until it changes), "blocked", "paused", "held"
	// (changed, and waits for the minimum backoff since it failed), "tripped" (waits for
	// its breaker to close), "queued" (waits for another of its group), "ready" (its turn
	// comes), "in flight" and "awaited" (being worked on, or the change that came
	// meanwhile is about to be looked at), "unseen" (the change is behind others and has
	// not been looked at), and "left alone" (nobody has asked for it to be reconciled).
	// If the reconciler was too busy to be asked it is what the status of the row says,
	// "pending", "refreshing", "error" or "blocked", or else "unknown".
	State string
	// Attempts is how many attempts in a row have failed; zero, too, if the reconciler
	// was too busy to be asked.
	Attempts int
	// Err is the text of the last failure, or the reason of a blocked row; nil if there
	// is neither. It is made of a text: it wraps nothing.
	Err error
}

// Error returns one line with the key, the state and the error.
func (u Unreconciled) Error() string {
	line := rows.KeyText(u.Key)
	if u.Deleted {
		line = "deletion of " + line
	}
	line += " is " + u.State
	if u.State == core.Retry.String() {
		line = fmt.Sprintf("%s after %d attempt(s)", line, u.Attempts)
	}
	if u.Err != nil {
		line += ": " + text.Printable(u.Err.Error())
	}
	return line
}

// Unwrap returns Err.
func (u Unreconciled) Unwrap() error { return u.Err }

// Wait blocks until the milestone is reached by every change of the table up to a
// revision, deletions among them, and returns what of these is not in the target: failing,
// blocked or paused objects if the milestone is [Attempted], nothing if it is [Applied].
// The revision of a write is what Table.Revision returns for the transaction of its
// commit. A change that is followed by another of the same object counts as that one, so
// that what changes again and again holds nobody up; rows without a status do not count.
// A row that others have written again before the call is at a later revision, and is no longer
// waited for: where there are others, [Loop.WaitAll] waits for that, too.
//
// When ctx ends before, the error wraps that of ctx, and what is owed is returned as far
// as it has been looked at: the error says how far that is. A reconciler that is stuck in
// an operation is given 100 ms to say. Before the reconciler runs, Wait waits for that;
// when it has stopped, the error is [ErrStopped] if what was waited for cannot be told.
//
// Safe from any goroutine. Any number may wait: they are not woken before what they wait
// for, and until then cost a round nothing. In an operation of this reconciler the error is
// [ErrInOperation], at once.
func (l *Loop[Obj]) Wait(ctx context.Context, until statedb.Revision, m Milestone) (Owed, error) {
	return l.awaitRevision(ctx, progress.NewWait[account[Obj]](until, m))
}

// awaitRevision blocks until a wait is over that has not begun.
func (l *Loop[Obj]) awaitRevision(ctx context.Context, w *progress.Wait[account[Obj]]) (Owed, error) {
	if err := validateMilestone(w.Milestone); err != nil {
		return Owed{}, err
	}
	if err := l.mayWait(ctx); err != nil {
		return Owed{}, err
	}
	w.Detailed = true
	if reached, low := l.progress.Join(w, l.rows.Revision); reached {
		if low == 0 || low > w.Until {
			return Owed{}, nil
		}
		a, err := ask(ctx, l, func(b *books[Obj]) account[Obj] { return b.upTo(w.Until) })
		if err == nil {
			return l.owed(a), nil
		}
		return l.giveUp(ctx, w, err)
	}
	select {
	case a := <-w.Reached:
		return l.owed(a), nil
	case <-ctx.Done():
		return l.giveUp(ctx, w, ctx.Err())
	case <-l.ended:
		return l.giveUp(ctx, w, ErrStopped)
	}
}

// giveUp ends a wait that has come to an error, and says what is owed as far as the loop
// does.
func (l *Loop[Obj]) giveUp(ctx context.Context, w *progress.Wait[account[Obj]], err error) (Owed, error) {
	// Until the loop has answered: what the wait is for may change until then.
	defer l.progress.Leave(w)
	var owed Owed
	why, stopped := "", errors.Is(err, ErrStopped)
	if !stopped && len(w.Reached) == 0 {
		var a account[Obj]
		a, why = askBriefly(ctx, l, func(b *books[Obj]) account[Obj] { return b.upTo(w.Until) })
		owed = l.owed(a)
	}
	select {
	case a := <-w.Reached:
		// Also if that was after the answer: then it says more.
		return l.owed(a), nil
	default:
	}
	switch reached := l.progress.Reached(w); {
	case reached && w.Milestone == Applied:
		return Owed{}, nil
	case reached && !stopped && why == "":
		return owed, nil
	}
	revision, _ := l.progress.Now()
	return owed, fmt.Errorf("reconciler %q: waiting for revision %d to be %s, attempted up to %d%s: %w",
		l.ID().called(), w.Until, w.Milestone, revision, why, err)
}

const (
	// maxListed bounds the debts that are listed, and maxCounted those that are counted:
	// it is the loop that does.
	maxListed  = 100
	maxCounted = 10_000
)

// account is what is owed up to a revision: the oldest debts, and how many there are more.
type account[Obj any] struct {
	debts []core.Debt[Obj]
	more  int
}

// books say what is owed. Many may want to know at once: the debts are listed once for
// all of them.
type books[Obj any] struct {
	core   *core.Core[Obj]
	debts  []core.Debt[Obj]
	listed bool
	// until and last are the latest answer, for the next who asks the same.
	until statedb.Revision
	last  account[Obj]
}

func (b *books[Obj]) upTo(until statedb.Revision) account[Obj] {
	if !b.listed {
		b.listed = true
		b.core.Debts(func(d core.Debt[Obj]) bool {
			b.debts = append(b.debts, d)
			return len(b.debts) < maxListed
		})
	} else if b.until == until {
		return b.last
	}
	n := 0
	for n < len(b.debts) && b.debts[n].Since <= until {
		n++
	}
	b.until, b.last = until, account[Obj]{debts: b.debts[:n:n]}
	if n == maxListed {
		b.last.more = b.core.DebtsUpTo(until, maxListed+maxCounted) - n
	}
	return b.last
}

// publish tells those who wait how far the loop has come. It is called at the end of a
// round, while what was run in it is still known.
func (l *Loop[Obj]) publish() {
	if l.torn {
		return
	}
	l.keyWaits.Round(l.observer.Revision())
	low := l.core.LowWatermark()
	over := l.progress.Publish(l.core.Attempted(l.observer.Revision()), low, l.observer.LastWanted())
	if len(over) == 0 {
		return
	}
	b := books[Obj]{core: l.core}
	for _, w := range over {
		var a account[Obj]
		if w.Detailed && low > 0 && low <= w.Until {
			a = b.upTo(w.Until)
		}
		w.Reached <- a
	}
}

// owed says for people what an account has.
func (l *Loop[Obj]) owed(a account[Obj]) Owed {
	if len(a.debts) == 0 {
		return Owed{}
	}
	owed := Owed{Keys: make([]Unreconciled, len(a.debts)), More: a.more}
	txn := l.rows.DB.ReadTxn()
	for i := range a.debts {
		d := &a.debts[i]
		row, _, found := l.rows.Get(txn, d.Obj)
		owed.Keys[i] = l.unreconciled(d, row, found)
	}
	return owed
}

// unreconciled says for people what a key owes. row is that of the table, if found.
func (l *Loop[Obj]) unreconciled(d *core.Debt[Obj], row Obj, found bool) Unreconciled {
	u := Unreconciled{
		Key: l.rows.Key(d.Obj), Deleted: d.Deleted, State: d.State.String(), Attempts: d.Failures,
	}
	if d.Failure != "" {
		u.Err = errors.New(d.Failure)
	} else if found && !d.Deleted {
		u.Err = reasonOf(l.rows.GetStatus(row))
	}
	return u
}

// reasonOf returns why a row is not reconciled, as far as its status says.
func reasonOf(s Status) error {
	if s.Error == nil || s.Kind != status.KindError && s.Kind != status.KindBlocked {
		return nil
	}
	return errors.New(*s.Error)
}
