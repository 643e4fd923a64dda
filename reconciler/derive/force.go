// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 Authors of Statekeel

package derive

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cilium/statedb"
	"github.com/cilium/statedb/index"

	"github.com/statekeel/statekeel/internal/chain"
	"github.com/statekeel/statekeel/internal/claims"
	"github.com/statekeel/statekeel/internal/edges"
	"github.com/statekeel/statekeel/reconciler"
	"github.com/statekeel/statekeel/reconciler/inspect"
)

// member makes a derivation a part of chains.
type member = chain.Member

// part is a derivation as a part of chains.
type part[In, Out any] struct{ d *Derived[In, Out] }

const (
	// answerTimeout bounds the wait for the end of a round.
	answerTimeout = 100 * time.Millisecond
	// lookAgain is the time between two looks at what may end without news.
	lookAgain = time.Second
	// maxSwept bounds the pairs that one sweep looks at, one by one, and settleTimeout the wait of each part before.
	maxSwept      = 2048
	settleTimeout = 100 * time.Millisecond
	// sweepTimeout bounds the time for the pairs of a sweep, since hanging functions are reported after it.
	sweepTimeout = time.Second
)

func (p part[In, Out]) Reads(table string) bool { return slices.Contains(p.d.names, table) }
func (p part[In, Out]) Output() string          { return p.d.output.Name() }
func (p part[In, Out]) DB() *statedb.DB         { return p.d.cfg.DB }

func (p part[In, Out]) Find(table, text string) (row chain.Row, name string, found bool) {
	txn := p.d.cfg.DB.ReadTxn()
	row.Table = table
	var key index.Key
	if table == p.d.names[0] {
		key, row.Revision, found = p.d.in.Find(txn, text)
		name = p.d.in.KeyName(key)
	}
	for _, one := range p.d.joins.further {
		if name == "" && one.meta().Name() == table {
			key, row.Revision, name, found = one.find(txn, text)
		}
	}
	row.Key, row.Gone = string(key), !found
	return row, name, found
}

// Follow asks the goroutine of the derivation, which answers between two rounds: then the claims, the edges and the
// output belong together, and the answer is never about a round that has not written all.
func (p part[In, Out]) Follow(ctx context.Context, row chain.Row) (step chain.Step) {
	if err := p.ask(ctx, func() { step = p.d.follow(row) }); err != nil {
		return chain.Step{Held: []chain.Held{{Table: row.Table, Object: p.d.nameIn(row), Why: err.Error()}}, Silent: true}
	}
	return step
}

