// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/chain"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/internal/keywaits"
	"github.com/statekeel/statekeel/status"
)

// member makes a loop a part of chains.
type member = chain.Hidden[chain.Part]

// part is a loop as a part of chains: it is where they end.
type part[Obj any] struct{ l *Loop[Obj] }

func (p part[Obj]) Controller() any  { return p.l }
func (p part[Obj]) Tables() []string { return []string{p.l.rows.Table.Name()} }
func (p part[Obj]) Output() string   { return "" }
func (p part[Obj]) DB() *statedb.DB  { return p.l.rows.DB }

func (p part[Obj]) Settle(ctx context.Context) error {
	_, err := p.l.WaitAll(ctx, Applied)
	return err
}

func (p part[Obj]) Find(table, text string) (row chain.Row, name string, found bool) {
	key, revision, found := p.l.rows.Find(p.l.rows.DB.ReadTxn(), text)
	return chain.Row{Table: table, Key: string(key), Revision: revision}, p.l.rows.KeyName(key), found
}

func (p part[Obj]) Uncertain(ctx context.Context) error {
	why, err := askBriefly(ctx, p.l.view, (*answers[Obj]).uncertain)
	if err == nil && why != "" {
		err = errors.New(why)
	}
	return err
}

// uncertain says why the target may have what an earlier run has left; empty if it cannot.
func (b *answers[Obj]) uncertain() (why string) {
	r := b.r
	switch {
	case r.left.none || !r.shared.looksByItself():
	case r.left.upTo == 0:
		why = "the first look at the target is not over, which may have what an earlier run has left"
		if failure := r.reports.view.stats.state.Load().health.PruneFailure; failure != "" {
			why += ": " + failure
		}
	default:
		r.left.none = true
		r.core.Index.Unreconciled(0, func(u core.UnreconciledKey[Obj]) bool {
			if u.Since > r.left.upTo {
				return false
			}
			if u.Deleted {
				r.left.none = false
				why = r.shared.rows.KeyName([]byte(u.Key)) + ", which an earlier run may have left, is not deleted yet"
			}
			return !u.Deleted
		})
	}
	return why
}

// applied is what a loop knows about the row of a key, or its deletion.
type applied struct {
	// is: it is applied, since a time; zero if that is not known. wrong: a resync has found it wrong, and it is not
	// repaired yet. unread: it is a deletion, and the loop may not have read all changes of the key.
	is, wrong, unread bool
	since             time.Time
}

// applied tells whether the present row of a key, or its deletion, is applied.
func (b *answers[Obj]) applied(key index.Key) (a applied) {
	v := b.r.reports.view
	txn := v.rows.DB.ReadTxn()
	obj, revision, found := v.rows.ByKey(txn, key)
	_, has := b.r.core.KeyInfo(string(key), 0)
	switch {
	case found:
		s := v.ledger.Status(txn, obj, revision)
		a.wrong = b.r.resync.Wrong(obj) != ""
		a.is, a.since = s.Kind == status.KindDone && !a.wrong, s.UpdatedAt
	case !has: // that of an orphan has an entry, too
		// Of an earlier state of the table it is not known whether it had the row again, which was not read.
		a.is = b.r.observer.HandedOverTo() >= v.rows.Table.Revision(txn)
		a.unread = !a.is
	}
	return a
}

// Follow asks the loop between two rounds. The present row of the key is the version, or a later one.
func (p part[Obj]) Follow(ctx context.Context, row chain.Row) chain.Step {
	held, key := chain.Held{Table: row.Table}, index.Key(row.Key)
	a, err := askBriefly(ctx, p.l.view, func(b *answers[Obj]) applied { return b.applied(key) })
	if err == nil && a.unread {
		brief, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		a.is = p.await(brief, row) == nil
	}
	switch {
	case err != nil:
		held.Why = err.Error()
	case a.is:
		return chain.Step{Since: a.since}
	case a.unread:
		held.Why = "the reconciler has not read all changes of the table yet"
	default:
		held.Object = p.l.rows.KeyName(key)
	}
	return chain.Step{Held: []chain.Held{held}}
}

func (p part[Obj]) Await(ctx context.Context, row chain.Row) (step chain.Step, err error) {
	if err := p.l.mayWait(ctx); err != nil {
		return step, err
	}
	key := index.Key(row.Key)
	for {
		if err := p.await(ctx, row); err != nil {
			return step, err
		}
		a, err := ask(ctx, p.l.view, func(b *answers[Obj]) applied { return b.applied(key) })
		if err != nil || !a.wrong {
			// If it is not applied now, the table had another version a moment ago.
			return chain.Step{Since: time.Now()}, err
		}
		// The repair ends no wait.
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return step, ctx.Err()
		}
	}
}

// await waits until the row of a key, or its deletion, is applied, or a later version.
func (p part[Obj]) await(ctx context.Context, row chain.Row) error {
	return p.l.waitForOne(ctx, &keywaits.Wait[Obj]{
		Milestone: Applied, Key: row.Key,
		Get: func(txn statedb.ReadTxn) (Obj, statedb.Revision, <-chan struct{}, bool) {
			return p.l.rows.ByKeyWatch(txn, index.Key(row.Key))
		},
	})
}

// lookAgain is the time between two looks at a row that waits for its repair.
const lookAgain = 100 * time.Millisecond
