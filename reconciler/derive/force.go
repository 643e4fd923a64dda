// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/chain"
	"github.com/statekeel/statekeel/internal/edges"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// member makes a derivation a part of chains.
type member = chain.Hidden[chain.Part]

// part is a derivation as a part of chains.
type part[In, Out any] struct{ d *Derived[In, Out] }

const (
	// answerTimeout bounds the wait for the end of a round.
	answerTimeout = 100 * time.Millisecond
	// lookAgain is the time between two looks at what may end without news.
	lookAgain = 100 * time.Millisecond
	// sweepInterval is the time between two sweeps. In one, settleTimeout bounds the wait until everything is applied; else
	// it looks at maxSwept pairs, one by one, for sweepTimeout.
	sweepInterval = 10 * time.Second
	settleTimeout = 100 * time.Millisecond
	maxSwept      = 2048
	sweepTimeout  = time.Second
)

func (p part[In, Out]) Controller() any                 { return p.d }
func (p part[In, Out]) Tables() []string                { return p.d.names }
func (p part[In, Out]) Output() string                  { return p.d.output.Name() }
func (p part[In, Out]) DB() *statedb.DB                 { return p.d.cfg.DB }
func (p part[In, Out]) Uncertain(context.Context) error { return nil }

func (p part[In, Out]) Settle(ctx context.Context) error {
	_, err := p.d.WaitAll(ctx, reconciler.Applied)
	return err
}

// finder is the rows.Rows of a table.
type finder interface {
	Find(txn statedb.ReadTxn, text string) (key index.Key, revision statedb.Revision, found bool)
	KeyName(key index.Key) string
}

// rowsIn returns the rows of the table of an input.
func (d *Derived[In, Out]) rowsIn(table string) (rows finder) {
	rows = d.in
	for _, one := range d.joins.further {
		if table != d.names[0] && table == one.meta().Name() {
			rows = one.finder()
		}
	}
	return rows
}

func (p part[In, Out]) Find(table, text string) (row chain.Row, name string, found bool) {
	rows := p.d.rowsIn(table)
	key, revision, found := rows.Find(p.d.cfg.DB.ReadTxn(), text)
	return chain.Row{Table: table, Key: string(key), Revision: revision}, rows.KeyName(key), found
}

// nameIn returns the name by which the derivation explains a row of an input.
func (d *Derived[In, Out]) nameIn(row chain.Row) string {
	name := d.rowsIn(row.Table).KeyName([]byte(row.Key))
	if row.Table != d.names[0] {
		name = row.Table + "/" + name
	}
	return name
}

// Follow looks between two rounds: then the claims, the edges and the output belong together, and the answer is never
// about a round that has not written all.
func (p part[In, Out]) Follow(ctx context.Context, row chain.Row) (step chain.Step) {
	if err := p.d.between(ctx, func() { step = p.d.follow(row) }); err != nil {
		step = chain.Step{Held: []chain.Held{{Table: row.Table, Why: err.Error()}}}
	}
	return step
}

func (p part[In, Out]) Await(ctx context.Context, row chain.Row) (step chain.Step, err error) {
	for {
		p.d.mu.Lock()
		changed, condition := p.d.progress.changed, p.d.progress.condition
		p.d.mu.Unlock()
		if step = p.Follow(ctx, row); len(step.Held) == 0 {
			return step, nil
		}
		if condition == inspect.ConditionStopped {
			return step, fmt.Errorf("the derivation of table %q: %w", p.d.output.Name(), inspect.ErrStopped)
		}
		select {
		case <-changed:
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return step, ctx.Err()
		}
	}
}

// between calls f between two rounds of a derivation that runs, and keeps the next one waiting meanwhile.
func (d *Derived[In, Out]) between(ctx context.Context, f func()) error {
	d.mu.Lock()
	condition := d.condition()
	d.mu.Unlock()
	if condition == inspect.ConditionNotStarted || condition == inspect.ConditionStopped {
		return fmt.Errorf("the derivation is %s", condition)
	}
	select {
	case d.inRound <- struct{}{}:
		defer func() { <-d.inRound }()
		f()
		return nil
	case <-time.After(answerTimeout):
	case <-ctx.Done():
	}
	return fmt.Errorf("the derivation is busy: %s", cmp.Or(d.hangs(), "a round takes over 100 ms"))
}