// ask has the goroutine of the derivation call f between two rounds.
func (p part[In, Out]) ask(ctx context.Context, f func()) error {
	d, answered := p.d, make(chan struct{})
	withdrawn := make(chan struct{}, 1)
	d.mu.Lock()
	if condition := d.condition(); condition == inspect.ConditionNotStarted || condition == inspect.ConditionStopped {
		d.mu.Unlock()
		return fmt.Errorf("the derivation is %s", condition)
	}
	question := func() {
		select {
		case withdrawn <- struct{}{}:
			f()
			close(answered)
		default:
		}
	}
	d.questions[&question] = struct{}{}
	d.mu.Unlock()
	d.wake.Send()
	late := time.NewTimer(answerTimeout)
	defer late.Stop()
	select {
	case <-answered:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	select {
	case withdrawn <- struct{}{}:
		d.mu.Lock()
		delete(d.questions, &question)
		d.mu.Unlock()
		return fmt.Errorf("the derivation is busy: %s", cmp.Or(d.hangs(), "a round takes over 100 ms"))
	case <-answered:
		return nil
	}
}

// answer answers questions. It is called between two rounds.
func (d *Derived[In, Out]) answer() {
	d.mu.Lock()
	questions := slices.Collect(maps.Keys(d.questions))
	clear(d.questions)
	d.mu.Unlock()
	for _, one := range questions {
		(*one)()
	}
}

// nameIn returns the name of a row of an input.
func (d *Derived[In, Out]) nameIn(row chain.Row) string {
	if row.Table == d.names[0] {
		return d.in.KeyName([]byte(row.Key))
	}
	for _, one := range d.joins.further {
		if one.meta().Name() == row.Table {
			return one.name(row.Key)
		}
	}
	return row.Key
}

// follow tells what follows from a row of an input. It is called on the goroutine of the derivation.
func (d *Derived[In, Out]) follow(row chain.Row) (s chain.Step) {
	hold := func(table, object, why string) {
		s.Held = append(s.Held, chain.Held{Table: table, Object: object, Why: why})
	}
	txn, name := d.cfg.DB.ReadTxn(), d.nameIn(row)
	at := slices.Index(d.names, row.Table)
	switch input, has := d.published.Get(txn, row.Table); {
	case !d.settled, !has, input.Input < row.Revision:
		d.mu.Lock()
		defer d.mu.Unlock()
		const unwritten = "the derivation has not derived and written this version of the row yet"
		hold(row.Table, name, cmp.Or(d.unseen(at, row.Revision), unwritten))
		return s
	case !d.pruned && d.output.NumObjects(txn) > len(d.claims.Places)-d.wrong.Len():
		hold(row.Table, name, fmt.Sprintf("table %q still has rows of an earlier derivation, until the inputs are initialised",
			d.output.Name()))
	case d.joins.lost.Forgot():
		const forgot = "which rows followed from it before is not remembered: that ends when all of table %q is in force"
		hold(row.Table, name, fmt.Sprintf(forgot, d.output.Name()))
	}
	keys, err := d.rowsOf(row)
	if err != nil {
		hold(row.Table, name, err.Error())
	}
	next := map[string]bool{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if p := d.failed.Of(key); p != nil {
			hold(d.names[0], d.in.KeyName([]byte(key)), "")
		}
		for _, x := range d.claims.Of(key) {
			if next[x.At.Key] = true; !x.Wins() {
				hold(d.names[0], d.in.KeyName([]byte(key)), fmt.Sprintf("row %s of table %q is that of %s",
					d.out.KeyName([]byte(x.At.Key)), d.output.Name(), d.in.KeyName([]byte(x.At.Heap[0].Of.Key))))
			}
		}
		for place := range d.joins.lost.Of(edges.InputRow(key)) {
			next[place] = true
		}
	}
	for place := range d.joins.lost.Of(edges.Unknown()) {
		next[place] = true
	}
	for _, place := range slices.Sorted(maps.Keys(next)) {
		if p := d.wrong.Of(place); p != nil {
			hold(d.output.Name(), d.out.KeyName([]byte(place)), p.Err.Error())
		}
		s.Next = append(s.Next, d.rowOf(txn, place))
	}
	s.Since = d.derivedAt(at, row.Revision)
	return s
}

// rowOf returns the present row of the output at a place, or its deletion.
func (d *Derived[In, Out]) rowOf(txn statedb.ReadTxn, place string) chain.Row {
	_, revision, found := d.out.ByKey(txn, []byte(place))
	if !found {
		revision = d.output.Revision(txn)
	}
	return chain.Row{Table: d.output.Name(), Key: place, Revision: revision, Gone: !found}
}

// rowsOf returns the input rows that a row of an input concerns: itself, and those that have looked it up, or did and do
// not any more.
func (d *Derived[In, Out]) rowsOf(row chain.Row) (keys map[string]bool, err error) {
	keys = map[string]bool{}
	if row.Table == d.names[0] {
		keys[row.Key] = true
	}
	for n, one := range d.joins.further {
		if one.meta().Name() != row.Table {
			continue
		}
		for key := range d.joins.lost.Of(edges.FurtherRow(n, row.Key)) {
			keys[key] = true
		}
		lookups, failed := one.lookupsOf(d.joins.last, row.Key)
		if failed != nil {
			err = fmt.Errorf("row %s: %w", one.name(row.Key), failed)
		}
		for _, what := range lookups {
			for key := range d.joins.edges.Rows(what) {
				keys[key] = true
			}
			for key := range d.joins.lost.Of(edges.LookedUp(what)) {
				keys[key] = true
			}
		}
	}
	return keys, err
}

// derivedAt returns when a revision of the table of an input had been derived and written. It is called with mu held.
func (d *Derived[In, Out]) derivedAt(table int, revision statedb.Revision) (at time.Time) {
	if _, upTo, ok := d.times[table].Applied(revision); ok {
		at = d.progress.started.Add(upTo)
	}
	return at
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
		d.joins.lost.Add(edges.Pair{Subject: s, Target: target, Of: d.joins.round})
	}
}

