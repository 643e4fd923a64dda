// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/statedb"

	"github.com/statekeel/statekeel/internal/chain"
	"github.com/statekeel/statekeel/internal/core"
	"github.com/statekeel/statekeel/reconciler/inspect"
	"github.com/statekeel/statekeel/status"
)

// member makes a loop a part of chains.
type member = chain.Member

// part is a loop as a part of chains: it is where they end.
type part[Obj any] struct{ l *Loop[Obj] }

func (p part[Obj]) Reads(table string) bool { return table == p.l.rows.Table.Name() }
func (p part[Obj]) Output() string          { return "" }
func (p part[Obj]) DB() *statedb.DB         { return p.l.rows.DB }

func (p part[Obj]) Find(table, text string) (row chain.Row, name string, found bool) {
	key, revision, found := p.l.rows.Find(p.l.rows.DB.ReadTxn(), text)
	return chain.Row{Table: table, Key: string(key), Revision: revision, Gone: !found}, p.l.rows.KeyName(key), found
}

// Follow asks the loop between two rounds: the row that the table has then, or what the core has of its key, tells
// whether the version, or a later one, is in the target.
func (p part[Obj]) Follow(ctx context.Context, row chain.Row) chain.Step {
	held := chain.Held{Table: row.Table, Object: p.l.rows.KeyName([]byte(row.Key))}
	since, err := askBriefly(ctx, p.l.view, func(b *answers[Obj]) *time.Time { return b.appliedAt(row) })
	switch {
	case err != nil:
		held.Why = err.Error()
		return chain.Step{Held: []chain.Held{held}, Silent: true}
	case since != nil:
		return chain.Step{Since: *since}
	}
	return chain.Step{Held: []chain.Held{held}}
}

func (p part[Obj]) Uncertain(ctx context.Context) string {
	why, err := askBriefly(ctx, p.l.view, (*answers[Obj]).uncertain)
	if err != nil {
		return err.Error()
	}
	return why
}

// uncertain says why the target may have what an earlier run has left; empty if it cannot.
func (b *answers[Obj]) uncertain() (why string) {
	r := b.r
	switch {
	case r.left.none || !r.shared.looksByItself():
	case !r.hasLooked:
		why = "the first look at the target is not over, which may have what an earlier run has left"
		if failure := r.reports.view.stats.state.Load().health.PruneFailure; failure != "" {
			why += ": " + failure
		}
	default:
		r.left.none = true
		r.core.Index.UnreconciledKeys(0, func(u core.UnreconciledKey[Obj]) bool {
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

// appliedAt returns the time by which a version of a row, or its deletion, was applied, zero if that is not known; nil
// if it was not applied.
func (b *answers[Obj]) appliedAt(row chain.Row) *time.Time {
	v, key := b.r.reports.view, []byte(row.Key)
	txn := v.rows.DB.ReadTxn()
	obj, revision, found := v.rows.ByKey(txn, key)
	if found {
		if s := v.ledger.Status(txn, obj, revision); s.Kind == status.KindDone && b.r.resync.Wrong(obj) == "" {
			return &s.UpdatedAt
		}
		return nil
	}
	if !row.Gone {
		// It was deleted since, at a revision that is not known.
		row.Revision = v.rows.Table.Revision(txn)
	}
	// The deletion of an orphan has an entry, too.
	if _, has := b.r.core.KeyInfo(row.Key, 0); has || b.r.observer.HandedOverTo() < row.Revision {
		return nil
	}
	return new(time.Time)
}

func (p part[Obj]) Await(ctx context.Context, row chain.Row) error {
	for {
		_, err := p.l.WaitKey(ctx, fmt.Sprintf("%#x", row.Key), Applied)
		if err != nil && !errors.Is(err, inspect.ErrNotFound) {
			return err
		}
		// The repair of a row that a resync has found wrong ends no wait.
		wrong, err := ask(ctx, p.l.view, func(b *answers[Obj]) bool { return b.isWrong(row) })
		if err != nil || !wrong {
			return err
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *answers[Obj]) isWrong(row chain.Row) bool {
	obj, _, found := b.r.shared.rows.ByKey(b.r.shared.rows.DB.ReadTxn(), []byte(row.Key))
	return found && b.r.resync.Wrong(obj) != ""
}

// lookAgain is the time between two looks at a row that waits for its repair.
const lookAgain = 100 * time.Millisecond

func (p part[Obj]) Settled(ctx context.Context) bool {
	_, err := p.l.WaitAll(ctx, Applied)
	return err == nil
}