// follow tells what follows from a row of an input. It is called between two rounds.
func (d *Derived[In, Out]) follow(row chain.Row) (s chain.Step) {
	txn, name, output := d.cfg.DB.ReadTxn(), d.nameIn(row), d.output.Name()
	at, lost := slices.Index(d.names, row.Table), &d.joins.lost
	hold := func(table, object, why string) {
		s.Held = append(s.Held, chain.Held{Table: table, Object: object, Why: why})
	}
	keys, err := d.rowsOf(row)
	if err != nil {
		hold(row.Table, name, err.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch unseen := d.unseen(at, row.Revision); {
	case unseen != "", !d.settled:
		hold(row.Table, name, cmp.Or(unseen, underived))
		return s
	case lost.Forgot():
		const forgot = "which rows followed from it before is not remembered, until all that table %q has now is in force"
		hold(row.Table, name, fmt.Sprintf(forgot, output))
	}
	next := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if d.failed.Of(key) != nil {
			hold(d.names[0], d.in.KeyName([]byte(key)), "")
		}
		for _, x := range d.claims.Of(key) {
			if next[x.At.Key] = true; keys[key] && !x.Wins() {
				hold(d.names[0], d.in.KeyName([]byte(key)), fmt.Sprintf("row %s of table %q is that of %s",
					d.out.KeyName([]byte(x.At.Key)), output, d.in.KeyName([]byte(x.At.Heap[0].Of.Key))))
			}
		}
		mark(next, lost.Of(edges.InputRow(key)))
	}
	for _, place := range slices.Sorted(maps.Keys(next)) {
		if p := d.wrong.Of(place); p != nil {
			hold(output, d.out.KeyName([]byte(place)), p.Err.Error())
		}
		s.Next = append(s.Next, d.rowAt(txn, place))
	}
	if _, upTo, ok := d.times[at].Applied(row.Revision); ok {
		s.Since = d.progress.started.Add(upTo)
	}
	return s
}

// rowAt returns the present row of the output at a place, or its deletion.
func (d *Derived[In, Out]) rowAt(txn statedb.ReadTxn, place string) chain.Row {
	_, revision, found := d.out.ByKey(txn, []byte(place))
	if !found {
		revision = d.output.Revision(txn)
	}
	return chain.Row{Table: d.output.Name(), Key: place, Revision: revision}
}

// rowsOf returns the input rows that a row of an input concerns, and whether they do now: itself, and those that have
// looked it up, or did and do not any more.
func (d *Derived[In, Out]) rowsOf(row chain.Row) (keys map[string]bool, err error) {
	keys = map[string]bool{}
	add := func(all iter.Seq[string], now bool) {
		for key := range all {
			keys[key] = keys[key] || now
		}
	}
	if row.Table == d.names[0] {
		keys[row.Key] = true
	}
	d.mu.Lock()
	last := d.joins.last
	d.mu.Unlock()
	for n, one := range d.joins.further {
		if one.meta().Name() != row.Table || last == nil {
			continue
		}
		add(d.joins.lost.Of(edges.FurtherRow(n, row.Key)), false)
		lookups, failed := one.lookupsOf(last, row.Key)
		if failed != nil {
			err = fmt.Errorf("row %s: %w", one.name(row.Key), failed)
		}
		for _, what := range lookups {
			add(d.joins.edges.Rows(what), true)
			add(d.joins.lost.Of(edges.LookedUp(what)), false)
		}
	}
	return keys, err
}

// noteTimes notes that all up to the revisions of this round is derived and written. It is called with mu held.
func (d *Derived[In, Out]) noteTimes() {
	now := time.Since(d.progress.started)
	for i, revision := range d.read {
		d.times[i].Note(now, revision, revision)
	}
}

// lose notes that a subject no longer leads to something, if anybody can ask for it.
func (d *Derived[In, Out]) lose(s edges.Subject, target string) {
	if d.cfg.Registry != nil {
		d.joins.lost.Add(edges.Pair{Subject: s, Target: target}, d.joins.round)
	}
}

// pairsOf returns what leads to an input row, and where that leads, if anybody can ask for it. It is called with mu held.
func (d *Derived[In, Out]) pairsOf(key string) (pairs []edges.Pair) {
	if d.cfg.Registry == nil {
		return nil
	}
	if r := d.joins.edges.Of(key); r != nil {
		for _, what := range r.Lookups(r.Len()) {
			pairs = append(pairs, edges.Pair{Subject: edges.LookedUp(what), Target: key})
		}
	}
	row := edges.InputRow(key)
	for _, x := range d.claims.Of(key) {
		pairs = append(pairs, edges.Pair{Subject: row, Target: x.At.Key})
	}
	return pairs
}

// losePairs notes which pairs of an input row came apart, which were those before. It is called with mu held.
func (d *Derived[In, Out]) losePairs(key string, before []edges.Pair) {
	now := d.pairsOf(key)
	if slices.Equal(before, now) {
		return
	}
	has := make(map[edges.Pair]bool, len(now))
	for _, one := range now {
		has[one] = true
	}
	for _, one := range before {
		if !has[one] {
			d.lose(one.Subject, one.Target)
		}
	}
}

// sweep removes the pairs that came apart and are in force. What was forgotten may be anything behind the output: it ends
// when all that is there now has been applied once. What fails keeps that up, since it may have what was forgotten.
func (d *Derived[In, Out]) sweep(ctx context.Context) {
	var pairs []edges.Pair
	var round, known uint64
	forgot, lost := false, &d.joins.lost
	err := d.between(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.settled {
			return
		}
		round, forgot = d.joins.round, lost.Forgot()
		pairs = slices.DeleteFunc(lost.All(), d.inDoubt)
		if d.failed.Len()+d.wrong.Len() == 0 && (d.pruned || d.output.NumObjects(d.cfg.DB.ReadTxn()) <= len(d.claims.Places)) {
			known = round // else there are rows of an earlier derivation, or of what was derived before a failure
		}
	})
	if err != nil || len(pairs) == 0 && !forgot {
		return
	}
	parts, patience := chain.PartsOf(d.cfg.Registry), ctx
	if !forgot {
		brief, cancel := context.WithTimeout(ctx, settleTimeout)
		defer cancel()
		patience = brief
	}
	if parts.Settle(patience, d.output.Name()) != nil {
		brief, cancel := context.WithTimeout(ctx, sweepTimeout)
		defer cancel()
		pairs = slices.DeleteFunc(pairs[:min(len(pairs), maxSwept)], func(one edges.Pair) bool {
			return brief.Err() != nil || len(parts.Walk(brief, d.endOf(one)).Held) > 0
		})
		known = 0
	}
	_ = d.between(ctx, func() {
		lost.Remove(pairs, round)
		lost.Remember(known)
	})
}

// inDoubt reports whether the output may still have what a pair led to, since that has failed. It is called with mu held.
func (d *Derived[In, Out]) inDoubt(one edges.Pair) bool {
	isWrong := func(place string) bool { return d.wrong.Of(place) != nil }
	if one.Subject.IsInputRow() {
		return isWrong(one.Target)
	}
	return d.errorOf(one.Target) != nil || slices.ContainsFunc(slices.Collect(d.joins.lost.Of(edges.InputRow(one.Target))), isWrong)
}

// endOf returns the row that a pair leads to: all up to its round is derived.
func (d *Derived[In, Out]) endOf(one edges.Pair) chain.Row {
	if one.Subject.IsInputRow() {
		return d.rowAt(d.cfg.DB.ReadTxn(), one.Target)
	}
	return chain.Row{Table: d.names[0], Key: one.Target}
}