// loseEdges notes which look-ups of an input row are gone, which were those before. It is called with mu held.
func (d *Derived[In, Out]) loseEdges(key string, before []edges.Lookup) {
	var now []edges.Lookup
	if r := d.joins.edges.Of(key); r != nil && len(before) > 0 {
		now = r.Lookups(r.Len())
	}
	for _, what := range before {
		if _, is := slices.BinarySearch(now, what); !is {
			d.lose(edges.LookedUp(what), key)
		}
	}
}

// losePlaces notes which places an input row does not want any more, which wanted those before.
func (d *Derived[In, Out]) losePlaces(key string, before []*claims.Claim[In, Out]) {
	if len(before) == 0 || d.cfg.Registry == nil {
		return
	}
	now := map[string]bool{}
	for _, x := range d.claims.Of(key) {
		now[x.At.Key] = true
	}
	for _, x := range before {
		if !now[x.At.Key] {
			d.lose(edges.InputRow(key), x.At.Key)
		}
	}
}

func (p part[In, Out]) Uncertain(context.Context) string { return "" }

func (p part[In, Out]) Await(ctx context.Context, row chain.Row) error {
	p.d.mu.Lock()
	stopped := p.d.condition() == inspect.ConditionStopped
	p.d.mu.Unlock()
	if stopped {
		return fmt.Errorf("the derivation of table %q: %w", p.d.output.Name(), inspect.ErrStopped)
	}
	// It may stop before.
	brief, cancel := context.WithTimeout(ctx, lookAgain)
	defer cancel()
	if _, _, err := p.d.published.Await(brief, p.d.cfg.DB, row.Table, row.Revision); err != nil {
		return ctx.Err()
	}
	p.d.mu.Lock()
	changed := p.d.progress.changed
	p.d.mu.Unlock()
	// After the channel was read, so that no change is missed.
	if len(p.Follow(ctx, row).Held) == 0 {
		return nil
	}
	again := time.NewTimer(lookAgain)
	defer again.Stop()
	select {
	case <-changed:
	case <-again.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (p part[In, Out]) Settled(ctx context.Context) bool {
	_, err := p.d.WaitAll(ctx, reconciler.Applied)
	return err == nil
}

// sweep removes the pairs that came apart and are in force.
func (d *Derived[In, Out]) sweep(ctx context.Context) {
	if d.cfg.Registry == nil {
		return
	}
	p := part[In, Out]{d}
	var pairs []edges.Pair
	var round uint64
	any := false
	if err := p.ask(ctx, func() {
		lost := &d.joins.lost
		pairs, round, any = lost.All(), d.joins.round, d.settled && (lost.Forgot() || lost.Len() > 0)
	}); err != nil || !any {
		return
	}
	parts := chain.PartsOf(d.cfg.Registry)
	if settled(ctx, parts, d.output.Name()) {
		_ = p.ask(ctx, func() { d.joins.lost.RemoveUpTo(round) })
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	over := slices.DeleteFunc(pairs[:min(len(pairs), maxSwept)], func(one edges.Pair) bool {
		row := chain.Row{Table: d.names[0], Key: one.Target}
		txn := d.cfg.DB.ReadTxn()
		if row.Revision = d.in.Table.Revision(txn); one.Subject.Places() {
			row = d.rowOf(txn, one.Target)
		}
		return ctx.Err() != nil || len(parts.Walk(ctx, row).Held) > 0
	})
	_ = p.ask(ctx, func() {
		for _, one := range over {
			d.joins.lost.Remove(one)
		}
	})
}

func settled(ctx context.Context, parts *chain.Parts, table string) bool {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	return parts.Settled(ctx, table)
}
